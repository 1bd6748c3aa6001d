"""The difference of two tensors, as far as their summaries show it."""

from __future__ import annotations

import math

from tocsin.model import TensorSummary

DIFFERENCE_FIELDS = (
    "size",
    "nan",
    "posinf",
    "neginf",
    "mean",
    "abs_mean",
    "min",
    "max",
    "l2",
    "fingerprint",
)
"""The fields of a summary that ``excess`` needs."""


def excess(one: TensorSummary, other: TensorSummary, rtol: float, atol: float = 0.0) -> float:
    """How many times the tolerance two tensors differ by: above 1 they are certainly not close.

    If every element of the one is within ``atol + rtol * |element of the other|``, then so are
    their means, extremes and norms, each by its own scale; the converse does not hold. Equal
    fingerprints give 0. Infinity follows from different sizes, from different numbers of NaN or
    infinities, and without tolerance from different fingerprints. Unknown fields are ignored.
    """
    if one.fingerprint is not None and other.fingerprint is not None:
        if one.fingerprint == other.fingerprint:
            return 0.0
        if rtol == atol == 0:
            return math.inf
    if _counts(one) != _counts(other) and any(
        here != there
        for here, there in zip(_counts(one), _counts(other), strict=True)
        if here is not None and there is not None
    ):
        return math.inf
    largest = max(_magnitude(one), _magnitude(other))
    typical = max(one.abs_mean or 0.0, other.abs_mean or 0.0)
    norm = max(one.l2 or 0.0, other.l2 or 0.0)
    return max(
        _over(one.mean, other.mean, atol + rtol * (typical or largest)),
        _over(one.abs_mean, other.abs_mean, atol + rtol * typical),
        _over(one.min, other.min, atol + rtol * largest),
        _over(one.max, other.max, atol + rtol * largest),
        _over(one.l2, other.l2, atol * math.sqrt(one.size or 1) + rtol * norm),
    )


def _counts(summary: TensorSummary) -> tuple[int | None, ...]:
    return summary.size, summary.nan, summary.posinf, summary.neginf


def _magnitude(summary: TensorSummary) -> float:
    return max(abs(summary.min or 0.0), abs(summary.max or 0.0), abs(summary.mean or 0.0))


def _over(one: float | None, other: float | None, tolerance: float) -> float:
    if one is None or other is None or one == other:
        return 0.0
    return abs(one - other) / tolerance if tolerance else math.inf
