"""Thins long series for a screen. The envelope keeps every extreme."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.report.parts import Numbers

BUCKETS = 600
NEAR = 50  # saves around a mark that are all kept

Array = NDArray[Any]


def digits(values: Iterable[float]) -> Numbers:
    """Return numbers with four significant digits; None for NaN and infinities."""
    return [digit(float(value)) for value in values]


def digit(value: float | None) -> float | None:
    """Return a number of four significant digits; None for NaN and infinity."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.4g}")


def slices(steps: Array, buckets: int = BUCKETS, marks: Sequence[int] = ()) -> Array:
    """Return the first position of each slice of sorted ``steps``: at most ``buckets``, and besides
    each save by itself within NEAR saves of a mark.
    """
    count = len(steps)
    if count <= buckets:
        return np.arange(count)
    starts = {int(start) for start in np.arange(buckets) * count // buckets}
    for mark in marks:
        at = int(np.searchsorted(steps, mark))
        starts.update(range(max(0, at - NEAR), min(count, at + NEAR + 2)))
    return np.array(sorted(starts))


def envelope(
    steps: Array,
    values: Array,
    low: Array | None = None,
    high: Array | None = None,
    *,
    buckets: int = BUCKETS,
    marks: Sequence[int] = (),
) -> tuple[list[int], Numbers, Numbers | None, Numbers | None]:
    """Return the steps of the slices, the last value of each, and the least and the greatest.

    The last two are None if no save was left out. What is not finite counts for neither, and a
    slice whose last value is not finite has None as its value. ``low`` and ``high``: of each value,
    if it stands for several already.
    """
    starts = slices(steps, buckets, marks)
    if len(starts) == len(steps) and low is None:
        return [int(step) for step in steps], digits(values), None, None
    ends = np.append(starts[1:], len(steps)) - 1
    finite = np.where(np.isfinite(values), values, np.nan)
    low = np.fmin.reduceat(finite if low is None else low, starts)
    high = np.fmax.reduceat(finite if high is None else high, starts)
    return [int(step) for step in steps[ends]], digits(values[ends]), digits(low), digits(high)


def merged(parts: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Several series of one thing as one, in the order of steps."""
    steps = np.concatenate([steps for steps, _ in parts])
    values = np.concatenate([values for _, values in parts])
    order = np.argsort(steps, kind="stable")
    return steps[order], values[order]
