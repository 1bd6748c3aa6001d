"""Keeps sums of numbers over the whole run in a few blocks, each of equally many saves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

_DIGITS = 9  # of a sum, so that a state stays small

Blocks = Mapping[str, Any]
"""``parts``: how many were added; ``span``: of those in a block; ``sums``: of each block."""


def with_part(blocks: Blocks, numbers: Sequence[float], most: int) -> dict[str, Any]:
    """Add the numbers of a save, or of a part of it. When there are as many blocks as there may be
    ``most``, pairs of them become one."""
    parts, span = blocks.get("parts", 0), blocks.get("span", 1)
    sums = [*blocks.get("sums", ())]
    if parts % span == 0:
        sums.append(list(numbers))
    else:
        sums[-1] = _added(sums[-1], numbers)
    parts += 1
    if len(sums) == most and parts % span == 0:
        sums = [_added(*pair) for pair in zip(sums[::2], sums[1::2], strict=True)]
        span *= 2
    return {"parts": parts, "span": span, "sums": sums}


def newest(blocks: Blocks, share: float) -> list[Sequence[float]]:
    """Return the newest blocks, which hold this share of all parts."""
    span, sums = blocks.get("span", 1), blocks.get("sums")
    if not sums:  # as in what an earlier version kept
        return []
    last = blocks["parts"] - span * (len(sums) - 1)
    before = max(0.0, share * blocks["parts"] - last)
    return list(sums[len(sums) - 1 - math.ceil(before / span) :])


def _added(some: Sequence[float], others: Sequence[float]) -> list[float]:
    return [_short(a + b) for a, b in zip(some, others, strict=True)]


def _short(number: float) -> float:
    return number if isinstance(number, int) else float(f"{number:.{_DIGITS}g}")
