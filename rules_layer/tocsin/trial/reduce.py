"""Reductions of a tensor that were not stored: from its value, or from its summary."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.model import TensorSummary

_OF_VALUE: Mapping[str, Callable[[NDArray[Any]], Any]] = {
    "min": np.min,
    "max": np.max,
    "mean": np.mean,
    "std": np.std,
    "variance": np.var,
    "sum": np.sum,
    "prod": np.prod,
    "l1": lambda value: np.linalg.norm(value.reshape(-1), 1),
    "l2": lambda value: np.linalg.norm(value.reshape(-1), 2),
}


def reduce_value(name: str, value: NDArray[Any], *, absolute: bool) -> Any:
    """Return a reduction by numpy: ``std`` and ``variance`` of the population, norms of the vector.

    Raises ValueError for a name that is not a reduction, and for what numpy cannot reduce.
    """
    if name not in _OF_VALUE:
        raise ValueError(f"{name!r} is not a reduction: there are {', '.join(_OF_VALUE)}")
    return _OF_VALUE[name](np.abs(value) if absolute else value)


def summary_reductions(summary: TensorSummary) -> dict[tuple[str, bool], float]:
    """``(reduction, absolute)`` -> number, for all that a summary knows: of finite elements."""
    known = {
        ("min", False): summary.min,
        ("max", False): summary.max,
        ("mean", False): summary.mean,
        ("mean", True): summary.abs_mean,
        ("variance", False): summary.variance,
        ("std", False): None if summary.variance is None else math.sqrt(summary.variance),
        ("l1", False): summary.l1,
        ("l1", True): summary.l1,
        ("l2", False): summary.l2,
        ("l2", True): summary.l2,
        ("sum", True): summary.l1,
    }
    if summary.min is not None and summary.max is not None:
        known["max", True] = max(abs(summary.min), abs(summary.max))
    return {key: number for key, number in known.items() if number is not None}
