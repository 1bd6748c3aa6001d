"""Counts the distinct samples that a model was trained on, from small hashes of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from tocsin.model import Role
from tocsin.rules._rule import Read, Tensor

_HEAD = 3  # numbers before the hashes: steps, samples, and elements per sample
_KEPT = 64  # hashes
_DIGITS = 7  # digits of a hash: the last ones may differ between batches

SAMPLES = Read(roles=(Role.SAMPLE,), values=True)
"""Reads of each save the number of steps and samples, of elements in one, and small hashes."""


def sample_batches(tensors: Iterable[Tensor]) -> list[NDArray[Any]]:
    """Return the samples of each worker since its last save."""
    return [value for each in tensors if _is_batch(value := each.value)]


def different_samples(seen: Mapping[str, Any]) -> float:
    """Estimate the number of distinct samples: the k-th smallest of n is near k / n."""
    number: float = (len(seen["hashes"]) - is_estimate(seen)) / (seen["up_to"] or 1.0)
    return number


def is_estimate(seen: Mapping[str, Any]) -> bool:
    """Return whether there are more distinct samples than stored hashes."""
    return bool(seen["up_to"] < 1)


def _is_batch(value: NDArray[Any] | None) -> TypeGuard[NDArray[Any]]:
    if value is None or value.ndim != 1 or len(value) <= _HEAD or value.dtype.kind != "f":
        return False
    return bool(np.isfinite(value).all() and (value[:_HEAD] >= 1).all())


def add_batches(seen: Mapping[str, Any], batches: Sequence[NDArray[Any]]) -> Mapping[str, Any]:
    """Add batches to what was seen: all hashes ``up_to`` a limit, and none above it.

    The result also has the number of ``steps`` and of samples ``drawn`` in them, of ``elements`` in
    a sample, and of ``workers``.
    """
    for each in batches:
        steps, drawn, elements = (float(number) for number in each[:_HEAD])
        new = np.round(each[_HEAD:].astype(np.float64), _DIGITS)
        new = new[(new >= 0) & (new <= 1)]
        up_to = min(seen.get("up_to", 1.0), float(new.max()) if len(new) >= _KEPT else 1.0)
        hashes = sorted({*seen.get("hashes", ()), *new.tolist()})
        up_to = min(up_to, hashes[_KEPT - 1]) if len(hashes) >= _KEPT else up_to
        seen = {
            "steps": seen.get("steps", 0) + steps,
            "drawn": seen.get("drawn", 0) + drawn,
            "elements": max(elements, seen.get("elements", 0)),
            "workers": max(len(batches), seen.get("workers", 0)),
            "up_to": up_to,
            "hashes": hashes[: bisect_right(hashes, up_to)],
        }
    return seen
