"""Durations of steps as counts of bins that are 2 % wide, and the outliers among them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tocsin.rules._rule import Tensor
from tocsin.rules.machine._machine import samples

_WIDTH = 1.02  # of a bin
_MOST_BINS = 100  # bins of a minute; above it, the fastest ones are merged
_LEAST, _MOST_SECONDS = 1e-6, 1e6  # shorter and longer steps count as these

Counts = Mapping[str, int]
"""The number of steps, by the bin of their duration."""


@dataclass(frozen=True)
class Outliers:
    """The number of outliers and of steps; in seconds the median, the worst, the time of all steps,
    and that of the outliers beyond the median.
    """

    slow: int
    steps: int
    median: float
    worst: float
    seconds: float
    beyond: float


def is_measured(tensor: Tensor) -> bool:
    """Return whether the durations of a minute's steps are known, or there was none."""
    return not tensor.summary.size or samples(tensor) is not None


def counted(tensor: Tensor) -> Counts:
    """Return the steps of a minute by the bin of their duration. Samples count for those left
    out."""
    durations = samples(tensor)
    if durations is None:
        return {}
    seconds = np.clip(durations, _LEAST, _MOST_SECONDS)
    bins = np.rint(np.log(seconds) / math.log(_WIDTH)).astype(int)
    bins = np.maximum(bins, bins.max(initial=0) - 10 * _MOST_BINS)
    each = max(1.0, (tensor.summary.size or 0) / durations.size)
    found = Counter(bins.tolist())
    if len(found) > _MOST_BINS:
        found = Counter(bins[:: len(found) // _MOST_BINS + 1].tolist())
        each *= bins.size / max(1, found.total())
    return {str(at): round(count * each) for at, count in sorted(found.items())}


def together(minutes: Iterable[Counts], most: int | None = None) -> dict[str, int]:
    """Return the counts of several minutes, by bin in order. Of more than ``most`` bins the fastest
    are put together.
    """
    total: Counter[int] = Counter()
    for counts in minutes:
        for at, count in counts.items():
            total[int(at)] += count
    bins = sorted(total)
    if most is not None and len(bins) > most:
        least = bins[-most]
        total[least] += sum(total.pop(at) for at in bins[:-most])
    return {str(at): total[at] for at in sorted(total)}


def outliers(counts: Counts, deviations: float, ratio: float) -> Outliers:
    """Return the steps above the median plus so many standard deviations, and above ``ratio``
    medians.

    The deviation is estimated by the median absolute deviation. ``counts`` must not be empty.
    """
    times = np.array([_WIDTH ** int(at) for at in counts], np.float64)
    sizes = np.array([*counts.values()], np.int64)
    order = np.argsort(times)
    times, sizes = times[order], sizes[order]
    middle = _median(times, sizes)
    distances = np.abs(times - middle)
    order = np.argsort(distances)
    deviation = _median(distances[order], sizes[order])
    slow = times > middle + max(deviations * 1.4826 * deviation, (ratio - 1) * middle)
    return Outliers(
        slow=int(sizes[slow].sum()),
        steps=int(sizes.sum()),
        median=middle,
        worst=float(times[-1]),
        seconds=float((times * sizes).sum()),
        beyond=float(((times - middle) * sizes)[slow].sum()),
    )


def _median(values: np.ndarray, counts: np.ndarray) -> float:
    at = int(np.searchsorted(np.cumsum(counts), counts.sum() / 2))
    return float(values[min(at, values.size - 1)])
