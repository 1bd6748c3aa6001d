"""Compares a loss with what it would be if each prediction met the label of another sample.

What PyTorch's hook compares on a device, of arrays.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from tocsin.model import Mode

from tocsin_hooks import Hook
from tocsin_hooks.keras.array_losses import Array, ArrayLoss
from tocsin_hooks.looks import skill_name

_PAIRINGS = 4
_PAIRINGS_BY_HAND = 2
_ELEMENTS = 1 << 14  # of the predictions that are paired again
_LEAST_ROWS = 8
_MOST_LOSSES = 8
_MOST_WAITING = 256  # comparisons between two saves
_REMEMBERED = 1 << 12  # labels, for a constant guess
_ELEMENTS_REMEMBERED = 1 << 18
_ENOUGH = 100
_PARTS = 8  # of the samples of a batch of an evaluation
_LEAST_OF_A_PART = 16
_TIE = 1e-5  # of a loss: so close is what rounding changes

Row = tuple[float, float, float, float]


class ArraySkill:
    """Each comparison gives the loss, the mean loss with labels of other samples, the loss of the
    best constant prediction and the number of samples. NaN is what is not known."""

    def __init__(self) -> None:
        self._sites: dict[str, _Site] = {}

    def compare(self, loss: ArrayLoss, mode: Mode) -> None:
        name = f"{loss.output}_loss" if loss.output else "loss"
        if name not in self._sites and len(self._sites) < _MOST_LOSSES:
            self._sites[name] = _Site(loss.kind)
        if name in self._sites:
            self._sites[name].compare(loss, mode)

    def flush(self, hook: Hook, mode: Mode) -> None:
        """Add the comparisons since the last save of this mode to the current step."""
        for name, site in self._sites.items():
            rows = site.waiting.pop(mode, ())
            own = skill_name(name, site.kind)
            plan = rows and hook.plan(own.name, own.collections, role=own.role, kind=own.kind)
            if plan:
                hook.capture(plan, np.array(rows, np.float64))


class _Site:
    """The comparisons of one loss, and the statistics of its labels."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.waiting: dict[Mode, deque[Row]] = {}
        self._labels: dict[Mode, Array] = {}
        self._random = random.Random(0)  # noqa: S311 - not the script's, whose numbers stay
        self._sign = 0.0
        self._given_up = False

    def compare(self, loss: ArrayLoss, mode: Mode) -> None:
        if self._given_up or loss.kind != self.kind:
            return
        waiting = self.waiting.setdefault(mode, deque(maxlen=_MOST_WAITING))
        for part in _parts(loss) if mode is Mode.EVAL else (loss,):
            chosen = self._chosen(part)
            try:
                row = self._compared(chosen, mode)
            except Exception:  # noqa: BLE001 - a function of the script's may refuse in its own way
                self._given_up = True
                return
            if row is not None:
                waiting.append(row)
            if chosen.guess is not None:
                self._learn(chosen.labels, mode)

    def _chosen(self, loss: ArrayLoss) -> ArrayLoss:
        """Some samples of a large batch."""
        samples = len(loss.labels)
        width = max(1, loss.predictions.size // max(1, samples))
        most = max(_LEAST_ROWS, _ELEMENTS // width)
        if samples <= most:
            return loss
        stride = samples // most
        first = self._random.randrange(samples - stride * (most - 1))
        rows = slice(first, first + stride * (most - 1) + 1, stride)
        return replace(loss, labels=loss.labels[rows], predictions=loss.predictions[rows])

    def _compared(self, loss: ArrayLoss, mode: Mode) -> Row | None:
        labels, predictions = loss.labels, loss.predictions
        size = len(labels)
        if size < 2 or bool((labels == labels[:1]).all()):
            return None
        own = loss.mean(labels, predictions)
        pairings = _PAIRINGS if loss.guess is not None else _PAIRINGS_BY_HAND
        shifts = self._random.sample(range(1, size), min(pairings, size - 1))
        others = [loss.mean(labels, np.roll(predictions, shift, 0)) for shift in shifts]
        other = float(np.mean(others))
        best = self._best(loss, mode)
        if loss.guess is None and not self._has_meaning(own, other):
            own = other = best = np.nan
        return own, other, best, float(size)

    def _has_meaning(self, own: float, other: float) -> bool:
        """Return whether a loss of the script's own keeps its sign and asks which label is
        whose."""
        sign = float(np.sign(own))
        self._sign = self._sign or sign
        if sign != self._sign:
            self._given_up = True
        return sign == self._sign != 0 and abs(other - own) > _TIE * abs(own)

    def _best(self, loss: ArrayLoss, mode: Mode) -> float:
        predictions = loss.predictions
        if loss.guess is None:  # of a loss of the script's own that of the mean prediction
            guess: Array | None = predictions.mean(0)
        else:
            known = self._labels.get(mode, self._labels.get(Mode.TRAIN))
            guess = None if known is None or len(known) < _ENOUGH else loss.guess(known)
        if guess is None:
            return float("nan")
        best = loss.mean(loss.labels, np.broadcast_to(guess, predictions.shape))
        return max(best, self._of_other_shares(loss)) if mode is Mode.EVAL else best

    def _of_other_shares(self, loss: ArrayLoss) -> float:
        """The loss of the guess by labels of training, which may have other shares of classes than
        those of an evaluation, as where rare ones weigh more; at most that of even shares."""
        known = self._labels.get(Mode.TRAIN)
        if loss.guess is None or known is None or len(known) < _ENOUGH or not loss.has_classes:
            return 0.0
        if known.shape[1:] != loss.labels.shape[1:] or (guess := loss.guess(known)) is None:
            return 0.0
        shape = loss.predictions.shape
        guesses = np.broadcast_to(guess, shape), np.zeros(shape)
        return min(loss.mean(loss.labels, each) for each in guesses)

    def _learn(self, labels: Array, mode: Mode) -> None:
        before = self._labels.get(mode)
        fits = before is not None and before.shape[1:] == labels.shape[1:]
        known = np.concatenate([before, labels]) if before is not None and fits else labels
        width = max(1, labels.size // max(1, len(labels)))
        self._labels[mode] = known[-min(_REMEMBERED, max(1, _ELEMENTS_REMEMBERED // width)) :]


def _parts(loss: ArrayLoss) -> Iterator[ArrayLoss]:
    """Split a batch of an evaluation, which may be all of it: it has several comparisons."""
    if len(loss.labels) < _PARTS * _LEAST_OF_A_PART:
        yield loss
        return
    for first in range(_PARTS):
        rows = slice(first, None, _PARTS)
        yield replace(loss, labels=loss.labels[rows], predictions=loss.predictions[rows])
