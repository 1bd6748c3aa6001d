"""Confidence intervals of a share of runs."""

from __future__ import annotations

from math import sqrt

_Z = 1.96


def wilson(hits: int, count: int) -> tuple[float, float]:
    """The 95 % interval of a share, by Wilson's score; (0, 1) when nothing was counted."""
    if count == 0:
        return 0.0, 1.0
    share, z2 = hits / count, _Z * _Z
    middle = share + z2 / (2 * count)
    half = _Z * sqrt(share * (1 - share) / count + z2 / (4 * count * count))
    low, high = (middle - half) / (1 + z2 / count), (middle + half) / (1 + z2 / count)
    return max(0.0, low), min(1.0, high)


def share(hits: int, count: int) -> str:
    """``3/150 = 2.0 % (0.7–5.7)``."""
    if count == 0:
        return "–"
    low, high = wilson(hits, count)
    return f"{hits}/{count} = {100 * hits / count:.1f} % ({100 * low:.1f}–{100 * high:.1f})"
