"""Recognises a loss that falls without bound, usually because its sign is wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Marks = Mapping[str, Any]
"""``saves``: the number of saves so far; ``next``: when there is another mark; ``levels``: the loss
at the last marks, each of which comes after a fifth more saves."""

FAR = 30.0
"""The distance below 0, in first losses, before it counts as one without bound."""

_GROWTH = 2**0.25  # of the number of saves between two marks
_DOUBLE = 4  # marks
_KEPT = 2 * _DOUBLE + 1  # marks: two doublings
_FIRST = 8  # saves
_VERY_FAR = 1000.0  # times the first three saves: no likelihood is as low
_LINEAR, _STILL = 1.6, 1.1  # growth while the saves double, and over a fifth of them


def marked(marks: Marks, level: float) -> dict[str, Any]:
    """Count a save, and mark the level of the last few where the count has grown by a fifth."""
    saves, following = marks.get("saves", 0) + 1, marks.get("next", _FIRST)
    levels: Sequence[float] = marks.get("levels", ())
    if saves < following or not math.isfinite(level):
        return {"saves": saves, "next": following, "levels": levels}
    levels = [*levels, float(f"{level:.5g}")][-_KEPT:]
    return {"saves": saves, "next": max(saves + 1, round(saves * _GROWTH)), "levels": levels}


def falls_without_bound(marks: Marks, first: float, start: float) -> bool:
    """Return whether a loss is far below 0 and falls as fast as before.

    ``first`` is the size of the first losses, ``start`` that of the very first ones. A likelihood
    falls like a logarithm: by as much from the 100th to the 200th save as from the 200th to the
    400th. Whoever trains with a wrong sign doubles the loss with the number of steps, or does
    worse.
    """
    levels: Sequence[float] = marks["levels"]
    if len(levels) < 2 or first <= 0:
        return False
    now = levels[-1]
    if now > -FAR * first:
        return False
    if now < -_VERY_FAR * start:
        return now < _STILL * levels[-2]
    if len(levels) < _KEPT:
        return False
    half, quarter = levels[-1 - _DOUBLE], levels[0]
    return quarter < 0 and now < _LINEAR * half and half < _LINEAR * quarter
