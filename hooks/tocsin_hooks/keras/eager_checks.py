"""Captures, checks and compares batches of Keras while PyTorch computes them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import keras
import torch
from tocsin.model import Mode

from tocsin_hooks import Hook
from tocsin_hooks.guard import Guard
from tocsin_hooks.keras.batches import ARGUMENTS, LOSS, WEIGHTS, Given, save_batch
from tocsin_hooks.keras.eager_losses import OtherLoss, batch_losses
from tocsin_hooks.keras.losses import compares_all
from tocsin_hooks.keras.weighted import are_upside_down, drawn_by_weight
from tocsin_hooks.looks import EVERY_STEP, Wanted, is_compared
from tocsin_hooks.torch.calls.loss_call import LossCall
from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.capture.given_inputs import GivenInputs
from tocsin_hooks.torch.capture.seen_samples import SeenSamples
from tocsin_hooks.torch.comparisons.skill import Skill
from tocsin_hooks.torch.contracts.findings import Findings
from tocsin_hooks.torch.contracts.graphs import LossGraphs
from tocsin_hooks.torch.contracts.inputs import InputContracts
from tocsin_hooks.torch.contracts.losses import LossContracts
from tocsin_hooks.torch.contracts.undefined import undefined_in
from tocsin_hooks.torch.dispatcher import Dispatcher
from tocsin_hooks.torch.events import Backward, LossComputed, PassBegins, SavedStepEnds
from tocsin_hooks.torch.values import tensors_in

_MOST_INPUTS = 8
_LOOKS = 3
_TIMES = 3  # that weights are upside down: one batch may have them so by chance


class EagerChecks:
    """Captures a batch of each step, the first one of an evaluation; compares the losses of
    batches, counts samples, and looks at contracts of losses.

    In training it compares the first batches and then those that are saved, in evaluations more
    and more rarely a batch.
    """

    def __init__(self, hook: Hook) -> None:
        self._step = CurrentStep(hook)
        self._step.before_end.append(self._flush)
        self._wanted = Wanted(hook)
        self._skill = Skill(self._step)
        self._samples = SeenSamples(self._step)
        self._found = Findings(self._step)
        self._events = Dispatcher(hook.trouble)
        self._events.add(
            LossContracts(self._found), InputContracts(self._found), LossGraphs(self._found)
        )
        self._compared = 0  # of them
        self._weighted = False  # samples, in training
        self._looks = Counter[str]()  # at losses of the script's own, by the output
        self._upside_down = 0  # batches with such weights of classes
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
            self._seen = {name: _detached(given.get(name)) for name in (*ARGUMENTS, WEIGHTS)}
        step.passes += 1
        self._events.tell(PassBegins)
        compares = self._wanted.skill and self._compares
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
            with Guard(step.hook.trouble, "a loss is not compared"):
                if contracts:
                    self._check(model, given, inputs)
                for loss in batch_losses(model, *_as_weighted(given)) if compares else ():
                    if self._has_its_guess(loss, given):
                        self._look(loss)

    def _has_its_guess(self, loss: LossCall | OtherLoss, given: Given) -> bool:
        """Return whether the best guess is that of training. An evaluation without weights, where
        training has some, has another one; of shares of classes alone both are known."""
        weighted = given.get(WEIGHTS) is not None
        self._weighted |= weighted and self._step.trains
        return weighted or not self._weighted or "cross_entropy" in getattr(loss, "name", "")

    def _check(self, model: Any, given: Given, inputs: list[Any]) -> None:
        for loss in batch_losses(model, given.get("y"), given.get("y_pred")):
            if isinstance(loss, LossCall):
                self._events.tell(LossComputed, loss, tuple(inputs))
            elif self._step.trains and self._looks[loss.output] < _LOOKS:
                self._looks[loss.output] += 1
                if compares_all(loss.of, loss.target, loss.outputs[0].detach()):
                    self._found("broadcast_difference")
            if isinstance(loss, OtherLoss) and self._step.trains:
                self._check_graph(given.get(LOSS), loss.outputs)
        weights = given.get(WEIGHTS)
        if weights is not None and self._step.trains and self._upside_down < _TIMES:
            self._upside_down += are_upside_down(*map(_array, (given.get("y"), weights)))
            if self._upside_down == _TIMES:
                self._found("class_weights_inverted")

    def _check_graph(self, loss: Any, outputs: list[Any]) -> None:
        """Check what is minimised, of which the script computes a part."""
        if getattr(loss, "grad_fn", None) is not None:
            self._events.tell(Backward, loss, outputs, GivenInputs())
            for _, contract in undefined_in(loss):
                self._found(contract)

    def _look(self, loss: LossCall | OtherLoss) -> None:
        if isinstance(loss, LossCall):
            self._skill.compare(replace(loss, place=""))  # fits and evaluations have many
            return
        if self._skill.has_given_up(loss.output):
            return
        self._skill.compare_by_hand(loss, loss.value, loss.output)
        cancels = self._wanted.contracts and self._skill.ignores_order(loss.output)
        if cancels and loss.compares_labels:
            self._found("errors_cancel")

    @property
    def _compares(self) -> bool:
        if self._step.trains:
            return self._step.saving or self._compared < EVERY_STEP
        return is_compared(self._step.passes)

    def _flush(self) -> None:
        save_batch(self._step.hook, self._seen or {})
        if self._step.trains:
            self._samples.flush()
        self._skill.flush()
        self._events.tell(SavedStepEnds, self._step.evaluates, self._step.loss)
        self._found.flush()


def _as_weighted(given: Given) -> tuple[Any, Any]:
    """Labels and predictions of the samples, each as often as its weight says; nothing of those
    whose weights do not say that."""
    labels, predictions, weights = (given.get(name) for name in ("y", "y_pred", WEIGHTS))
    if weights is None:
        return labels, predictions
    rows = drawn_by_weight(_array(weights)) if torch.is_tensor(weights) else None
    if rows is None:
        return None, None
    places = torch.as_tensor(rows, device=weights.device)
    labels, predictions = (_drawn(each, places) for each in (labels, predictions))
    return labels, predictions


def _drawn(values: Any, rows: Any) -> Any:
    return keras.tree.map_structure(lambda each: each[rows], values)


def _array(value: Any) -> Any:
    return value.detach().cpu().numpy() if torch.is_tensor(value) else value


def _detached(value: Any) -> Any:
    """Without the graphs, which would keep all activations alive."""
    return keras.tree.map_structure(
        lambda each: each.detach() if hasattr(each, "detach") else None, value
    )
