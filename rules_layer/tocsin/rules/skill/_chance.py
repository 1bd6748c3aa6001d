"""Confidence bounds of counts and shares, from small samples too."""

from __future__ import annotations

import math


def poisson_bound(count: int, sigmas: float) -> float:
    """Return the upper confidence bound of a count's mean, the lower if ``sigmas`` is negative.

    It is the score interval of a Poisson distribution, at ``sigmas`` standard deviations.
    """
    square = sigmas**2
    return count + square / 2 + sigmas * math.sqrt(count + square / 4)


def wilson_bound(hits: int, samples: int, sigmas: float) -> float:
    """Return the lower bound of Wilson's confidence interval for a share of ``hits``."""
    share, square = hits / samples, sigmas**2 / samples
    margin = sigmas * math.sqrt(share * (1 - share) / samples + square / (4 * samples))
    return (share + square / 2 - margin) / (1 + square)
