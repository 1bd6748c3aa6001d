"""Movement of tensors since their last save, by a sample of each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tocsin.tensors import update_norms

MOST_SAMPLED = 16_384
"""Elements of a tensor that are remembered: all of a smaller one."""

_MOST_BYTES = 64 << 20
_MOST_SAMPLES = 1 << 16  # a tensor of one element takes more than its bytes

Update = tuple[float | None, float | None]
_UNKNOWN: Update = None, None


def sample_stride(size: int) -> int:
    """Every how many elements of a flattened tensor one is remembered.

    It shares no factor with ``size``: the sample goes through every row and column.
    """
    if size <= MOST_SAMPLED:
        return 1
    stride = math.ceil(size / MOST_SAMPLED)
    while math.gcd(stride, size) > 1:
        stride += 1
    return stride


@dataclass(frozen=True)
class _SavedSample:
    values: NDArray[Any]
    shape: tuple[int, ...]
    fingerprint: str | None


class Memory:
    """Samples of the values at the last save, 64 MB in all; what has no place stays unknown."""

    def __init__(self, most: int = _MOST_BYTES) -> None:
        self._left = most
        self._samples: dict[str, _SavedSample] = {}

    def update(
        self, key: str, value: NDArray[Any], fingerprint: str | None, *, again: bool = False
    ) -> Update:
        """Return the l1 and l2 norms of the change since the last save; None if unknown.

        Exact up to 16,384 elements; of larger tensors an estimate from that many, whose error is
        about one percent where no few elements make up most of the change. From now on it is
        this value that counts. Where one step saves a key ``again``, nothing is known.
        """
        flat = value.reshape(-1)
        sample = flat[:: sample_stride(flat.size)]
        return self.update_of_sample(key, sample, value.shape, fingerprint, again=again)

    def update_of_sample(
        self,
        key: str,
        sample: NDArray[Any],
        shape: tuple[int, ...],
        fingerprint: str | None,
        *,
        again: bool = False,
    ) -> Update:
        """Return the same for a tensor of this shape, from its ``sample``."""
        now = _SavedSample(sample, shape, fingerprint)
        before = self._samples.pop(key, None)
        self._left += before.values.nbytes if before is not None else 0
        room = now.values.nbytes <= self._left and len(self._samples) < _MOST_SAMPLES
        if room and sample.dtype.kind in "biufc":
            self._samples[key] = _SavedSample(now.values.copy(), now.shape, fingerprint)
            self._left -= now.values.nbytes
        return _UNKNOWN if before is None or again else _change(before, now, math.prod(shape))


def _change(before: _SavedSample, now: _SavedSample, size: int) -> Update:
    if before.shape != now.shape:
        return _UNKNOWN
    l1, l2 = update_norms(now.values, before.values)
    count = now.values.size
    if count == size:
        return l1, l2
    if l1 == 0 and before.fingerprint != now.fingerprint:  # it changed where the sample is not
        return _UNKNOWN
    return scaled(l1, size / count), scaled(l2, math.sqrt(size / count))


def scaled(norm: float | None, factor: float) -> float | None:
    """Return the norm of a whole tensor, estimated from a sample; None if it is not finite."""
    found = math.inf if norm is None else norm * factor
    return found if np.isfinite(found) else None
