"""Compares single features of a model's inputs between EVAL and TRAIN, by their moments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev
from typing import Any, NamedTuple

_BATCHES = 5  # of TRAIN
_FACTOR = 3.0  # between the deviations of a feature
_FAR = 5.0  # deviations, between its means
_NEAR = 0.3  # deviations between equal means
_ERRORS = 3.0  # standard errors between equal means
_OTHERS = 2  # features that must agree with training, and at least half of all
_SAME = 1.5  # between deviations, of these
_TWO_VALUES = 0.98  # share of the variance of mean squares that the means explain
_ROUNDING = 1e-12  # of a variance: a smaller one is that of equal numbers
_EDGE = math.sqrt(3)  # deviations from the mean to the end of an even distribution
_ALIKE = 0.25  # deviations between means of features of one quantity, as in a series
_ALIKE_IN_ONE = 1.0  # the same for an evaluation, of which one batch may be known
_TOUCH = 2.5  # deviations between the means of a series and its continuation
_GROWS = 4.0  # growth of a continued series, in deviations

Sums = Sequence[float]


class Feature(NamedTuple):
    """A feature over all batches of a mode: the variances between batches and within them."""

    mean: float
    between: float
    within: float

    @property
    def deviation(self) -> float:
        return math.sqrt(self.between + self.within)


def feature_of(sums: Sums, n: int) -> Feature:
    """From the sums over ``n`` batches of mean, squared mean and variance."""
    mean = sums[0] / n
    return Feature(mean, max(0.0, sums[1] / n - mean * mean) * n / max(1, n - 1), sums[2] / n)


def with_batch(kept: Sequence[float], mean: float, variance: float) -> list[float]:
    """Add a batch to what is kept of a feature of TRAIN: the first mean, and from there the sums of
    means, of their squares, of mean squares, of their squares and of products of both; and the
    smallest and the largest variance."""
    start, d1, d2, e1, e2, both, low, high = kept or (mean, *[0.0] * 5, variance, variance)
    d = mean - start
    e = variance + d * d
    sums = (d1 + d, d2 + d * d, e1 + e, e2 + e * e, both + e * d)
    return [start, *sums, min(low, variance), max(high, variance)]


def other_feature(train: Mapping[str, Any], held: Mapping[str, Any]) -> int | None:
    """Return the first feature that is another quantity, or in another unit, in EVAL; None without
    one, and where not most others are as in training.

    Its mean is five deviations away; or its deviation differs by a factor of three and is beyond
    those of all batches of TRAIN, while it reaches farther on both sides, or lies far beyond: later
    samples of a series often vary less, and lie on one side. A smaller one about the same mean must
    be the only one that differs: samples of few groups, as persons, have several of them. Not
    judged is what has two values, of which an evaluation may well have one alone, nor by its
    deviation what has one value in each batch of EVAL: its samples may be of one group.
    """
    n, k, found, same, live = train["n"], held["n"], list[int](), 0, 0
    narrower = list[int]()
    if n < _BATCHES or len(train.get("kept", ())) != len(held["sums"]):
        return None
    for at, (mine, theirs) in enumerate(zip(train["sums"], held["sums"], strict=True)):
        ours, other, kept = feature_of(mine, n), feature_of(theirs, k), train["kept"][at]
        if not ours.within > 0:
            continue
        live += 1
        apart = abs(other.mean - ours.mean)
        larger, smaller = other.deviation > ours.deviation, ours.deviation > other.deviation
        wide, narrow = sorted((ours.deviation, other.deviation), reverse=True)
        same += wide <= _SAME * narrow and apart <= ours.deviation
        of_held = ours.between * train["rows"] / held["rows"]  # whose samples may always be these
        error = _ERRORS * math.sqrt(ours.between / n + of_held)
        centred = apart <= error < _NEAR * ours.deviation
        beyond = apart > _EDGE * 1.5 * (ours.deviation + other.deviation)
        is_unusual = not _is_near(other.within, kept[6], kept[7], n)
        placed = (larger and apart < other.deviation) or beyond
        varies = other.within > _ROUNDING * ours.within  # else they are of one group, perhaps
        scaled = varies and wide > _FACTOR * narrow and is_unusual
        if _has_two_values(kept, n):
            continue
        if (scaled and placed) or apart > _FAR * wide:
            found.append(at)
        elif scaled and smaller and centred:
            narrower.append(at)
    if found and same >= max(_OTHERS, live / 2):
        return found[0]
    return narrower[0] if narrower and same >= max(_OTHERS, live - 1) else None


def _is_near(variance: float, low: float, high: float, n: int) -> bool:
    """Return whether a variance lies between those of the ``n`` batches of TRAIN, or beside them by
    as much as they differ: those of a column with a long tail differ much. Few batches show less of
    that, so for five of them it is twice as much."""
    margin = (high / low) ** (1 + _BATCHES / n) if low else math.inf
    return low / margin <= variance <= high * margin


def _has_two_values(kept: Sequence[float], n: int) -> bool:
    """Return whether the mean squares of the batches follow from their means, as for zeros and
    ones; or nothing is known of that, as all batches are the same."""
    _, d1, d2, e1, e2, both, _, _ = kept
    means, squares = d2 - d1 * d1 / n, e2 - e1 * e1 / n
    products = both - d1 * e1 / n
    return not products * products < _TWO_VALUES * means * squares


def goes_on(train: Mapping[str, Any], held: Mapping[str, Any]) -> bool:
    """Return whether all features are one quantity, as the times of a series, and EVAL begins where
    TRAIN ended: a series with a trend."""
    ours, theirs = _as_one(train, _ALIKE, _SAME), _as_one(held, _ALIKE_IN_ONE, _FACTOR)
    if ours is None or theirs is None:
        return False
    (mean, deviation), (other, their) = ours, theirs
    touches = abs(other - mean) <= _TOUCH * (deviation + their)
    outside = abs(other - mean) > max(deviation, their)
    return touches and outside and their <= _GROWS * deviation


def _as_one(memory: Mapping[str, Any], near: float, same: float) -> tuple[float, float] | None:
    """Mean and deviation of all features together, if they are alike."""
    features = [feature_of(sums, memory["n"]) for sums in memory["sums"]]
    deviations, means = [f.deviation for f in features], [f.mean for f in features]
    if not deviations or not min(deviations) > 0:
        return None
    deviation = fmean(deviations)
    alike = pstdev(means) <= near * deviation and max(deviations) <= same * min(deviations)
    return (fmean(means), deviation) if alike else None
