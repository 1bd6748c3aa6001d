"""Compares the losses of training and of evaluations, wherever a script computes them."""

from __future__ import annotations

from typing import Any

import torch
from tocsin.model import Mode

from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch.calls.loss_call import LossCall
from tocsin_hooks.torch.calls.pairs import UNPAIRED
from tocsin_hooks.torch.calls.recorded_call import RecordedCall
from tocsin_hooks.torch.calls.tape import Tape
from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.capture.origin import Origin, is_sum, origin_of
from tocsin_hooks.torch.capture.step_loss import StepLoss
from tocsin_hooks.torch.comparisons.evaluated_losses import EvaluatedLosses
from tocsin_hooks.torch.comparisons.known_losses import KnownLosses
from tocsin_hooks.torch.comparisons.skill import Skill
from tocsin_hooks.torch.graph import is_weighted
from tocsin_hooks.torch.look_schedule import LookSchedule
from tocsin_hooks.torch.values import tensors_in, tensors_of_distributions

_MOST_OUTPUTS = 8
_DRAWS = 3
_SMALL = 1 << 18  # elements between outputs and a loss: of larger ones saved steps are compared


class LossComparisons:
    """Tracks the computations from the outputs of a model to its loss.

    Losses are compared by ``skill``. What leads to those of training is kept, so that evaluations
    that compute the same are known by it.
    """

    def __init__(
        self, step: CurrentStep, loss: StepLoss, skill: Skill, schedule: LookSchedule
    ) -> None:
        self.tape = Tape()
        self._step = step
        self._skill = skill
        self._when = schedule
        self._known = KnownLosses()
        self.evaluated = EvaluatedLosses(step, loss, skill, self._known, self.tape, schedule)
        self._within: list[LossCall] = []  # losses that the current pass computed itself
        self._has_called = False  # a loss function, since the outputs
        self._elements: list[LossCall] = []  # losses of elements, since the outputs
        self._weighted: set[tuple[Any, str]] = set()  # functions and lines of such with weights
        self._draws = 0  # updates before which something was drawn by the outputs

    @property
    def draws(self) -> bool:
        """Return whether what is trained draws actions, as a policy does."""
        return self._draws >= _DRAWS

    def forward_begins(self) -> bool:
        """Begin a forward pass. Return whether it is the first that leads to a loss."""
        self._within = []
        self._skill.begin_pass()
        over = self.tape.has_calls or self.tape.is_full
        evaluated = self._step.mode is not Mode.TRAIN and over
        first = self._step.passes == 1 or evaluated
        if first:
            self.forget()
            self._known.begin_pass()
        if self._step.evaluates:
            self.evaluated.forward_begins()
        return first

    def forward_ended(self, output: Any) -> None:
        """Record what is computed from ``output``."""
        within, self._within = self._within, []
        if not self._when.records:
            return
        found = [each for _, each in tensors_in(output, _MOST_OUTPUTS)]
        chances = tensors_of_distributions(output)
        self.tape.begin([*found, *chances], training=self._step.mode is Mode.TRAIN)
        if self._step.evaluates:
            self.evaluated.forward_ended(found)
        for call in within:
            self._known.called(call, self.tape)

    def update_begins(self) -> None:
        self._draws += self.tape.drawn
        self.tape.drawn = False

    def forget(self) -> None:
        """Discard the calls so far: they do not lead to a loss."""
        self.tape.clear()
        self._has_called = False
        self._elements.clear()

    def called(self, call: LossCall, *, inside: bool) -> None:
        """Handle a call of a loss function, perhaps ``inside`` of a forward pass."""
        if self._is_weighted(call):
            return
        if self._step.mode is not Mode.TRAIN:
            call = self.evaluated.called(call)
        elif not inside:
            self._known.called(call, self.tape)
        elif len(self._within) < _MOST_OUTPUTS:
            self._within.append(call)  # the outputs are known when the pass has ended
        if call.name not in UNPAIRED:
            self._has_called = True
            self.evaluated.is_over |= self._step.evaluates and not self._known.has_sums
        if self._when.wants_skill and self._when.compares:
            self._skill.compare(call)

    def _is_weighted(self, call: LossCall) -> bool:
        """Return whether it gives losses of elements that do not count alike: what is padded, or
        has no label, is masked. The function knows nothing of that, and the script's own loss
        does."""
        if not (isinstance(call.value, torch.Tensor) and call.value.dim()):
            return False
        if self._step.mode is not Mode.TRAIN:
            return any(function is call.function for function, _ in self._weighted)
        if len(self._elements) < _MOST_OUTPUTS and call.value.grad_fn is not None:
            self._elements.append(call)
        return (call.function, call.place) in self._weighted

    def _look_for_weights(self, loss: Any) -> None:
        if not isinstance(loss, torch.Tensor):
            return
        for call in self._elements:
            if is_weighted(loss, call.value.grad_fn):
                if (call.function, call.place) not in self._weighted:
                    self._weighted.add((call.function, call.place))
                    self._skill.forget_calls(call)
                    self._known.forget(call)
                self._forget_mean(call)

    def _forget_mean(self, call: LossCall) -> None:
        """Take back the mean of elements that do not count alike, where it is a module that gave
        them: one that weighs them itself gave the loss."""
        name = f"{call.module}_output_0"
        if origin_of(call.value) == Origin("module", name):
            self._step.unlike.add(name)
            self._step.forget_loss(name)

    def recorded(self, call: RecordedCall, found: Any) -> bool:
        """Something was computed from the outputs; returns whether it may become a loss that
        training computes by hand."""
        if self._step.mode is Mode.TRAIN:
            return not self._has_called
        if not self.evaluated.is_over:
            self.evaluated.is_over = self.evaluated.recorded(call, found)
        return False

    def backward(self, loss: Any) -> str | None:
        """Gradients of ``loss`` are going to be computed. Returns the line that does so if it is a
        loss by hand that is the same whichever label belongs to which sample."""
        self._look_for_weights(loss)
        self._elements.clear()
        tape, place = self.tape, None
        if not tape.is_recording:
            return None
        small = tape.elements <= _SMALL or self._step.saving
        looks = small and self._step.mode is Mode.TRAIN and self._when.records
        if looks and tape.leads_to(loss):
            place = self._compare(loss, script_line())
        self.forget()
        return place

    def _compare(self, loss: Any, place: str) -> str | None:
        if self._has_called:
            if self._step.saving and is_sum(loss):
                self._known.computed(place, self.tape, loss, of_functions=True)
        elif self._skill.compare_by_hand(self.tape, loss, place):
            self._known.computed(place, self.tape, loss)
        elif self._skill.ignores_order(place):
            return place
        return None
