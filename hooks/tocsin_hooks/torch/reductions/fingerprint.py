"""Fingerprints of tensors, computed on their device: the same as those of their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from tocsin.tensors import fingerprint_of_sums, fingerprint_weights

from tocsin_hooks.torch.reductions.packing import packed, piece, rows_of
from tocsin_hooks.torch.reductions.transfer import Parcel

_WORD = 8  # bytes
_OF_NUMPY = frozenset({torch.float64, torch.float32, torch.float16})
_LOW = (1 << 32) - 1


def host_type(dtype: Any) -> Any:
    """Return the type that values have on the host, where numpy lacks some short floats."""
    return torch.float32 if dtype.is_floating_point and dtype not in _OF_NUMPY else dtype


def fingerprints(tensors: Sequence[Any], parcel: Parcel) -> Callable[[], list[str]]:
    """Fingerprints of tensors of one type that are not small, known when the parcel has arrived."""
    device, dtype = tensors[0].device, host_type(tensors[0].dtype)
    itemsize = dtype.itemsize
    sizes = [tensor.numel() for tensor in tensors]
    whole = [size * itemsize // _WORD * _WORD // itemsize for size in sizes]
    forth, back = _weights(device)
    width = len(forth) * _WORD // itemsize
    sums = []
    for rows in packed(tensors, whole, width, 0, dtype):
        words = rows.view(torch.int64)
        high = words >> 32 & _LOW
        sums.append(torch.stack([(words * forth).sum(1), (high * back).sum(1)], 1))
    sent = parcel.add(torch.cat(sums))
    rests = [
        parcel.add(piece(tensor, start, size).to(dtype)) if start < size else None
        for tensor, start, size in zip(tensors, whole, sizes, strict=True)
    ]

    def finish() -> list[str]:
        rows, start, found = sent.tensor.numpy(), 0, []
        for size, count, rest in zip(sizes, whole, rests, strict=True):
            stop = start + rows_of(count, width)
            behind = b"" if rest is None else rest.tensor.numpy().tobytes()
            own = rows[start:stop].astype("<i8", copy=False)
            found.append(fingerprint_of_sums(own.tobytes(), size * itemsize, behind))
            start = stop
        return found

    return finish


@lru_cache
def _weights(device: Any) -> tuple[Any, Any]:
    forth, back = (torch.from_numpy(each.view(np.int64)) for each in fingerprint_weights())
    return forth.to(device), back.to(device)
