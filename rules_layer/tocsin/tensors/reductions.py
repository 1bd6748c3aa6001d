"""Reductions: tensors that are one number about another tensor."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.model import TensorSummary

_MARK = "smdebug/reductions/"
_NAME = re.compile(r"(?P<name>(?:abs_)?[a-z0-9]+)/(?P<base>.+)", re.DOTALL)


def parse_reduction(name: str) -> tuple[str, str] | None:
    """``("abs_mean", "fc.weight")`` for ``smdebug/reductions/abs_mean/fc.weight``, else None."""
    _, mark, rest = name.partition(_MARK)
    match = _NAME.fullmatch(rest) if mark else None
    return (match["name"], match["base"]) if match else None


def base_name(name: str) -> str:
    """Return the tensor that a reduction is of; any other name as it is."""
    reduction = parse_reduction(name)
    return reduction[1] if reduction else name


def reduction_name(reduction: str, tensor: str) -> str:
    """Return the name that smdebug gives a reduction, for example ``abs_mean`` of ``fc.weight``."""
    return f"{_MARK}{reduction}/{re.sub(r':[0-9]+', '', tensor)}"


_OF_VALUES: Mapping[str, Callable[[NDArray[np.float64]], Any]] = {
    "min": np.min,
    "max": np.max,
    "mean": np.mean,
    "median": np.median,
    "std": np.std,
    "variance": np.var,
    "sum": np.sum,
    "prod": np.prod,
    "l1": lambda values: np.sum(np.abs(values)),
    "l2": lambda values: np.sqrt(np.sum(np.square(values))),
}
_OF_NOTHING = {"sum": 0.0, "prod": 1.0, "l1": 0.0, "l2": 0.0}

REDUCTIONS = (*_OF_VALUES, *(f"abs_{name}" for name in _OF_VALUES))
"""All reductions, as in tensor names; ``abs_`` is of the absolute values."""


def reduced(values: NDArray[Any], reduction: str) -> float:
    """Return one of ``REDUCTIONS`` of an array of any shape, as numpy has it of float64.

    ``std`` and ``variance`` are those of the population, ``l1`` and ``l2`` norms of the flattened
    array. What is not finite counts: the mean of what holds a NaN is NaN. So is what an empty
    array has not. Raises ValueError for another reduction, and for what are no real numbers.

    >>> reduced(np.array([3.0, -4.0]), "l2")
    5.0
    """
    bare = reduction.removeprefix("abs_")
    if bare not in _OF_VALUES:
        raise ValueError(f"{reduction!r} is not a reduction: there are {', '.join(REDUCTIONS)}")
    if values.dtype.kind == "c" and (bare != reduction or bare in ("l1", "l2")):
        values = np.abs(values)
    if values.dtype.kind not in "biuf" and values.dtype.name != "bfloat16":
        raise ValueError(f"{reduction} of values of type {values.dtype} is not known")
    if values.size == 0:
        return _OF_NOTHING.get(bare, math.nan)
    wide = values.reshape(-1).astype(np.float64)
    with np.errstate(all="ignore"):
        return float(_OF_VALUES[bare](np.abs(wide) if bare != reduction else wide))


SUMMARY_REDUCTIONS = frozenset({"min", "max", "mean", "abs_mean", "variance", "l1", "l2"})
"""The reductions that are fields of a summary."""


def summary_of(reductions: Mapping[str, float]) -> TensorSummary:
    """Return a tensor's summary from stored reductions, each by its name in ``SUMMARY_REDUCTIONS``.

    Frameworks reduce over all elements: a reduction that is not finite shows that at least one
    element is not, and finite ones show that all are.
    """
    finite = {name: value for name, value in reductions.items() if math.isfinite(value)}
    lost = [value for value in reductions.values() if not math.isfinite(value)]
    return TensorSummary(
        **finite,  # type: ignore[arg-type]  # all of them are float fields
        nan=int(any(math.isnan(value) for value in lost)),
        posinf=int(math.inf in lost),
        neginf=int(-math.inf in lost),
    )
