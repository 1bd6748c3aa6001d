"""Judges the weights as they were before training."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tocsin.model import Reason, Verdict
from tocsin.rules._rule import Tensor, violation

_EQUAL = 1e-12  # of the squared mean: a smaller variance is the rounding of one number


def alike(weights: Iterable[Tensor]) -> Verdict | None:
    """Finds that more than half of the weights, and at least two, are constant.

    A single one may be: a head or an adapter that begins at zero still gets a gradient.
    """
    between = _between_layers(weights)
    equal = [weight for weight in between if _is_constant(weight)]
    if len(equal) < 2 or 2 * len(equal) <= len(between):
        return None
    value = equal[0].summary.mean or 0.0
    detail = (
        f"{len(equal)} of {len(between)} weights are constant: all elements of "
        f"{equal[0].name} are {value:.3g}"
    )
    evidence = {"constant": len(equal), "weights": len(between), "value": value}
    return violation(Reason.CONSTANT, detail, equal[0], **evidence)


def too_large(weights: Iterable[Tensor], limit: float) -> Verdict | None:
    """Finds that in half of the weights or more, variance x connections is above ``limit``.

    Leaves out embeddings: their rows are looked up, not summed.
    """
    summed = [each for each in _between_layers(weights) if "embed" not in each.name.lower()]
    gains = sorted((_gain(weight), at, weight) for at, weight in enumerate(summed))
    if not gains:
        return None
    gain, _, weight = gains[(len(gains) - 1) // 2]
    if gain <= limit:
        return None
    detail = (
        f"variance x connections of {weight.name} is {gain:.3g}, and as large in at least half of "
        f"the weights; about 1 is usual, {limit:g} is the limit"
    )
    return violation(Reason.ABOVE_THRESHOLD, detail, weight, gain=gain, limit=limit)


def _between_layers(weights: Iterable[Tensor]) -> list[Tensor]:
    """The weights with two dimensions or more: scales of normalisation layers all begin at 1."""
    return [
        weight
        for weight in weights
        if weight.shape is not None
        and len(weight.shape) > 1
        and max(weight.shape) > 1
        and weight.summary.variance is not None
    ]


def _is_constant(weight: Tensor) -> bool:
    mean = weight.summary.mean or 0.0
    return (weight.summary.variance or 0.0) <= _EQUAL * mean * mean


def _gain(weight: Tensor) -> float:
    """The variance times the connections of an input or of an output, whichever are fewer."""
    shape = weight.shape or (1,)
    return (weight.summary.variance or 0.0) * (math.prod(shape) / max(shape))
