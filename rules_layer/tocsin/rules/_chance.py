"""How far a count or a share may be from the true one by chance alone."""

from __future__ import annotations

import math


def count_at(count: int, sigmas: float) -> float:
    """The true mean that lies so many standard deviations above (below 0: under) a count.

    The score interval of a Poisson distribution: it holds for small counts, too.
    """
    square = sigmas**2
    return count + square / 2 + sigmas * math.sqrt(count + square / 4)


def least_share(hits: int, of: int, sigmas: float) -> float:
    """The least true share of which ``hits`` among ``of`` may be a sample: Wilson's interval."""
    share, square = hits / of, sigmas**2 / of
    chance = sigmas * math.sqrt(share * (1 - share) / of + square / (4 * of))
    return (share + square / 2 - chance) / (1 + square)
