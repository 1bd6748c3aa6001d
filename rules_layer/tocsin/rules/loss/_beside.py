"""Compares the numbers of a run with those of a baseline at equal steps of the same mode."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import median, stdev
from typing import Any

from tocsin.rules._window import rounded

_ENOUGH = 3  # saves in a window
_MOST_SAVES = 60  # of the run's own window
_SCALE = 3.0  # largest ratio of starts: beyond it, losses have different scales

Save = Sequence[float]
"""A step of the mode, and a number at it."""


@dataclass(frozen=True)
class Level:
    """A series at a step: the median of its last saves, and how it began.

    error: the standard error of the median.
    start: its first save.
    """

    now: float
    error: float
    start: float


def remembered(memory: Mapping[str, Any], at: int, number: float) -> dict[str, Any]:
    """Add a save to the memory of a series: its start, and the last third of its steps."""
    saves = [*memory.get("saves", ()), [at, rounded(number)]]
    recent = [save for save in saves if 3 * save[0] >= 2 * at]
    saves = recent if len(recent) >= _ENOUGH else saves[-_ENOUGH:]
    if len(saves) > _MOST_SAVES:
        saves = [*saves[:-1:2], saves[-1]]
    return {"start": memory.get("start", rounded(number)), "saves": saves}


def own_level(memory: Mapping[str, Any]) -> Level | None:
    """Return the level of the run's own series; None as long as it has too few saves."""
    return _level([number for _, number in memory["saves"]], memory["start"])


def level_at(saves: Sequence[Save], at: int) -> Level | None:
    """Return the level of a baseline's series over the last third of the steps up to ``at``.

    At least its last three saves count. None if it has fewer, or ended before that third.
    """
    end = bisect_right(saves, at, key=itemgetter(0))
    begin = bisect_left(saves, 2 * at / 3, key=itemgetter(0))
    if begin >= end:
        return None
    window = saves[max(0, min(begin, end - _ENOUGH)) : end]
    return _level([number for _, number in window], saves[0][1])


def same_scale(one: float, other: float) -> bool:
    """Return whether two numbers are within a factor of three, or both 0."""
    small, large = sorted((abs(one), abs(other)))
    return large <= _SCALE * small


def _level(window: Sequence[float], start: float) -> Level | None:
    if len(window) < _ENOUGH:
        return None
    error = 1.25 * stdev(window) / math.sqrt(len(window))
    return Level(median(window), error, start)
