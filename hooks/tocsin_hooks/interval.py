"""The summary of a save interval: one number of every step since the save before."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tocsin.model import Bounds, Role, TensorSummary

from tocsin_hooks.looks import Name

SPIKE = 10.0
"""A spike is a value above so many times the level."""

LOSS, GRADIENT = "loss", "gradient"
"""The kinds of numbers that are summarised."""

_LEVEL = 64  # latest values, whose median is a level
_BLOCK = 16  # values that are judged together; a level takes as many

Numbers = NDArray[np.float64]


def interval_name(kind: str, number: int = 0) -> Name:
    """Return the name of the summary of an optimizer's losses or gradients."""
    suffix = f"_{number}" if number else ""
    return Name(f"interval/{kind}{suffix}", ("intervals",), Role.INTERVAL, kind)


class IntervalSummary:
    """Summarises one series, interval by interval.

    A spike is a finite value above ten times the level. The level is the largest of two medians of
    magnitudes: the median of any 64 consecutive steps before, and that of the latest 16. So
    neither the fall of a loss nor a rise that lasts is a spike. The first 16 steps are not judged.
    """

    def __init__(self) -> None:
        self._recent: Numbers = np.empty(0)
        self._level = 0.0

    def of(self, steps: Sequence[int], values: Numbers) -> TensorSummary:
        """Return the summary of an interval with at least one value, each with its step.

        ``bounds`` has the number of spikes, and the limit at the end of the interval; there are
        none before a level is known.
        """
        limit, spikes = None, 0
        for start in range(0, len(values), _BLOCK):
            limit, found = self._judge(values[start : start + _BLOCK])
            spikes += found
        finite = values[np.isfinite(values)]
        largest = max(range(len(values)), key=lambda at: _order(values[at]))
        return TensorSummary(
            size=len(values),
            nan=int(np.isnan(values).sum()),
            posinf=int(np.isposinf(values).sum()),
            neginf=int(np.isneginf(values).sum()),
            min=_rounded(finite.min()) if finite.size else None,
            max=_rounded(finite.max()) if finite.size else None,
            mean=_rounded(finite.mean()) if finite.size else None,
            quantiles={"0.5": _rounded(np.median(finite))} if finite.size else None,
            bounds=None if limit is None else Bounds(high=_rounded(limit), above=spikes),
            max_step=steps[largest],
        )

    def _judge(self, block: Numbers) -> tuple[float | None, int]:
        """Return the limit of a few values, if it is known, and how many are above it."""
        finite = block[np.isfinite(block)]
        self._recent = np.concatenate([self._recent, np.abs(finite)])[-_LEVEL:]
        limit, spikes = None, 0
        if self._level > 0:
            limit = SPIKE * max(self._level, float(np.median(self._recent[-_BLOCK:])))
            spikes = int((finite > limit).sum())
        if len(self._recent) >= _BLOCK:
            self._level = max(self._level, float(np.median(self._recent)))
        return limit, spikes


def _order(value: float) -> float:
    """Return a number by which values that are not finite are the largest."""
    return value if math.isfinite(value) else math.inf


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
