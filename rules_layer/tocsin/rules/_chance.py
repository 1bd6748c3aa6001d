"""Bounds on how far a count or a share is from the true one by chance alone."""

from __future__ import annotations

import math


def count_at(count: int, sigmas: float) -> float:
    """The true mean that is ``sigmas`` standard deviations above a count, or below it if negative.

    This is the score interval of a Poisson distribution, which holds for small counts, too.
    """
    square = sigmas**2
    return count + square / 2 + sigmas * math.sqrt(count + square / 4)


def least_share(hits: int, of: int, sigmas: float) -> float:
    """The least true share that ``hits`` among ``of`` may be a sample of, by Wilson's interval."""
    share, square = hits / of, sigmas**2 / of
    chance = sigmas * math.sqrt(share * (1 - share) / of + square / (4 * of))
    return (share + square / 2 - chance) / (1 + square)
