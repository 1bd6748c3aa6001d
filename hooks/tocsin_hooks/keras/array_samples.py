"""A sketch of the samples that a model is trained on, of arrays: how many different ones there are.

What PyTorch's hook keeps on a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tocsin_hooks import Hook
from tocsin_hooks.keras.array_losses import Array
from tocsin_hooks.looks import SAMPLES

_KEPT = 64  # hashes
_INPUTS = 4
_MOST_ROWS = 1 << 14
_MOST_COLUMNS = 512
_DIGITS = 4096.0  # of the mantissa, before those that make the hash
_GRAIN = 2.0**24


class ArraySamples:
    """Keeps hashes of samples. Equal samples have equal hashes, which lie between 0 and 1 as if
    drawn at random; so the smallest ones of many show how many there are (Bar-Yossef et al., RANDOM
    2002: the k-th smallest of n is near k / n)."""

    def __init__(self) -> None:
        self._weights = np.random.default_rng(0).standard_normal((_INPUTS, _MOST_COLUMNS))
        self._steps = self._count = self._elements = 0
        self._hashes: Array = np.zeros(0)
        self._unknown = False

    def add(self, inputs: Sequence[Any]) -> None:
        """The inputs of a step. If their lengths differ, nothing is counted from there on."""
        arrays = [each for each in inputs if isinstance(each, np.ndarray) and each.size][:_INPUTS]
        self._unknown |= len({len(each) for each in arrays}) > 1
        if self._unknown or not arrays:
            return
        sums = sum(_sums(each, own) for each, own in zip(arrays, self._weights, strict=False))
        mantissa, _ = np.frexp(np.nan_to_num(sums, nan=0, posinf=0, neginf=0))
        hashes = np.floor(np.modf(np.abs(mantissa) * _DIGITS)[0] * _GRAIN) / _GRAIN
        self._hashes = np.unique(np.concatenate([self._hashes, hashes]))[:_KEPT]
        self._steps += 1
        self._count += len(arrays[0])
        self._elements = sum(each.size // len(each) for each in arrays)

    def flush(self, hook: Hook) -> None:
        """Add the samples since the last save to the current step."""
        plan = self._steps and hook.plan(SAMPLES.name, SAMPLES.collections, role=SAMPLES.role)
        if plan:
            head = (self._steps, self._count, self._elements)
            hook.capture(plan, np.concatenate([np.array(head, np.float64), self._hashes]))
        self._steps = self._count = 0
        self._hashes = np.zeros(0)


def _sums(inputs: Array, weights: Array) -> Array:
    """A weighted sum of the elements of each sample."""
    rows = inputs.reshape(len(inputs), -1)
    rows = rows[:: -(-len(rows) // _MOST_ROWS), :: -(-inputs[0].size // _MOST_COLUMNS)]
    return np.asarray(rows.astype(np.float64) @ weights[: rows.shape[1]])
