"""Counts the inactive units of a layer: those with hardly any value in an interval."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tocsin.model import Detail, Role, TensorSummary
from tocsin.rules._rule import Read, Tensor


def activations(role: Role, kind: str, active: tuple[float | None, float | None]) -> Read:
    """Read the inputs or outputs of an activation, with what ``layer_units`` needs."""
    return Read((role,), (kind,), fields=("size", "nan"), detail=Detail(active=active))


class LayerUnits(NamedTuple):
    """The tensor of a layer, the number of its units, and how many of them are inactive."""

    tensor: Tensor
    units: int
    inactive: int

    @property
    def percent(self) -> float:
        return 100 * self.inactive / self.units


def layer_units(tensor: Tensor, threshold: float, enough: float = 0.0) -> LayerUnits | None:
    """Count the inactive units of a tensor.

    A unit is inactive if less than ``threshold`` % of its values, or none, are in the interval.
    Counts only units with none if no more than ``enough`` % of the units can be inactive, and if
    the layer has too many units to count the values of each. Returns None if nothing is known, and
    if there is a NaN, which ExplodingTensor reports.
    """
    summary = tensor.summary
    values = values_per_unit(summary)
    if not values or not summary.units or summary.inactive_units is None or summary.nan:
        return None
    least = LayerUnits(tensor, summary.units, summary.inactive_units)
    if threshold * values <= 100 or not _may_exceed(summary, threshold, enough):
        return least
    counts = active_counts(summary)
    if counts is None:
        return least
    return least._replace(inactive=int(np.count_nonzero(is_inactive(counts, threshold, values))))


def values_per_unit(summary: TensorSummary) -> int:
    """Return the number of values of each unit, or 0 if it is not known."""
    return (summary.size or 0) // summary.units if summary.units else 0


def active_counts(summary: TensorSummary) -> NDArray[np.uint32] | None:
    """Return how many values of each unit are in the interval, if that was counted."""
    counts = np.frombuffer(base64.b64decode(summary.unit_active or ""), "<u4")
    return counts if len(counts) == summary.units else None


def is_inactive(counts: NDArray[Any], threshold: float, values: int) -> NDArray[np.bool_]:
    """Mark the units with less than ``threshold`` % of their values, or none, in the interval."""
    return np.asarray((counts == 0) | (counts * 100.0 < threshold * values))


def least_active(layers: Iterable[LayerUnits]) -> LayerUnits | None:
    """Return the layer with the largest share of inactive units, the first by name if equal."""
    return min(layers, key=lambda layer: (-layer.percent, layer.tensor.name), default=None)


def _may_exceed(summary: TensorSummary, threshold: float, enough: float) -> bool:
    """Return whether more than ``enough`` % of the units can be inactive, by the values outside."""
    bounds, size = summary.bounds, summary.size or 0
    if bounds is None:
        return True
    outside = bounds.below + bounds.above
    return outside > size * (enough / 100) * (1 - threshold / 100)
