"""Checks and comparisons of what a batch of Keras holds, with the torch backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin.model import Mode

from tocsin_hooks import Hook
from tocsin_hooks.guard import Guard
from tocsin_hooks.keras.losses import OtherLoss, batch_losses
from tocsin_hooks.torch.broken import BrokenContracts
from tocsin_hooks.torch.captured import StepInHand
from tocsin_hooks.torch.loss_calls import LossCall
from tocsin_hooks.torch.seen_samples import SeenSamples
from tocsin_hooks.torch.skill import EVERY_STEP, Skill, is_compared
from tocsin_hooks.torch.values import tensors_in
from tocsin_hooks.torch.wanted import Wanted

_MOST_INPUTS = 8


class BatchChecks:
    """Compares the losses of batches, counts samples, and looks at contracts of losses.

    In training it looks at the first batches and then at those that are saved, in evaluations at
    more and more rarely a batch.
    """

    def __init__(self, hook: Hook) -> None:
        self._step = StepInHand(hook)
        self._step.before_end = self._hand_over
        self._wanted = Wanted(hook)
        self._skill = Skill(self._step)
        self._samples = SeenSamples(self._step)
        self._broken = BrokenContracts(self._step)
        self._passes = 0  # in training
        self._compared = 0  # of them

    def begin(self, mode: Mode) -> bool:
        self._step.begin(mode)
        return self._step.saving

    def end(self) -> None:
        self._step.end()

    def called(self, model: Any, given: Mapping[str, Any]) -> None:
        """``compute_loss`` is called with ``x``, ``y`` and ``y_pred``."""
        step = self._step
        if not (step.trains or step.evaluates):
            return
        step.passes += 1
        self._passes += step.trains
        compares = self._wanted.skill and self._compares
        contracts = self._wanted.contracts and step.saving
        samples = self._wanted.samples and self._samples.is_due
        if not (compares or contracts or samples):
            return
        with step.hook.measured():
            if samples:
                inputs = [each for _, each in tensors_in(given.get("x"), _MOST_INPUTS)]
                self._samples.forward_begins(inputs)
            if not (compares or contracts):
                return
            self._skill.begin_pass()
            self._compared += compares and step.trains
            for loss in batch_losses(model, given.get("y"), given.get("y_pred")):
                with Guard(step.hook.trouble, "a loss is not compared"):
                    self._look(loss, compares=compares, contracts=contracts)

    def _look(self, loss: LossCall | OtherLoss, *, compares: bool, contracts: bool) -> None:
        if isinstance(loss, LossCall):
            if contracts:
                self._broken.check_loss(loss, [], self._passes)
            if compares:
                self._skill.compare(loss)
            return
        if not compares or self._skill.has_given_up(loss.output):
            return
        self._skill.compare_by_hand(loss, loss.value, loss.output)
        cancels = self._wanted.contracts and self._skill.ignores_order(loss.output)
        if cancels and loss.compares_labels:
            self._broken.here("errors_cancel")

    @property
    def _compares(self) -> bool:
        if self._step.trains:
            return self._step.saving or self._compared < EVERY_STEP
        return is_compared(self._step.passes)

    def _hand_over(self) -> None:
        if self._step.trains:
            self._samples.hand_over()
        self._skill.hand_over()
        self._broken.hand_over()
