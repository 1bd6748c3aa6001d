"""Counts of the last samples of a device: how many there are, and how many are beyond limits.

A percentile is below a limit if few enough samples are at or above it, up to the interpolation
between two neighbours. Counts, unlike percentiles, can be added up, and need no samples in a state.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tocsin.rules._rule import Tensor
from tocsin.rules.machine._machine import samples

FEW = 0.05  # of the samples

_PARTS = 5  # parts of a window, which may be one part too long

Kept = Sequence[int]
"""The number of samples so far; then for each part of the window its size and its counts."""


def percents(tensor: Tensor) -> NDArray[np.float64] | None:
    """Return the samples of a minute; where only the mean is known, that in place of each; else
    None."""
    found = samples(tensor)
    if found is not None or tensor.summary.mean is None:
        return found
    return np.full((tensor.shape or (1,))[0], tensor.summary.mean)


def appended(kept: Kept, size: int, counts: Sequence[int], window: int) -> list[int]:
    """Add the samples of a minute, and drop the parts that are older than the window."""
    width = 1 + len(counts)
    points, flat = (kept[0], kept[1:]) if kept else (0, [])
    parts = [[*flat[at : at + width]] for at in range(0, len(flat), width)]
    if parts and parts[-1][0] < window / _PARTS:
        parts[-1] = [a + b for a, b in zip(parts[-1], (size, *counts), strict=True)]
    else:
        parts.append([size, *counts])
    while sum(part[0] for part in parts[1:]) >= window:
        del parts[0]
    return [points + size, *(number for part in parts for number in part)]


def shares(kept: Kept, limits: int) -> list[float]:
    """Return the share of the samples in the window that are beyond each of so many limits."""
    totals = np.array(kept[1:], np.float64).reshape(-1, 1 + limits).sum(axis=0)
    return [float(each) for each in totals[1:] / max(1.0, totals[0])]
