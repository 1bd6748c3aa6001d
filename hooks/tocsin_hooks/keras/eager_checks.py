"""Captures, checks and compares batches of Keras while PyTorch computes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import keras
from tocsin.model import Mode

from tocsin_hooks import Hook
from tocsin_hooks.guard import Guard
from tocsin_hooks.keras.batches import ARGUMENTS, WEIGHTS, Given, save_batch
from tocsin_hooks.keras.eager_losses import OtherLoss, batch_losses
from tocsin_hooks.looks import EVERY_STEP, Wanted, is_compared
from tocsin_hooks.torch.calls.loss_calls import LossCall
from tocsin_hooks.torch.capture.captured import StepInHand
from tocsin_hooks.torch.capture.seen_samples import SeenSamples
from tocsin_hooks.torch.comparisons.skill import Skill
from tocsin_hooks.torch.contracts.broken import BrokenContracts
from tocsin_hooks.torch.values import tensors_in

_MOST_INPUTS = 8


class EagerChecks:
    """Captures a batch of each step, the first one of an evaluation; compares the losses of
    batches, counts samples, and looks at contracts of losses.

    In training it compares the first batches and then those that are saved, in evaluations more
    and more rarely a batch.
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
        self._weighted = False  # samples: then the loss is another one
        self._seen: Given | None = None

    def begin(self, mode: Mode) -> bool:
        self._step.begin(mode)
        self._seen = None
        return self._step.saving

    def end(self) -> None:
        self._step.end()

    def called(self, model: Any, given: Given) -> None:
        step = self._step
        if not (step.trains or step.evaluates):
            return
        if step.trains and given.get("training") is False:
            return  # the script itself evaluates between two batches
        if step.saving and (step.trains or self._seen is None):
            self._seen = {name: _detached(given.get(name)) for name in ARGUMENTS}
        step.passes += 1
        self._passes += step.trains
        self._weighted = self._weighted or given.get(WEIGHTS) is not None
        compares = self._wanted.skill and self._compares and not self._weighted
        contracts = self._wanted.contracts and step.saving
        samples = self._wanted.samples and self._samples.is_due
        if not (compares or contracts or samples):
            return
        with step.hook.measured():
            inputs = [each for _, each in tensors_in(given.get("x"), _MOST_INPUTS)]
            if samples:
                self._samples.forward_begins(inputs)
            if not (compares or contracts):
                return
            self._skill.begin_pass()
            self._compared += compares and step.trains
            for loss in batch_losses(model, given.get("y"), given.get("y_pred")):
                with Guard(step.hook.trouble, "a loss is not compared"):
                    if contracts and isinstance(loss, LossCall):
                        self._broken.check_loss(loss, inputs, self._passes)
                    self._look(loss, compares=compares)

    def _look(self, loss: LossCall | OtherLoss, *, compares: bool) -> None:
        if isinstance(loss, LossCall):
            if compares:
                self._skill.compare(replace(loss, place=""))  # fits and evaluations have many
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
        save_batch(self._step.hook, self._seen or {})
        if self._step.trains:
            self._samples.hand_over()
        self._skill.hand_over()
        self._broken.hand_over()


def _detached(value: Any) -> Any:
    """Without the graphs, which would keep all activations alive."""
    return keras.tree.map_structure(
        lambda each: each.detach() if hasattr(each, "detach") else None, value
    )
