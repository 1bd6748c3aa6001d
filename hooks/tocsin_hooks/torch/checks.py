"""Checks and comparisons of what a training computes its losses from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin.model import COMPETING, Mode
from torch import Tensor, nn

from tocsin_hooks.looks import Wanted
from tocsin_hooks.torch.autograd import compilations
from tocsin_hooks.torch.calls.loss_call import LossCall
from tocsin_hooks.torch.calls.loss_calls import Listener, LossWindow
from tocsin_hooks.torch.calls.recorded_call import RecordedCall
from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.capture.given_inputs import GivenInputs
from tocsin_hooks.torch.capture.operands import Operands
from tocsin_hooks.torch.capture.seen_samples import SeenSamples
from tocsin_hooks.torch.capture.spread import Spread
from tocsin_hooks.torch.capture.step_loss import StepLoss
from tocsin_hooks.torch.comparisons.skill import Skill
from tocsin_hooks.torch.competition import Competition
from tocsin_hooks.torch.contracts.training import TrainingContracts
from tocsin_hooks.torch.custom.events import LossComputed
from tocsin_hooks.torch.custom.running import CustomChecks
from tocsin_hooks.torch.graph import is_gap
from tocsin_hooks.torch.look_schedule import LookSchedule
from tocsin_hooks.torch.loss_comparisons import LossComparisons
from tocsin_hooks.torch.names import class_name
from tocsin_hooks.torch.outermost_calls import Call


class Checks:
    """Looks at calls of losses during forward passes and until gradients are computed.

    Where two optimizers take turns, as in a GAN, a loss that gets no better means nothing: nothing
    is compared there.
    """

    def __init__(self, step: CurrentStep, loss: StepLoss) -> None:
        self._step = step
        self._step_loss = loss
        self._skill = Skill(step)
        self._operands = Operands(step)
        self._spread = Spread(step)
        self._samples = SeenSamples(step)
        self._held_out = SeenSamples(step, evaluates=True)
        wanted = Wanted(step.hook)
        contracts = self._contracts = TrainingContracts(step, wanted)
        self._competition = Competition(
            self._competes, contracts.opponents_agree, step.hook.trouble
        )
        self._when = LookSchedule(step, wanted, contracts.loop, self._competition)
        self._losses = LossComparisons(step, loss, self._skill, self._when)
        hook = step.hook
        self._window = LossWindow(
            Listener(
                loss=self._loss,
                difference=self._difference,
                product=self._product,
                backward=self._backward,
                after_backward=contracts.loop.updates.after_backward,
                recorded=self._recorded,
                left=self._left,
                detached=contracts.detached,
                dropped=self._dropped,
                limited=contracts.undefined.called,
                derived=self._derived,
                derivatives=contracts.derivatives,
                axes=contracts.axes,
                draws=contracts.draws,
                tape=self._losses.tape,
                trouble=hook.trouble,
                meter=hook.measured(),
            )
        )
        self._inputs = GivenInputs()
        self._inside = False  # of a forward pass
        self._custom: CustomChecks | None = None
        step.before_end.append(self._flush)

    def add(self, custom: CustomChecks) -> None:
        """Give events to the checks of a user as well."""
        self._custom = custom
        self._step.at_end = custom.step_ends

    @property
    def _is_due(self) -> bool:
        """Return whether calls of this pass are looked at, here or by the checks of a user."""
        return self._when.is_due or (
            self._custom is not None and self._step.trains and self._custom.takes(LossComputed)
        )

    def forward_begins(self, root: Any, args: Any, kwargs: Any, *, compiled: bool) -> None:
        self._when.forward_begins()
        self._competition.passed()
        self._inside = True
        self._operands.begin_pass()
        self._contracts.begin_pass(first=self._losses.forward_begins())
        if compiled:
            self.close()
            return
        if self._is_first_saved:
            self._spread.forward_begins(root)
        samples = self._samples.is_due or self._held_out.is_due
        samples = samples and self._when.wants_samples
        if not (self._when.wants_contracts or samples or self._is_due):
            return
        self._given(class_name(root), args, kwargs)
        self._contracts.forward_begins(root, alone=self._inputs.are_one_sample)
        if not self._is_due:
            return
        # In evaluation some modules compute in another way while there is a mode.
        if self._step.mode is Mode.TRAIN or (self._when.compares and not _has_fast_path(root)):
            self._window.open()

    @property
    def look(self) -> bool:
        """Return whether anything looks at steps that are not saved."""
        custom = self._custom is not None and self._custom.look
        every_step = self._when.is_every_step
        return every_step or custom or self._competition.looks or self._contracts.look

    def skipped(self, updates: Mapping[Any, int]) -> None:
        """There were so many updates by each optimizer that nothing looked at."""
        self._contracts.skipped(updates)

    @property
    def values_actions(self) -> bool:
        """Return whether what is trained draws actions, as a policy does, or learns their values
        from a copy of itself, as where they were recorded before."""
        return self._losses.draws or self._contracts.learns_by_a_copy

    def acts(self, root: Any, *, alone: bool) -> None:
        """The model is called without gradients, and no step begins; ``alone``: one sample."""
        self._contracts.acts(root, alone=alone)

    def _given(self, own: str, args: Any, kwargs: Any, *, whole: bool = True) -> None:
        """A model is given these arguments: inputs of samples, as a rule. A part of it may be given
        but the places of tokens."""
        self._inputs = GivenInputs(own, args, kwargs)
        numbers = whole or any(each.is_floating_point() for each in self._inputs.tensors)
        if self._when.wants_samples and self._inputs and numbers:
            for sketch in (self._samples, self._held_out):
                if sketch.is_due:
                    with self._step.hook.measured():
                        sketch.forward_begins(self._inputs.tensors)
        self._contracts.given(self._inputs)

    def forward_ends(self, root: Any, output: Any, *, compiled: bool) -> None:
        self._inside = False
        self._contracts.forward_ends()
        if not compiled:
            self._ended(class_name(root), output)
        if self._is_due and not (compiled and self._step.mode is not Mode.TRAIN):
            self._window.open()
        if self._window.is_open and self._when.is_due:
            self._losses.forward_ended(output)

    def _ended(self, name: str, output: Any) -> None:
        if self._is_first_saved:
            self._spread.forward_ended(name, output)

    @property
    def _is_first_saved(self) -> bool:
        """Return whether the pass in hand is the first of a step of training that is saved."""
        step = self._step
        return step.saving and step.passes == 1 and step.mode is Mode.TRAIN

    def model_called(self, call: Call) -> None:
        """The model has been called by its trainer, in a forward pass that has not ended."""
        self._inside = False
        if call.first:
            self._given(call.name, call.args, call.kwargs, whole=call.whole)
            self._ended(call.name, call.output)
        if self._window.is_open:
            self._losses.forward_ended(call.output)

    def breaks(self, contract: str, place: str) -> None:
        """A trainer has found that a contract is broken there."""
        self._contracts.breaks(contract, place)

    def step_begins(self, *, compiled: bool) -> None:
        """A step has begun whose forward passes are not seen, so compiled code may run in it."""
        self._when.step_begins()
        self._inside, self._inputs = False, GivenInputs()
        self._skill.begin_pass()
        self._operands.begin_pass()
        if not compiled and not compilations() and self._is_due:
            self._window.open()

    def called_aside(self) -> None:
        """A part was called that trains nothing, as by a policy that acts: do not look at what
        becomes of that."""
        self._window.close()

    def part_begins(self) -> None:
        """A part is called in training, and not the model: look at calls again."""
        if self._is_due and not compilations():
            self._window.open()

    def update_begins(self, root: Any, optimizer: Any, *, held: bool, closure: bool) -> None:
        seen = self._window.is_open
        self._losses.update_begins()
        if not closure:
            self.close()
        looks = self._when.wants_contracts
        self._competition.update_begins(optimizer, held=held, looks=looks)
        self._contracts.update_begins(root, optimizer, held=held, seen=seen, closure=closure)
        if self._custom is not None and held:
            self._custom.update_begins(root, optimizer)

    def update_ends(self, root: Any, optimizer: Any) -> None:
        self.close()
        self._competition.updated(optimizer, looks=self._when.wants_contracts)
        self._contracts.update_ends(root, optimizer)
        if self._custom is not None:
            self._custom.update_ends(root, optimizer)

    def _competes(self) -> None:
        """The loss has no level that is good."""
        self._skill.forget()
        self._step.loss_kind = COMPETING

    def pause(self) -> None:
        """Look at nothing until the next forward pass has ended."""
        self._window.close()
        self._spread.close()
        self._contracts.pause()
        self._inputs = GivenInputs()

    def close(self) -> None:
        self.pause()
        self._contracts.close()
        self._losses.forget()

    def training_ends(self, root: Any) -> None:
        """No step comes after the one in hand. The model may be gone."""
        self._competition.close()
        self._contracts.training_ends(root)

    @property
    def has_more(self) -> bool:
        """Return whether something was found that no saved step holds."""
        return self._contracts.has_more or (self._custom is not None and self._custom.has_more)

    # What the window shows.

    def _loss(self, call: LossCall) -> None:
        with self._step.hook.measured():
            if not self._inside and self._losses.is_guess(call, self._inputs.tensors):
                return
            if self._custom is not None:
                self._custom.loss(call, self._inputs.tensors)
                if not self._when.is_due:
                    return
            if self._step.saving:
                self._step_loss.called(call)
                if (label := self._inputs.label_name(call.target)) is not None:
                    self._step.labels.add(label)
                self._operands.called(call)
                self._spread.compared(call.prediction)
                self._contracts.loss(call, self._inputs)
            self._losses.called(call, inside=self._inside)

    def _difference(self, one: Any, other: Any, result: Any) -> None:
        if not self._inside:
            self._contracts.difference(one, other, result, self._inputs)

    def _product(self, one: Any, other: Any, result: Any) -> None:
        if not self._inside:
            self._contracts.product(one, other, result, self._inputs)

    def _derived(self, inputs: Any, found: Any) -> None:
        if not self._inside:
            self._contracts.derived(inputs, found)

    def _dropped(self, share: float, found: Any) -> None:
        if self._inside:
            self._contracts.dropped(share, found)

    def _recorded(self, call: RecordedCall, found: Any) -> None:
        """A call in an evaluation may give a loss of training, or compare what is predicted."""
        if not self._inside and self._losses.recorded(call, found):
            self._contracts.part_of_loss(call)

    def _backward(self, loss: Any) -> None:
        self._competition.passed()
        self._contracts.backward(loss, self._losses.tape.outputs, self._inputs)
        if self._when.wants_contracts and self._step.saving and isinstance(loss, Tensor):
            with self._step.hook.measured():
                if is_gap(loss):
                    self._competes()
        unordered = self._losses.backward(loss)
        if unordered is not None:
            self._contracts.loss_ignores_order(unordered)

    def _left(self, tensor: Any, asked: int | None) -> None:
        """A tensor has become an array or a list, or is ``asked`` where it is that class: labels,
        perhaps."""
        if self._step.evaluates and not self._inside:
            self._losses.left(tensor, asked)

    def _flush(self) -> None:
        if self._step.evaluates:
            self._losses.flush()
            self._held_out.flush()
        if self._step.trains:
            self._samples.flush()
        self._spread.flush()
        if not self._competition.is_known:
            self._skill.flush()
        self._contracts.flush()
        if self._custom is not None:
            self._custom.flush()


def _has_fast_path(root: Any) -> bool:
    attention = (nn.MultiheadAttention, nn.TransformerEncoder, nn.TransformerEncoderLayer)
    return any(isinstance(each, attention) for each in root.modules())
