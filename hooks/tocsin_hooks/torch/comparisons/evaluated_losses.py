"""Recognises the training loss among the numbers that an evaluation computes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tocsin_hooks.torch.calls.loss_call import LossCall
from tocsin_hooks.torch.calls.recorded_call import RecordedCall
from tocsin_hooks.torch.calls.tape import Tape
from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.capture.step_loss import StepLoss
from tocsin_hooks.torch.comparisons.evaluated_labels import EvaluatedLabels
from tocsin_hooks.torch.comparisons.known_losses import KnownLosses
from tocsin_hooks.torch.comparisons.skill import Skill
from tocsin_hooks.torch.look_schedule import LookSchedule
from tocsin_hooks.torch.values import share_memory


class EvaluatedLosses:
    """Captures losses of evaluations that compute the loss differently from training, and compares
    them if asked to.
    """

    def __init__(
        self,
        step: CurrentStep,
        loss: StepLoss,
        skill: Skill,
        known: KnownLosses,
        tape: Tape,
        schedule: LookSchedule,
    ) -> None:
        self._step = step
        self._step_loss = loss
        self._skill = skill
        self._known = known
        self._tape = tape
        self._when = schedule
        self._labels = EvaluatedLabels(known, tape)
        self.is_over = False
        """True if the current pass has its loss: what comes now is ignored."""

    def forward_begins(self) -> None:
        self.is_over = False

    def forward_ended(self, outputs: Sequence[Any]) -> None:
        """Record the outputs of a forward pass of the evaluation."""
        self._labels.forward_ended(outputs)

    def is_guess(self, call: LossCall, inputs: Iterable[Any]) -> bool:
        """Return whether a loss function compares a guess that the model is to beat, and not what
        the model predicts, as far as that is known: one for all samples, as a mean of labels, or
        one of the ``inputs``, as the last value of a series. What it was trained on is no more."""
        prediction = call.prediction
        if not self._step.evaluates:
            return False
        if self._tape.recipes.of(prediction) is not None:
            return self._known.is_of_training(prediction, self._tape)
        if any(share_memory(prediction, each) for each in inputs):
            return True
        return len(prediction) > 1 and bool((prediction == prediction[:1]).all())

    def called(self, call: LossCall) -> LossCall:
        """Return the loss of training in place of the function that is called, if it is another."""
        made = self._known.evaluated(call, self._tape.outputs)
        if made is None:
            return call
        self._step_loss.evaluated_by(made)
        return made

    def recorded(self, call: RecordedCall, found: Any) -> bool:
        """Return whether a call gave a loss of training, or compared what was predicted."""
        if known := self._known.loss(self._tape, found):
            place, loss = known
            if place is not None and self._when.compares:
                self._skill.compare_by_hand(self._tape, found, place)
            self._step_loss.evaluated(loss, own=found)
            return True
        made = self._known.judged(self._tape, call, found)
        if made is None:
            self._labels.compared(call)
            return False
        self._labels.dismiss()
        if not self._known.repeats:
            self._step_loss.evaluated_by(made)
        if self._when.compares:
            self._skill.compare(made)
        return True

    def left(self, tensor: Any, asked: int | None) -> None:
        """A tensor has become an array or a list, or it is ``asked`` where it is that class:
        labels, perhaps."""
        if self._step.evaluates:
            self._labels.left(tensor, asked)

    def flush(self) -> None:
        """Add the losses by labels that left PyTorch, each to its own pass."""
        for each in self._labels.ended():
            self._step.passes, self._step.samples = each.number, each.samples
            self._step_loss.evaluated_by(each.call)
            if self._when.compares:
                self._skill.begin_pass()
                self._skill.compare(each.call)
