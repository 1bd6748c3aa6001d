"""Short windows of rounded numbers, and their statistics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from tocsin.rules._rule import State
from tocsin.rules._series import MOST_SERIES, Point

Window = Sequence[float | None]
"""The last numbers of a series, oldest first. None stands for a number that is not finite."""


def tracked(state: State, points: Iterable[Point]) -> Iterator[Point]:
    """Yield the points of series that are in the state, and of new series up to its limit."""
    room = 2 * MOST_SERIES - len(state)
    for point in points:
        if point.key not in state:
            room -= 1
            if room < 0:
                continue
        yield point


def rounded(number: float | None, digits: int = 6) -> float | None:
    """Rounds a number for a state; None if it is unknown or not finite."""
    if number is None or not math.isfinite(number):
        return None
    return float(f"{number:.{digits}g}")


def in_digits(*numbers: float) -> tuple[str, ...]:
    """Format numbers with three digits, or enough to tell different numbers apart."""
    for digits in range(3, 8):
        texts = tuple(f"{number:.{digits}g}" for number in numbers)
        if len(set(texts)) == len(set(numbers)):
            break
    return texts


def as_numbers(window: Window) -> list[float]:
    """Return the window with infinity in place of None."""
    return [math.inf if number is None else number for number in window]


def level(window: Window) -> float:
    """Return the median of a window, where None counts as infinity. NaN if it is empty."""
    return median(as_numbers(window)) if window else math.nan


def median_deviation(window: Window) -> float:
    """Return the median absolute deviation of the finite numbers, a measure of noise."""
    numbers = [number for number in window if number is not None]
    middle = median(numbers or [0.0])
    return median([abs(number - middle) for number in numbers] or [0.0])


def half_range(window: Window) -> float:
    """Return half the range of the finite numbers."""
    numbers = [number for number in window if number is not None]
    return max(numbers) / 2 - min(numbers) / 2 if numbers else 0.0


def quantile(numbers: Sequence[float], q: float) -> float:
    """Return the quantile ``q`` of the numbers, which is one of them."""
    return sorted(numbers)[max(0, math.ceil(q * len(numbers)) - 1)]


Save = Sequence[float]
"""A step and its cost."""


def recent_median(saves: Sequence[Save], smooth: int) -> float:
    """Return the median cost of the last ``smooth`` saves."""
    return median(cost for _, cost in saves[-smooth:])


def thinned(saves: Sequence[Save], new: Save, ends: int, apart: float) -> list[Save]:
    """Add a save, and drop saves that are less than ``apart`` steps after the one before.

    It always keeps the ``ends`` oldest and the ``ends`` newest saves.
    """
    at = len(saves) - ends  # this save is no longer among the newest
    if at >= ends and saves[at][0] - saves[at - 1][0] < apart:
        saves = [*saves[:at], *saves[at + 1 :]]
    return [*saves, new]


def percent_decrease(before: float, after: float) -> float:
    """Return by how many % of ``before`` a cost fell. A change from 0 counts as 100 %."""
    if before == 0:
        return 0.0 if after == 0 else math.copysign(100.0, -after)
    return 100.0 * (before - after) / abs(before)
