"""Variation of a model's outputs over the samples of a batch."""

from __future__ import annotations

import math

from tocsin.model import Detail, Role
from tocsin.rules._rule import Read, Tensor

SPREAD_FIELDS = ("mean", "variance", "min", "max")

PREDICTIONS = Read(roles=(Role.PREDICTION,), fields=SPREAD_FIELDS, detail=Detail(channel_axis=1))
"""Reads predictions with what ``spread`` needs."""

LABELS = Read(roles=(Role.LABEL,), fields=SPREAD_FIELDS, detail=Detail(channel_axis=1))
"""Reads labels with what ``spread`` needs."""


def rows(tensor: Tensor) -> int:
    """Return the number of samples if each has a number or a row; else 0."""
    shape = tensor.shape or ()
    return shape[0] if len(shape) in (1, 2) else 0


def columns(tensor: Tensor) -> int:
    shape = tensor.shape or ()
    return shape[1] if len(shape) == 2 else 1


def spread(tensor: Tensor) -> tuple[float, float] | None:
    """Return the standard deviation over the samples and the root mean square, of all columns.

    None if they are not known, or not finite: ExplodingTensor reports that.
    """
    summary = tensor.summary
    if columns(tensor) == 1:
        means, variances = [summary.mean], [summary.variance]
    elif summary.channels is not None:
        means, variances = list(summary.channels.mean), list(summary.channels.variance)
    else:
        return None
    known = [
        (mean, variance)
        for mean, variance in zip(means, variances, strict=False)
        if mean is not None and variance is not None
    ]
    if not known or len(known) < len(means):
        return None
    total = sum(variance for _, variance in known)
    square = sum(mean * mean for mean, _ in known) + total
    if not math.isfinite(square):
        return None
    return math.sqrt(total / len(known)), math.sqrt(square / len(known))
