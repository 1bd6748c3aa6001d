"""Runs checks and comparisons on the tensors from which a training computes its losses."""

from __future__ import annotations

import math
from typing import Any

from tocsin.model import COMPETING, Mode
from torch import Tensor, nn

from tocsin_hooks.looks import Wanted
from tocsin_hooks.torch import events
from tocsin_hooks.torch.autograd import compilations
from tocsin_hooks.torch.calls.loss_call import LossCall
from tocsin_hooks.torch.calls.recorded_call import RecordedCall
from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.capture.given_inputs import GivenInputs
from tocsin_hooks.torch.capture.operands import Operands
from tocsin_hooks.torch.capture.seen_samples import SeenSamples
from tocsin_hooks.torch.capture.spread import Spread
from tocsin_hooks.torch.capture.step_loss import StepLoss
from tocsin_hooks.torch.comparisons.skill import Skill
from tocsin_hooks.torch.contracts.agreement import Agreement
from tocsin_hooks.torch.contracts.all import CONTRACTS
from tocsin_hooks.torch.contracts.findings import Findings
from tocsin_hooks.torch.contracts.target_network import TargetNetwork
from tocsin_hooks.torch.contracts.updates import UpdateContracts
from tocsin_hooks.torch.custom.running import CustomChecks
from tocsin_hooks.torch.dispatcher import Dispatcher
from tocsin_hooks.torch.graph import is_gap
from tocsin_hooks.torch.look_schedule import LookSchedule
from tocsin_hooks.torch.loss_calls import Listener, LossWindow
from tocsin_hooks.torch.loss_comparisons import LossComparisons
from tocsin_hooks.torch.names import class_name
from tocsin_hooks.torch.opponents import Opponents
from tocsin_hooks.torch.outermost_calls import Call

_MOST_OF_STEP = 8192  # calls after a pass, or before one that is not seen: an episode has more
_MOST_CALLS = 256  # after a pass that is one of many, among which its loss is looked for


