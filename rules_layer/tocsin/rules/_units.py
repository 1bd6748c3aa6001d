"""Counts the units of a layer that hardly ever have a value inside an interval."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tocsin.model import Detail, Role, TensorSummary
from tocsin.rules._rule import Read, Tensor


def activations(role: Role, kind: str, active: tuple[float | None, float | None]) -> Read:
    """Reads what ``layer`` needs of the inputs or outputs of an activation."""
    return Read((role,), (kind,), fields=("size", "nan"), detail=Detail(active=active))


class Layer(NamedTuple):
    """A layer's tensor, its number of units, and how many of these are inactive."""

    tensor: Tensor
    units: int
    inactive: int

    @property
    def percent(self) -> float:
        return 100 * self.inactive / self.units


def layer(tensor: Tensor, threshold: float, enough: float = 0.0) -> Layer | None:
    """Counts the inactive units of a tensor: those with less than ``threshold`` % of their values,
    or none, in the interval. None if that is not known, or if there is a NaN (another rule's).

    Only units without any value inside are counted where no more than ``enough`` % of the units
    can be inactive, and where there were too many units to count each one's values.
    """
    summary = tensor.summary
    values = values_per_unit(summary)
    if not values or not summary.units or summary.inactive_units is None or summary.nan:
        return None
    least = Layer(tensor, summary.units, summary.inactive_units)
    if threshold * values <= 100 or not _may_exceed(summary, threshold, enough):
        return least
    counts = active_counts(summary)
    if counts is None:
        return least
    return least._replace(inactive=int(np.count_nonzero(inactive(counts, threshold, values))))


def layers(tensors: Iterable[Tensor], threshold: float, enough: float) -> Iterator[Layer]:
    """Yields the layers of tensors whose units are known."""
    for tensor in tensors:
        if (found := layer(tensor, threshold, enough)) is not None:
            yield found


def values_per_unit(summary: TensorSummary) -> int:
    """The number of values of each unit; 0 if it is not known."""
    return (summary.size or 0) // summary.units if summary.units else 0


def active_counts(summary: TensorSummary) -> NDArray[np.uint32] | None:
    """The number of values of each unit that lie inside, if that was counted."""
    try:
        counts = np.frombuffer(base64.b64decode(summary.unit_active or ""), "<u4")
    except ValueError:
        return None
    return counts if len(counts) == summary.units else None


def inactive(counts: NDArray[Any], threshold: float, values: int) -> NDArray[np.bool_]:
    """Marks the units with less than ``threshold`` % of their values, or none, inside."""
    return np.asarray((counts == 0) | (counts * 100.0 < threshold * values))


def worst(layers: Iterable[Layer]) -> Layer | None:
    """The layer with the largest share of inactive units; among equals the first by name."""
    return min(layers, key=lambda found: (-found.percent, found.tensor.name), default=None)


def _may_exceed(summary: TensorSummary, threshold: float, enough: float) -> bool:
    """Whether enough values lie outside for more than ``enough`` % of the units to be inactive."""
    bounds, size = summary.bounds, summary.size or 0
    if bounds is None:
        return True
    outside = bounds.below + bounds.above
    return outside > size * (enough / 100) * (1 - threshold / 100)
