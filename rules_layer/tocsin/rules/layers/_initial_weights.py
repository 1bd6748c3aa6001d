"""Judges the weights at the start of training."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace

from tocsin.model import Reason, Severity, Verdict
from tocsin.rules._rule import Tensor
from tocsin.rules._verdicts import measured, violation

_OWN = re.compile(r"(?:weight|kernel)(?!.*(?:weight|kernel))")
_EQUAL = 1e-12  # of the squared mean: a smaller variance is the rounding of one number


def find_constant(weights: Iterable[Tensor]) -> Verdict | None:
    """Find a fault if more than half of the weights, and at least two, are constant.

    A single constant weight is healthy: a head or an adapter that starts at zero gets a gradient.
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


def find_large(weights: Iterable[Tensor], limit: float) -> Verdict | None:
    """Find a fault if variance x connections is above ``limit`` in at least half of the weights.

    Ignores embeddings: their rows are looked up, not summed.
    """
    summed = [each for each in _between_layers(weights) if "embed" not in each.name.lower()]
    gains = sorted((_gain(weight), at, weight) for at, weight in enumerate(summed))
    if not gains:
        return None
    gain, _, weight = gains[(len(gains) - 1) // 2]
    if gain <= limit:
        return None
    detail = (
        f"variance × connections is {gain:.3g} in {weight.name} and at least as large in half of "
        f"the weights; about 1 is usual, the limit is {limit:g}"
    )
    found = violation(Reason.ABOVE_THRESHOLD, detail, weight, gain=gain, limit=limit)
    return measured(found, gain, limit)


def find_wide(weights: Iterable[Tensor], biases: Iterable[Tensor], limit: float) -> Verdict | None:
    """Find a fault if variance x inputs is above ``limit`` in half of the layers, and in two.

    Layers are weights whose bias has their name: embeddings, whose rows are looked up, have none.
    The bias has one number for each output, which shows how many inputs there are. Glorot's
    variance for sigmoids is up to 32 / inputs.
    """
    units = {each.name: each.shape for each in biases if each.shape is not None}
    known = []
    layers = {each.name: each for each in _between_layers(weights)}  # workers have the same ones
    for at, weight in enumerate(layers.values()):
        shape, bias = weight.shape or (1,), units.get(_OWN.sub("bias", weight.name))
        if bias and len(bias) == 1 and 0 < bias[0] in (shape[0], shape[-1]):
            inputs = math.prod(shape) / bias[0]
            known.append(((weight.summary.variance or 0.0) * inputs, at, weight))
    wide = sorted(each for each in known if each[0] > limit)
    if len(wide) < 2 or 2 * len(wide) < len(known):
        return None
    gain, _, weight = wide[0]
    detail = (
        f"{len(wide)} of {len(known)} layers start with weights that are too large: variance × "
        f"inputs is {gain:.3g} in {weight.name} and more in the others; 1 to 2 is usual"
    )
    found = violation(Reason.ABOVE_THRESHOLD, detail, weight, gain=gain, limit=limit)
    return measured(replace(found, severity=Severity.WARNING), gain, limit)


def _between_layers(weights: Iterable[Tensor]) -> list[Tensor]:
    """Return the weights with two dimensions or more. Scales of normalisation layers have one."""
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
    """Return variance x connections, of an input or of an output, whichever has fewer."""
    shape = weight.shape or (1,)
    return (weight.summary.variance or 0.0) * (math.prod(shape) / max(shape))
