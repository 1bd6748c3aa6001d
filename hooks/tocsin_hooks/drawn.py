"""Weights as they were drawn, before any training."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

ENOUGH = 1024
"""Weights, which show how they were drawn."""

MOST = 1 << 16
"""Weights of one parameter that are looked at."""

MOST_OF_MODEL = 0.7
"""The share of a model's weights that is most of it."""

_LARGEST = 0.98  # of the bound of a uniform distribution
_ERRORS = 4.0  # standard errors of a variance
_UNIFORM, _NORMAL = 1.8, 3.0  # kurtosis


def is_uniform(weights: NDArray[Any], bound: float) -> bool:
    """Return whether weights are drawn evenly between -bound and bound. After a few updates some
    lie outside."""
    inside = _LARGEST * bound < float(np.abs(weights).max()) <= bound * 1.001
    return inside and _has_moments(weights, bound**2 / 3, _UNIFORM)


def is_normal(weights: NDArray[Any], deviation: float) -> bool:
    return _has_moments(weights, deviation**2, _NORMAL)


def _has_moments(weights: NDArray[Any], variance: float, kurtosis: float) -> bool:
    """Return whether weights around 0 have this variance and this kurtosis, as far as so many show
    it."""
    square = np.square(weights.astype(np.float64))
    found, shape = square.mean() / variance, np.square(square).mean() / variance**2
    wide = _ERRORS * math.sqrt((kurtosis - 1) / weights.size)  # of the variance
    return bool(abs(found - 1) < wide and abs(shape - kurtosis) < 10 * wide)
