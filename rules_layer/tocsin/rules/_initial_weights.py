"""Weights as they were before training, by themselves."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tocsin.model import Reason, Verdict
from tocsin.rules._rule import Tensor, violation

_EQUAL = 1e-12  # of the squared mean: a variance below is that of one number, rounded


def alike(weights: Iterable[Tensor]) -> Verdict | None:
    """More than half of the weights, and at least two, are one number each.

    One of them may: a head or an adapter that begins at zero gets its gradient all the same.
    """
    between = _between_layers(weights)
    equal = [weight for weight in between if _is_constant(weight)]
    if len(equal) < 2 or 2 * len(equal) <= len(between):
        return None
    value = equal[0].summary.mean or 0.0
    detail = (
        f"{len(equal)} of {len(between)} weights are one number each: all elements of "
        f"{equal[0].name} are {value:.3g}"
    )
    evidence = {"constant": len(equal), "weights": len(between), "value": value}
    return violation(Reason.CONSTANT, detail, equal[0], **evidence)


def too_large(weights: Iterable[Tensor], limit: float) -> Verdict | None:
    """In half of the weights or more, variance x connections is above ``limit``. Embeddings are
    left out: their rows are looked up, not summed.
    """
    summed = [each for each in _between_layers(weights) if "embed" not in each.name.lower()]
    gains = sorted((_gain(weight), at, weight) for at, weight in enumerate(summed))
    if not gains:
        return None
    gain, _, weight = gains[(len(gains) - 1) // 2]
    if gain <= limit:
        return None
    detail = (
        f"variance x connections of {weight.name} is {gain:.3g}, and of at least half of the "
        f"weights as much; about 1 is usual, {limit:g} the limit"
    )
    return violation(Reason.ABOVE_THRESHOLD, detail, weight, gain=gain, limit=limit)


def _between_layers(weights: Iterable[Tensor]) -> list[Tensor]:
    """Those of two dimensions or more: the scales of a normalisation layer all begin at 1."""
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
    """Variance times connections: those of an input or those of an output, whichever are fewer."""
    shape = weight.shape or (1,)
    return (weight.summary.variance or 0.0) * (math.prod(shape) / max(shape))
