"""Changes of tensors since their last save, from samples that stay on the device."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from tocsin_hooks.memory import MOST_SAMPLED, Update, sample_stride, scaled
from tocsin_hooks.torch.reductions.moments import TensorMoments, row_moments
from tocsin_hooks.torch.reductions.packing import packed, strided
from tocsin_hooks.torch.reductions.transfer import Box, Parcel

_MOST_BYTES = 64 << 20
_UNKNOWN: Update = None, None


class _DeviceSample(NamedTuple):
    values: Any
    shape: tuple[int, ...]


class Samples:
    """Samples of tensors at their last save, 64 MB in all; what has no place stays unknown.

    The counterpart of the hook's memory of what is on the host, with the same numbers.
    """

    def __init__(self) -> None:
        self._samples: dict[str, _DeviceSample] = {}
        self._fingerprints: dict[str, str | None] = {}
        self._left = _MOST_BYTES

    def updates(
        self, keys: Sequence[str], tensors: Sequence[Any], parcel: Parcel
    ) -> Callable[[Sequence[str | None]], list[Update]]:
        """Return the change since each key was saved last, given the fingerprints of the tensors.

        Known when the parcel has arrived. From now on it is these tensors that count.
        """
        shapes = [tuple(tensor.shape) for tensor in tensors]
        parts = [strided(tensor, sample_stride(tensor.numel())) for tensor in tensors]
        counts = [len(part) for part in parts]
        fresh = [
            _DeviceSample(values, shape)
            for values, shape in zip(torch.cat(parts).split(counts), shapes, strict=True)
        ]
        before = [self._exchange(key, now) for key, now in zip(keys, fresh, strict=True)]
        known = [at for at, old in enumerate(before) if old is not None]
        sent: Box | None = None
        if known:
            old = [sample.values for sample in before if sample is not None]
            sent = parcel.add(_changes([fresh[at].values for at in known], old))

        def finish(fingerprints: Sequence[str | None]) -> list[Update]:
            found = [_UNKNOWN] * len(keys)
            if sent is not None:
                sizes = [counts[at] for at in known]
                moments = TensorMoments(sent.tensor.numpy(), sizes, MOST_SAMPLED)
                norms = zip(moments.l1.tolist(), moments.l2.tolist(), strict=True)
                for at, (l1, l2) in zip(known, norms, strict=True):
                    same = self._fingerprints.get(keys[at]) == fingerprints[at]
                    found[at] = _whole(l1, l2, math.prod(shapes[at]), counts[at], same)
            self._fingerprints.update(zip(keys, fingerprints, strict=True))
            return found

        return finish

    def _exchange(self, key: str, now: _DeviceSample) -> _DeviceSample | None:
        """Remember a sample; the one before, if it is of the same kind of tensor."""
        old = self._samples.pop(key, None)
        self._left += 0 if old is None else old.values.nbytes
        if now.values.nbytes <= self._left:
            self._samples[key] = now
            self._left -= now.values.nbytes
        alike = old is not None and (old.shape, old.values.dtype, old.values.device) == (
            now.shape,
            now.values.dtype,
            now.values.device,
        )
        return old if alike else None


def _changes(now: Sequence[Any], before: Sequence[Any]) -> Any:
    """A row of numbers about each difference."""
    sizes, dtype = [len(each) for each in now], torch.float64
    rows = zip(
        packed(now, sizes, MOST_SAMPLED, math.nan, dtype),
        packed(before, sizes, MOST_SAMPLED, math.nan, dtype),
        strict=True,
    )
    return torch.cat([row_moments(new.sub_(old), scaled=True) for new, old in rows])


def _whole(l1: float, l2: float, size: int, count: int, same: bool) -> Update:
    """The norms of a tensor's change, from those of a sample."""
    if count < size and l1 == 0 and not same:  # it changed where the sample is not
        return _UNKNOWN
    return scaled(l1, size / count), scaled(l2, math.sqrt(size / count))
