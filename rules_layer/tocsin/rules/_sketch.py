"""Keeps the course of a series over the whole run in at most 64 blocks of equal width."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

MOST_BLOCKS = 64  # so that the state of a long run stays small

Sketch = Mapping[str, Any]
"""``width``: the number of saves in a block; ``blocks``: the values of complete blocks; ``open``:
the number of saves in the block that is not complete, their sum, the least and the largest.
"""


def sketched(sketch: Sketch, number: float) -> dict[str, Any]:
    """Add a finite number. When there are too many blocks, pairs of them become one."""
    width, blocks = sketch.get("width", 1), list(sketch.get("blocks", ()))
    count, total, least, most = sketch.get("open") or (0, 0.0, number, number)
    count, total = count + 1, total + number
    least, most = min(least, number), max(most, number)
    if count < width:
        return {"width": width, "blocks": blocks, "open": [count, total, least, most]}
    # Without its extremes, the mean of a block withstands heavy tails.
    value = (total - least - most) / (count - 2) if count > 2 else total / count
    blocks.append(float(f"{value:.5g}"))
    if len(blocks) == MOST_BLOCKS:
        blocks = [
            float(f"{a / 2 + b / 2:.5g}") for a, b in zip(blocks[::2], blocks[1::2], strict=True)
        ]
        width *= 2
    return {"width": width, "blocks": blocks, "open": None}


def medians(blocks: Sequence[float], size: int, apart: int = 1) -> list[float]:
    """Return the medians of ``size`` neighbouring blocks, every ``apart`` blocks."""
    last = len(blocks) - size + 1
    return [median(blocks[at : at + size]) for at in range(0, last, apart)]


def noise(numbers: Sequence[float]) -> float:
    """Return the standard deviation of noise on a slow course, from neighbours' differences."""
    jumps = [abs(b - a) for a, b in pairwise(numbers)]
    return 1.48 * median(jumps) / math.sqrt(2) if jumps else 0.0


def deviation(numbers: Sequence[float], mean: float) -> float:
    """Return the standard deviation of numbers from their mean."""
    return math.dist(numbers, [mean] * len(numbers)) / math.sqrt(len(numbers))


def largest_excursion(numbers: Sequence[float]) -> float:
    """Return the largest rise of a course above its lowest number so far."""
    least, most = math.inf, 0.0
    for number in numbers:
        least = min(least, number)
        most = max(most, number - least)
    return most
