"""The course of a tensor in one line of text, for an alert about it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tocsin.events import StatusChange
from tocsin.words import number

_BLOCKS = "▁▂▃▄▅▆▇█"
_NOT_FINITE = "×"

# Where values are not finite people want to see the values that led there, not the count.
_NUMBERS = frozenset(
    {"abs_mean", "l1", "l2", "max", "mean", "min", "update_l1", "update_l2", "variance", "zeros"}
)


def measure(alert: StatusChange) -> str:
    """Return the field of the tensor's summary that decided; ``mean`` if no field did."""
    first = next(iter(alert.evidence), "")
    return first if first in _NUMBERS else "mean"


def curve(points: Sequence[tuple[int, float]], name: str) -> str:
    """Return the sparkline of a tensor's ``(step, value)`` points, oldest first, and numbers.

    Empty for fewer than two points, which show nothing.
    """
    if len(points) < 2:
        return ""
    values = [value for _, value in points]
    finite = [value for value in values if math.isfinite(value)]
    bounds = f"min {number(min(finite))}, max {number(max(finite))}, " if finite else ""
    return (
        f"{sparkline(values)} {name}: {bounds}last {_last(values[-1])}, "
        f"steps {points[0][0]} to {points[-1][0]}"
    )


def sparkline(values: Sequence[float]) -> str:
    """Return a block for each value, from the lowest to the highest; ``×`` where it is not
    finite."""
    finite = [value for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    return "".join(_block(value, low, high) for value in values)


def _block(value: float, low: float, high: float) -> str:
    if not math.isfinite(value):
        return _NOT_FINITE
    if low == high:
        return _BLOCKS[0]
    # Halved, for the distance of two large numbers may be infinite.
    share = (value / 2 - low / 2) / (high / 2 - low / 2) if high / 2 > low / 2 else 0.0
    return _BLOCKS[min(int(share * len(_BLOCKS)), len(_BLOCKS) - 1)]


def _last(value: float) -> str:
    return number(value) if math.isfinite(value) else "not finite"
