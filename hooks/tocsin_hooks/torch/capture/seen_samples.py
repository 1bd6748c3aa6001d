"""Sketches of the samples that a model is trained and evaluated on, as hashes."""

from __future__ import annotations

from typing import Any

import torch

from tocsin_hooks.guard import Guard
from tocsin_hooks.looks import EVERY_STEP, SAMPLES
from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.reductions.plain import plain

_KEPT = 64  # hashes
_TOGETHER = 16  # steps, of which hashes are computed at once
_NONE = 2.0  # in place of a hash
_INPUTS = 4
_MOST_PASSES = 8  # of a step of training
_LENGTHS = 2  # of batches: the last one may be shorter
_MOST_EVALUATED = 1024  # passes of an evaluation
_MOST_ROWS = 1 << 14
_MOST_COLUMNS = 512
_LEAST_COLUMNS = 16
_MOST_ELEMENTS = 1 << 19
_DIGITS = 4096.0  # of the mantissa, before those that make the hash
_GRAIN = 2.0**24


class SeenSamples:
    """Captures hashes of the samples in the passes of each step of training, or each evaluation.

    Equal samples have equal hashes, which lie between 0 and 1 as if drawn at random; so the
    smallest ones of many batches show how many samples there are (Bar-Yossef et al., RANDOM 2002:
    the k-th smallest of n is near k / n). Each save holds what was seen since the one before: the
    number of steps and of samples, that of the elements of one, and the smallest hashes. All stays
    on the device. In evaluations a sample of whole numbers has no hash: it may be met by chance.
    """

    def __init__(self, step: CurrentStep, *, evaluates: bool = False) -> None:
        self._step = step
        self._evaluates = evaluates
        self._weights: dict[tuple[int, Any], Any] = {}
        self._steps = self._since = self._count = self._elements = 0
        self._sums_of_steps: list[Any] = []
        self._hashes: Any = None
        self._unknown = False
        self._lengths = set[int]()  # of what may be a sequence

    @property
    def is_due(self) -> bool:
        if self._unknown:
            return False
        if self._evaluates:
            return self._step.evaluates and self._step.saving and not self._is_cut_short
        if not self._step.trains or self._step.passes > _MOST_PASSES:
            return False
        return self._steps < EVERY_STEP or self._step.saving

    @property
    def _is_cut_short(self) -> bool:
        """Return whether an evaluation has so many passes that those seen may be other samples than
        the rest."""
        return self._evaluates and self._step.passes > _MOST_EVALUATED

    def forward_begins(self, inputs: list[Any]) -> None:
        """A forward pass gets these inputs. If their lengths differ, as those of a batch and a
        state, some passes may be counted and others not: then nothing is from there on. So it is
        with single sequences, of (time, 1, features): their parts are no samples."""
        with Guard(self._step.hook.trouble, "samples are not counted"), torch.no_grad():
            tensors = [each for each in map(plain, inputs) if each is not None and each.dim()]
            tensors = [each for each in tensors if each.numel() > 1 or len(tensors) == 1]
            if len({len(each) for each in tensors}) > 1 or self._are_sequences(tensors):
                self._unknown, self._since = True, 0
            if not tensors or self._unknown:
                return
            device = tensors[0].device
            given = [each for each in tensors if each.device == device and each.numel()][:_INPUTS]
            if not given or any(each.is_complex() for each in given):
                return
            if self._evaluates and not any(each.is_floating_point() for each in given):
                return
            first, *others = (self._sums(at, each) for at, each in enumerate(given))
            if self._sums_of_steps and self._sums_of_steps[0].device != device:
                self._sums_of_steps, self._hashes = [], None  # the model has moved
            found = sum(others, start=first)
            self._sums_of_steps.append(found * _has_fractions(given) if self._evaluates else found)
            self._steps += self._step.passes == 1
            self._since += self._step.passes == 1
            self._count += len(given[0])
            self._elements = sum(_elements(each) for each in given)
            if len(self._sums_of_steps) >= _TOGETHER:
                self._fold()

    def _are_sequences(self, tensors: list[Any]) -> bool:
        """Return whether lengths change from pass to pass, and the second axis may be that of
        samples."""
        if not self._evaluates:
            self._lengths.update(len(t) for t in tensors if t.dim() == 3 and t.shape[1] == 1)
        return len(self._lengths) > _LENGTHS

    def flush(self) -> None:
        """Add the samples since the last save to the current step."""
        with Guard(self._step.hook.trouble, "samples are not counted"), torch.no_grad():
            plan = self._step.plan(SAMPLES)
            some = bool(self._sums_of_steps) or self._hashes is not None
            if plan and self._since and some and not self._is_cut_short:
                self._fold()
                numbers = (self._since, self._count, self._elements)
                head = torch.stack([self._hashes.new_full((), each) for each in numbers])
                self._step.add([(plan, torch.cat([head, self._hashes]))])
        self._since = self._count = 0
        self._sums_of_steps, self._hashes = [], None

    def _fold(self) -> None:
        """Keep the smallest hashes of the steps so far."""
        found = [_hashes(torch.cat(self._sums_of_steps))] if self._sums_of_steps else []
        before = [] if self._hashes is None else [self._hashes]
        self._hashes = _smallest(torch.cat([*before, *found]))
        self._sums_of_steps.clear()

    def _sums(self, at: int, tensor: Any) -> Any:
        """A weighted sum of the elements of each sample. Zeros at its end change nothing."""
        rows = _rows(tensor)
        most = max(_LEAST_COLUMNS, min(_MOST_COLUMNS, _MOST_ELEMENTS // len(rows)))
        rows = rows[:, :: -(-rows.shape[1] // most)]
        weights = self._weights_of(at, rows.device)
        rows, weights = rows.to(weights.dtype), weights[: rows.shape[1]]
        # Autocast makes products of matrices coarse, but leaves float64 as it is.
        return (
            torch.mv(rows, weights) if weights.dtype == torch.float64 else (rows * weights).sum(1)
        )

    def _weights_of(self, at: int, device: Any) -> Any:
        if (at, device) not in self._weights:
            draw = torch.Generator().manual_seed(at)
            found = torch.randn(_MOST_COLUMNS, generator=draw, dtype=torch.float64)
            wide = torch.float32 if device.type == "mps" else torch.float64
            self._weights[at, device] = found.to(device, wide)
        return self._weights[at, device]


def _rows(tensor: Any) -> Any:
    rows = tensor.reshape(len(tensor), -1)
    return rows[:: -(-len(rows) // _MOST_ROWS)]


def _has_fractions(given: list[Any]) -> Any:
    """For each sample whether some of its numbers are no integers."""
    numbers = [_rows(each) for each in given if each.is_floating_point()]
    return torch.stack([(each != each.round()).any(1) for each in numbers]).any(0)


def _hashes(sums: Any) -> Any:
    mantissa = torch.frexp(sums.nan_to_num(0, 0, 0)).mantissa
    hashes = (mantissa.abs() * _DIGITS).frac()
    return (hashes * _GRAIN).floor() / _GRAIN  # the order of a sum changes its last digits


def _smallest(hashes: Any) -> Any:
    """The smallest hashes in order, each once."""
    ordered = hashes.sort().values
    ordered[1:] = torch.where(ordered[1:] == ordered[:-1], _NONE, ordered[1:])
    return ordered.sort().values[:_KEPT]


def _elements(tensor: Any) -> int:
    """The number of elements of a sample, or of a point where all points are one batch."""
    alone = len(tensor) == 1 and tensor.dim() > 2
    return int(tensor.shape[-1] if alone else tensor.numel() // len(tensor))
