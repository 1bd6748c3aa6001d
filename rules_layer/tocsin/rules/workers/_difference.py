"""Compares two tensors by their summaries."""

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
"""The fields of a summary that ``times_tolerance`` needs."""


def times_tolerance(
    one: TensorSummary, other: TensorSummary, rtol: float, atol: float = 0.0
) -> float:
    """Return the difference of two tensors, in multiples of the tolerance.

    Above 1 the tensors are not close: if every element is within
    ``atol + rtol * |element of the other|``, then means, extremes and norms are, each by its own
    scale. At most 1 does not prove that they are close. Equal fingerprints give 0. Different sizes
    and different numbers of NaN or infinities give infinity. So do different fingerprints if both
    tolerances are 0. Unknown fields are ignored.
    """
    if one.fingerprint is not None and other.fingerprint is not None:
        if one.fingerprint == other.fingerprint:
            return 0.0
        if rtol == atol == 0:
            return math.inf
    counts = zip(_counts(one), _counts(other), strict=True)
    if any(None not in pair and pair[0] != pair[1] for pair in counts):
        return math.inf
    largest = max(_magnitude(one), _magnitude(other))
    typical = max(one.abs_mean or 0.0, other.abs_mean or 0.0)
    norm = max(one.l2 or 0.0, other.l2 or 0.0)
    return max(
        _multiple(one.mean, other.mean, atol + rtol * (typical or largest)),
        _multiple(one.abs_mean, other.abs_mean, atol + rtol * typical),
        _multiple(one.min, other.min, atol + rtol * largest),
        _multiple(one.max, other.max, atol + rtol * largest),
        _multiple(one.l2, other.l2, atol * math.sqrt(one.size or 1) + rtol * norm),
    )


def _counts(summary: TensorSummary) -> tuple[int | None, ...]:
    return summary.size, summary.nan, summary.posinf, summary.neginf


def _magnitude(summary: TensorSummary) -> float:
    return max(abs(summary.min or 0.0), abs(summary.max or 0.0), abs(summary.mean or 0.0))


def _multiple(one: float | None, other: float | None, tolerance: float) -> float:
    if one is None or other is None or one == other:
        return 0.0
    return abs(one - other) / tolerance if tolerance else math.inf
