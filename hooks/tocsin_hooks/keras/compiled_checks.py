"""Captures and compares batches of Keras after they were computed."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import Any

import keras
import numpy as np
from tocsin.model import Mode

from tocsin_hooks import Hook
from tocsin_hooks.guard import Guard
from tocsin_hooks.keras.array_losses import Array, BatchLosses
from tocsin_hooks.keras.array_samples import ArraySamples
from tocsin_hooks.keras.array_skill import ArraySkill
from tocsin_hooks.keras.batches import ARGUMENTS, WEIGHTS, Given, save_batch
from tocsin_hooks.keras.contracts import broken_by_labels, save_contracts
from tocsin_hooks.keras.losses import compares_all
from tocsin_hooks.keras.weighted import are_upside_down, drawn_by_weight
from tocsin_hooks.looks import EVERY_STEP, Wanted, is_compared

_MOST_WAITING = 1 << 24  # bytes of batches that wait for the next save
_MOST_LOOKS = 8  # at contracts
_TIMES = 3  # of them that break one
_WIDE = 8  # bytes, the most that an element has


class CompiledChecks:
    """Captures a batch of each step, the first one of an evaluation; compares the losses of
    batches, counts samples, and looks at contracts of labels.

    Batches stay on their device until the next step that is saved: no step is waited for. In
    training those of the first steps are looked at, and then those that are saved; in evaluations
    more and more rarely one.
    """

    def __init__(self, hook: Hook) -> None:
        self._hook = hook
        self._wanted = Wanted(hook)
        self._skill = ArraySkill()
        self._samples = ArraySamples()
        self._waiting: dict[Mode, list[Given]] = {}
        self._losses: BatchLosses | None = None
        self._looks = 0  # at contracts
        self._seen = Counter[str]()
        self._broken: set[str] = set()
        self._mode: Mode | None = None
        self._saving = False
        self._evaluated = 0  # batches of the current evaluation
        self._trained = 0  # batches that were kept
        self._weighted = False
        """True if training has weights: evaluations without have another best guess, which is known
        of shares of classes alone."""

    def begin(self, mode: Mode) -> bool:
        self._mode, self._evaluated = mode, 0
        if mode is Mode.EVAL:
            self._waiting.pop(mode, None)
        self._saving = self._hook.begin(mode)
        return self._saving

    def end(self) -> None:
        if self._saving and self._mode is not None:
            trouble = self._hook.trouble
            with Guard(trouble, "a batch of Keras is not captured"), self._hook.measured():
                self._flush(self._mode)
        self._mode, self._saving = None, False
        self._hook.end()

    def called(self, model: Any, given: Given) -> None:
        mode = Mode.TRAIN if given["training"] else Mode.EVAL
        if mode is self._mode and self._is_due(mode):  # else the script itself evaluates
            if self._losses is None or not self._losses.are_of(model):
                self._losses = BatchLosses(model)
            waiting = self._waiting.setdefault(mode, [])
            batch = {name: given[name] for name in (*ARGUMENTS, WEIGHTS) if name in given}
            if self._saving or sum(map(_nbytes, [*waiting, batch])) <= _MOST_WAITING:
                waiting.append(batch)

    def _is_due(self, mode: Mode) -> bool:
        if mode is Mode.EVAL:
            self._evaluated += 1
            return self._saving and is_compared(self._evaluated)
        self._trained += 1
        return self._saving or self._trained <= EVERY_STEP

    def _flush(self, mode: Mode) -> None:
        batches = [keras.tree.map_structure(_array, each) for each in self._waiting.pop(mode, ())]
        if not batches:
            return
        save_batch(self._hook, batches[0 if mode is Mode.EVAL else -1])
        losses = self._losses
        checks = mode is Mode.TRAIN and self._wanted.contracts and self._looks < _MOST_LOOKS
        if losses and checks and "y" in batches[-1]:
            self._check(losses, batches[-1])
        for each in batches:
            if losses and self._wanted.skill and "y" in each and "y_pred" in each:
                weighted = WEIGHTS in each
                self._weighted |= weighted and mode is Mode.TRAIN
                for loss in losses.of(*_as_weighted(each)):
                    if weighted or not self._weighted or loss.has_classes:
                        self._skill.compare(loss, mode)
            if self._wanted.samples and mode is Mode.TRAIN and "x" in each:
                self._samples.add(keras.tree.flatten(each["x"]))
        self._skill.flush(self._hook, mode)
        if mode is Mode.TRAIN:
            self._samples.flush(self._hook)

    def _check(self, losses: BatchLosses, batch: Given) -> None:
        """Save contracts that are broken several times: one batch may be so by chance."""
        self._looks += 1
        self._seen.update({*broken_by_labels(losses.model, batch["y"], batch.get("x"))})
        made = losses.of(batch["y"], batch.get("y_pred"))
        own = [each for each in made if each.guess is None]
        if any(compares_all(each.mean, each.labels, each.predictions) for each in own):
            self._seen["broadcast_difference"] += 1
        if WEIGHTS in batch and are_upside_down(batch["y"], batch[WEIGHTS]):
            self._seen["class_weights_inverted"] += 1
        broken = {name for name, times in self._seen.items() if times == _TIMES}
        save_contracts(self._hook, broken - self._broken)
        self._broken |= broken


def _as_weighted(batch: Given) -> tuple[Any, Any]:
    """Labels and predictions of the samples, each as often as its weight says; nothing of those
    whose weights do not say that."""
    labels, predictions, weights = batch["y"], batch["y_pred"], batch.get(WEIGHTS)
    if weights is None:
        return labels, predictions
    rows = drawn_by_weight(weights) if isinstance(weights, np.ndarray) else None
    if rows is None:
        return None, None
    labels, predictions = (_drawn(each, rows) for each in (labels, predictions))
    return labels, predictions


def _drawn(values: Any, rows: Any) -> Any:
    return keras.tree.map_structure(lambda each: each[rows], values)


def _array(value: Any) -> Array:
    found = np.asarray(value)
    short = keras.backend.standardize_dtype(found.dtype) == "bfloat16"
    return found.astype(np.float32) if short else found


def _nbytes(batch: Given) -> int:
    return sum(prod(each.shape) * _WIDE for each in keras.tree.flatten(dict(batch)))
