"""The units of a layer: how many of them hardly ever have a value inside an interval."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tocsin.model import Detail, Role, TensorSummary
from tocsin.rules._rule import Read, Tensor


def activations(role: Role, kind: str, active: tuple[float | None, float | None]) -> Read:
    """What ``layer`` needs of the inputs or outputs of an activation."""
    return Read((role,), (kind,), fields=("size", "nan"), detail=Detail(active=active))


class Layer(NamedTuple):
    """A layer's tensor, and how many of its ``units`` are inactive."""

    tensor: Tensor
    units: int
    inactive: int

    @property
    def percent(self) -> float:
        return 100 * self.inactive / self.units


def layer(tensor: Tensor, threshold: float, enough: float = 0.0) -> Layer | None:
    """A unit is inactive with less than ``threshold`` % of its values, or none, in the interval.

    None: not known, or there is a NaN in it, which is another rule's. Where no more than
    ``enough`` % of the units can be inactive only those without any value inside are counted,
    and so they are where too many units were not counted one by one.
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


def values_per_unit(summary: TensorSummary) -> int:
    """0 if that is not known."""
    return (summary.size or 0) // summary.units if summary.units else 0


def active_counts(summary: TensorSummary) -> NDArray[np.uint32] | None:
    """How many values of each unit lie inside, if that was counted."""
    try:
        counts = np.frombuffer(base64.b64decode(summary.unit_active or ""), "<u4")
    except ValueError:
        return None
    return counts if len(counts) == summary.units else None


def inactive(counts: NDArray[Any], threshold: float, values: int) -> NDArray[np.bool_]:
    """Which units have less than ``threshold`` % of their values, or none, inside."""
    return np.asarray((counts == 0) | (counts * 100.0 < threshold * values))


def worst(layers: Iterable[Layer]) -> Layer | None:
    """The layer with the largest share of inactive units; of equals the one first by name."""
    return min(layers, key=lambda found: (-found.percent, found.tensor.name), default=None)


def check_thresholds(inactivity: float, layer: float, min_units: int) -> None:
    """Raises ValueError on what cannot be meant."""
    if not 0 <= inactivity <= 100:
        raise ValueError(f"threshold_inactivity is {inactivity}, but must be from 0 to 100")
    if not 0 <= layer < 100:
        raise ValueError(f"threshold_layer is {layer}, but must be from 0 to below 100")
    if min_units < 1:
        raise ValueError(f"min_units is {min_units}, but must be at least 1")


def _may_exceed(summary: TensorSummary, threshold: float, enough: float) -> bool:
    """Whether so many values lie outside that more than ``enough`` % of units may be inactive."""
    bounds, size = summary.bounds, summary.size or 0
    if bounds is None:
        return True
    outside = bounds.below + bounds.above
    return outside > size * (enough / 100) * (1 - threshold / 100)
