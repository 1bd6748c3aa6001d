"""The contracts of a training: what must hold of its loop, of its losses and of their parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin.model import Mode

from tocsin_hooks.guard import Guard
from tocsin_hooks.looks import Wanted
from tocsin_hooks.torch.calls.axes import Axes
from tocsin_hooks.torch.calls.derivatives import Derivatives
from tocsin_hooks.torch.calls.loss_call import LossCall
from tocsin_hooks.torch.calls.picked_classes import picked_classes
from tocsin_hooks.torch.calls.recorded_call import RecordedCall
from tocsin_hooks.torch.calls.sampled_actions import SampledActions
from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.capture.given_inputs import GivenInputs
from tocsin_hooks.torch.contracts.across import broken_by_difference, goes_across
from tocsin_hooks.torch.contracts.broken import BrokenContracts
from tocsin_hooks.torch.contracts.loop import LoopContracts
from tocsin_hooks.torch.contracts.losses import compares_samples
from tocsin_hooks.torch.contracts.softmaxes import has_log_softmax
from tocsin_hooks.torch.contracts.target_network import TargetNetwork
from tocsin_hooks.torch.contracts.undefined import UndefinedValues
from tocsin_hooks.torch.graph import before_views

_MOST_DROPPED = 0.85  # of a layer: more is a share that is to be kept


class TrainingContracts:
    """Checks the contracts while a rule wants them. A saved step records each broken one, once.

    ``dropped`` is called only within forward passes of the model; ``difference``, ``product``,
    ``derived`` and ``part_of_loss`` only outside of them.
    """

    def __init__(self, step: CurrentStep, wanted: Wanted) -> None:
        self._step = step
        self._wanted = wanted
        self._broken = BrokenContracts(step)
        trouble = step.hook.trouble
        self.loop = LoopContracts(self._broken.here, trouble)
        self._copies = TargetNetwork(self._broken.here, trouble)
        self.derivatives = Derivatives()
        self.axes = Axes()
        self.draws = SampledActions()
        self.undefined = UndefinedValues(self._broken.here)
        self._dropouts = set[Any]()  # of the step in hand, by their nodes
        self._subtracts = False  # labels from predictions, since the model was given its inputs
        self._passes = 0  # in training

    @property
    def are_wanted(self) -> bool:
        return self._wanted.contracts

    @property
    def has_more(self) -> bool:
        """Return whether a contract was found broken that no saved step holds."""
        return self.are_wanted and self._broken.has_more

    @property
    def learns_by_a_copy(self) -> bool:
        """Return whether the targets are values that a copy of the model gave."""
        return self._copies.are_known

    def breaks(self, contract: str, place: str) -> None:
        """A trainer has found that a contract is broken there."""
        if self.are_wanted:
            self._broken.here(contract, place)

    def opponents_agree(self) -> None:
        """Optimizers that take turns pull in the same direction."""
        self._broken.here("gan_losses_agree")

    # Forward passes.

    def begin_pass(self, *, first: bool) -> None:
        """A forward pass begins, which is the ``first`` that leads to a loss, or a later one."""
        self._passes += self._step.mode is Mode.TRAIN
        if first:
            self._broken.begin_loss()
            self._dropouts.clear()

    def given(self, inputs: GivenInputs) -> None:
        """The model, or a part of it, is given these inputs."""
        self._subtracts = False
        if self.are_wanted and self._is_looked_at and inputs:
            self._broken.check_inputs(inputs.tensors)

    def forward_begins(self, root: Any, *, alone: bool) -> None:
        """The model is called in a step; ``alone``: with one sample."""
        if not self.are_wanted:
            return
        trains = self._step.mode is Mode.TRAIN
        judged = self._step.has_losses
        self.loop.forward_begins(root, trains=trains, alone=alone, judged=judged)
        if trains and self._is_looked_at:
            self._broken.forward_begins(root)
            self.axes.forward_begins()

    @property
    def _is_looked_at(self) -> bool:
        """Return whether the pass in hand is the first of a saved step, before enough updates."""
        return self._step.saving and self._step.passes == 1 and not self.loop.over

    def acts(self, root: Any, *, alone: bool) -> None:
        """The model is called without gradients, and no step begins; ``alone``: one sample."""
        if self.are_wanted:
            self.loop.modes.forward(root, alone=alone, judged=False)

    def forward_ends(self) -> None:
        self._broken.forward_ends()
        for contract, place in self.axes.forward_ended():
            self._broken.here(contract, place)

    def dropped(self, share: float, found: Any) -> None:
        """A dropout inside of a forward pass has dropped a share, and gave ``found``."""
        if not self.are_wanted:
            return
        if self._step.evaluates:
            self.loop.modes.dropped()
        else:
            if found.grad_fn is not None:  # else the inputs are dropped, which need no gradients
                self._dropouts.add(found.grad_fn)
            if share >= _MOST_DROPPED:
                self._broken.here("dropout_too_large")

    # From the outputs to a loss.

    def loss(self, call: LossCall, inputs: GivenInputs) -> None:
        """A loss function was called in a saved step."""
        if self.are_wanted:
            self._broken.check_loss(call, inputs.tensors, self._passes)
            if before_views(call.prediction.grad_fn) in self._dropouts:
                self._broken.here("dropout_on_output", call.place)

    def part_of_loss(self, call: RecordedCall) -> None:
        """A function in training gave what may be a part of a loss that the script computes."""
        if self._step.saving and self.are_wanted and (picked := picked_classes(call)):
            with self._step.hook.measured():
                if has_log_softmax(picked.prediction):
                    self._broken.check_tokens(picked)

    def difference(self, one: Any, other: Any, result: Any, inputs: GivenInputs) -> None:
        """Two values were subtracted."""
        if not self.are_wanted or not inputs:
            return
        if compares_samples(one, other, inputs.samples):
            self._subtracts = True
            if self._step.saving:
                self._broken.subtracted(one, other, result)
        if broken_by_difference(one, other, result, inputs.samples):
            self._broken.broadcast(result)

    def product(self, one: Any, other: Any, result: Any, inputs: GivenInputs) -> None:
        """Two values were multiplied."""
        looks = self._step.saving and self.are_wanted and inputs
        if looks and goes_across(one, other, inputs.samples):
            self._broken.multiplied(one, other, result)

    def derived(self, inputs: Any, found: Any) -> None:
        """Derivatives by these inputs were computed."""
        looks = self._step.saving and self._step.mode is Mode.TRAIN
        if looks and self.are_wanted:
            with self._step.hook.measured():
                self._broken.derived(self.derivatives.taken(inputs, found))

    def detached(self, tensor: Any) -> None:
        """A tensor is going to be detached."""
        if self._step.mode is Mode.TRAIN and self.are_wanted:
            with self._step.hook.measured():
                self.loop.updates.detached(tensor)

    # Gradients and updates.

    def backward(self, loss: Any, outputs: list[Any], inputs: GivenInputs) -> None:
        """Gradients of a loss are going to be computed: of these outputs of the model, if known."""
        self.loop.updates.backward()
        self.draws.backward(loss)
        if not self.are_wanted:
            return
        with self._step.hook.measured():
            self._broken.check_differences(loss)
            self._broken.check_products(loss)
            self._broken.check_derivatives(self.derivatives, loss)
            self.undefined.backward(loss)
            if self._step.saving:
                self._broken.check_graph(loss, outputs)
                two = self._step.loss_kind is not None or len(inputs.tensors) > 1
                self._copies.backward(loss, two=two)

    def loss_ignores_order(self, place: str) -> None:
        """The loss by hand in that line is the same whichever label belongs to which sample."""
        if self._subtracts:
            self._broken.here("errors_cancel", place)

    def update_begins(
        self, root: Any, optimizer: Any, *, held: bool, seen: bool, closure: bool
    ) -> None:
        """An optimizer is about to update the model, or if it is not ``held``, something else;
        ``seen``: what led to it was looked at."""
        if held and seen and not closure and (place := self.draws.drawn_again()) is not None:
            self._broken.here("actions_resampled", place)
        if any(each.get("maximize") for each in optimizer.param_groups):
            self._broken.meant_to_grow()
        self._copies.updating(optimizer)
        if self.are_wanted:
            self.loop.update_begins(root, optimizer, held=held, seen=seen, closure=closure)

    def update_ends(self, root: Any, optimizer: Any) -> None:
        self.draws.clear()
        if self.are_wanted:
            self.loop.update_ends(root, optimizer)

    # Ends.

    @property
    def look(self) -> bool:
        """Return whether anything looks at steps that are not saved."""
        return self._copies.look

    def skipped(self, updates: Mapping[Any, int]) -> None:
        """There were so many updates by each optimizer that nothing looked at."""
        self._passes += sum(updates.values())
        self._copies.skipped(sum(updates.values()))
        self.loop.skipped(updates)

    def pause(self) -> None:
        """Nothing more of the last forward pass is to come."""
        self._broken.forget()
        self.axes.forget()

    def close(self) -> None:
        """Forget what was computed so far: it leads to no loss."""
        self._broken.begin_loss()
        self.derivatives.clear()
        self.undefined.clear()

    def flush(self) -> None:
        """Add what is broken to the step in hand, which is saved and ends."""
        if self._step.evaluates and self.are_wanted:
            with Guard(self._step.hook.trouble, "schedules are not checked"):
                self.loop.schedules.evaluated(self._step.loss)
        self._broken.flush()

    def training_ends(self, root: Any) -> None:
        """No step comes after the one in hand. The model may be gone."""
        self._copies.ended()
        self.loop.training_ends(root, saving=self._step.saving and self.are_wanted)