class Checks:
    """Watches calls of loss functions from the forward pass to the backward pass, and sends events
    to the checks.

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
        self._wanted = wanted = Wanted(step.hook)
        self.events = Dispatcher(step.hook.trouble, lambda: wanted.contracts)
        self._found = Findings(step)
        self._copies = TargetNetwork(self._found)
        self._agreement = Agreement(self._found)
        self._updates = UpdateContracts(self._found)
        self.events.add(*(make(self._found) for make in CONTRACTS))
        self.events.add(self._agreement, self._updates, self._copies, self._found)
        self._opponents = Opponents(self._compete)
        self._when = LookSchedule(step, wanted, self._updates, self._opponents)
        self._losses = LossComparisons(step, loss, self._skill, self._when)
        self._calls = Listener(
            events=self.events,
            loss=self._loss,
            backward=self._backward,
            recorded=self._recorded,
            left=self._losses.evaluated.left,
            tape=self._losses.tape,
            trouble=step.hook.trouble,
            meter=step.hook.measured(),
        )
        self._window = LossWindow(self._calls)
        self._custom: CustomChecks | None = None
        step.before_end.append(self._flush)

    def add(self, custom: CustomChecks) -> None:
        """Send events to the checks of a user as well."""
        self._custom = custom
        custom.join(self.events)

    @property
    def _is_due(self) -> bool:
        """Return whether Tocsin's checks or those of a user need the calls of this pass."""
        return self._when.is_due or (self._custom is not None and self._custom.hears_losses)

    def forward_begins(self, root: Any, args: Any, kwargs: Any, *, compiled: bool) -> None:
        self._when.forward_begins()
        self._opponents.passed()
        self._calls.inside, self._calls.calls_left = True, math.inf
        self._operands.begin_pass()
        self.events.tell(events.PassBegins)
        if self._losses.forward_begins():
            self.events.tell(events.LossForgotten)
        if compiled:
            self.close()
            return
        if self._is_first_saved:
            self._spread.forward_begins(root)
        samples = self._wanted.samples and (self._samples.is_due or self._held_out.is_due)
        if not (self._wanted.contracts or samples or self._is_due):
            return
        self._given(class_name(root), args, kwargs)
        self.events.tell(
            events.ModelCalled,
            root,
            alone=self._calls.inputs.are_one_sample,
            trains=self._step.mode is Mode.TRAIN,
            judged=self._step.has_losses,
            first=self._is_first_of_updates,
        )
        if not self._is_due:
            return
        if self._step.mode is Mode.TRAIN:
            looks = not self._when.is_one_of_many
        else:  # some modules compute in another way while there is a mode
            looks = self._when.compares and not _has_fast_path(root)
        if looks:
            self._window.open()

    @property
    def look(self) -> bool:
        """Return whether a check needs steps that are not saved."""
        custom = self._custom is not None and self._custom.look
        every_step = self._when.is_every_step
        return every_step or custom or self._agreement.look or self._copies.look

    @property
    def values_actions(self) -> bool:
        """Return whether the model draws actions, as a policy does, or learns their values from a
        copy of itself.
        """
        return self._losses.draws or self._copies.are_known

    def _given(self, own: str, args: Any, kwargs: Any, *, whole: bool = True) -> None:
        """Record the inputs of a model: samples, usually. A part of it may get only the positions
        of tokens.
        """
        inputs = self._calls.inputs = GivenInputs(own, args, kwargs)
        numbers = whole or any(each.is_floating_point() for each in inputs.tensors)
        if self._wanted.samples and inputs and numbers:
            for sketch in (self._samples, self._held_out):
                if sketch.is_due:
                    with self._step.hook.measured():
                        sketch.forward_begins(inputs.tensors)
        self.events.tell(events.InputsGiven, inputs, first=self._is_first_of_updates)

    def forward_ends(self, root: Any, output: Any, *, compiled: bool) -> None:
        self._goes_outside()
        self.events.tell(events.PassEnds)
        if not compiled:
            self._ended(class_name(root), output)
        if self._is_due and not (compiled and self._step.mode is not Mode.TRAIN):
            self._window.open()
        if self._window.is_open and self._when.is_due:
            self._losses.forward_ended(output)

    def _goes_outside(self) -> None:
        """Treat the next calls as outside the model: its loss follows."""
        self._calls.inside = False
        self._calls.calls_left = _MOST_CALLS if self._when.is_one_of_many else _MOST_OF_STEP

    def _ended(self, name: str, output: Any) -> None:
        if self._is_first_saved:
            self._spread.forward_ended(name, output)

    @property
    def _is_first_saved(self) -> bool:
        """Return whether the current pass is the first of a saved training step."""
        step = self._step
        return step.saving and step.passes == 1 and step.mode is Mode.TRAIN

    @property
    def _is_first_of_updates(self) -> bool:
        """Return whether the pass in hand is the first of a saved step, before enough updates."""
        return self._step.saving and self._step.passes == 1 and not self._updates.over

    def model_called(self, call: Call) -> None:
        """Handle a call of the model by its trainer, in a forward pass that has not ended."""
        self._goes_outside()
        if call.first:
            self._given(call.name, call.args, call.kwargs, whole=call.whole)
            self._ended(call.name, call.output)
        if self._window.is_open:
            self._losses.forward_ended(call.output)

    def breaks(self, contract: str, place: str) -> None:
        """Record that a trainer has found a broken contract."""
        if self._wanted.contracts:
            self._found(contract, place)

    def step_begins(self, *, compiled: bool) -> None:
        """A step has begun whose forward passes are not seen, so compiled code may run in it."""
        self._when.step_begins()
        self._calls.inside, self._calls.inputs = False, GivenInputs()
        self._calls.calls_left = _MOST_OF_STEP
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
        if held:
            self.events.tell(events.UpdateBegins, root, optimizer, seen=seen, closure=closure)
        else:
            self.events.tell(events.OtherUpdateBegins, root, optimizer)
        self._opponents.update_begins(optimizer, held=held)

    def update_ends(self, root: Any, optimizer: Any) -> None:
        self.close()
        self._opponents.updated(optimizer)
        self.events.tell(events.UpdateEnds, root, optimizer)

    def _compete(self) -> None:
        self.events.tell(events.OpponentsKnown)
        self._competes()

    def _competes(self) -> None:
        """Record that the loss belongs to a competition: its value does not show progress."""
        self._skill.forget()
        self._step.loss_kind = COMPETING

    def pause(self) -> None:
        """Stop watching until the next forward pass has ended."""
        self._window.close()
        self._spread.close()
        self.events.tell(events.PassForgotten)
        self._calls.inputs = GivenInputs()

    def close(self) -> None:
        self.pause()
        self.events.tell(events.LossForgotten)
        self._losses.forget()

    def training_ends(self, root: Any) -> None:
        """Handle the end of the training, after the current step. The model may be gone."""
        self.events.tell(events.TrainingEnds, root)

    @property
    def has_more(self) -> bool:
        """Return whether there are findings that no saved step has."""
        contracts = self._wanted.contracts and self._found.has_more
        return contracts or (self._custom is not None and self._custom.has_more)

    # What the window shows.

    def _loss(self, call: LossCall) -> None:
        inputs = self._calls.inputs
        if not self._calls.inside and self._losses.evaluated.is_guess(call, inputs.tensors):
            return
        self.events.tell(events.LossComputed, call, tuple(inputs.tensors))
        if not self._when.is_due:
            return
        if self._step.saving:
            self._step_loss.called(call)
            if (label := inputs.label_name(call.target)) is not None:
                self._step.labels.add(label)
            self._operands.called(call)
            self._spread.compared(call.prediction)
        self._losses.called(call, inside=self._calls.inside)

    def _recorded(self, call: RecordedCall, found: Any) -> None:
        """A call in an evaluation may give a loss of training, or compare what is predicted."""
        if not self._calls.inside and self._losses.recorded(call, found):
            self.events.tell(events.PartComputed, call)

    def _backward(self, loss: Any) -> None:
        self._opponents.passed()
        self.events.tell(events.Backward, loss, self._losses.tape.outputs, self._calls.inputs)
        looks = self._wanted.contracts and self._step.saving and isinstance(loss, Tensor)
        if looks and is_gap(loss):
            self._competes()
        unordered = self._losses.backward(loss)
        if unordered is not None:
            self.events.tell(events.OrderIgnored, unordered)

    def _flush(self) -> None:
        if self._step.evaluates:
            self._losses.evaluated.flush()
            self._held_out.flush()
        if self._step.trains:
            self._samples.flush()
        self._spread.flush()
        if not self._opponents.are_known:
            self._skill.flush()
        self.events.tell(events.SavedStepEnds, self._step.evaluates, self._step.loss)
        self._found.flush()
        if self._custom is not None:
            self._custom.flush()


def _has_fast_path(root: Any) -> bool:
    attention = (nn.MultiheadAttention, nn.TransformerEncoder, nn.TransformerEncoderLayer)
    return any(isinstance(each, attention) for each in root.modules())
