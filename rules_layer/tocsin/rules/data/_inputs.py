"""Selects the inputs that have features of real numbers."""

from __future__ import annotations

import re

from tocsin.model import Detail, Role
from tocsin.rules._rule import Read, Tensor

_NO_FEATURES = re.compile(r"(?i)mask|(?<![a-z])(ids?|index|indices|len|lengths?|steps?)(?![a-z])")

INPUTS = Read((Role.INPUT,), fields=("min", "max"), detail=Detail(channel_axis=1))
"""Reads the inputs of the model, with the moments of each feature or channel."""


def has_features(tensor: Tensor, *, named: bool) -> bool:
    """Return whether these are features: no integers, and no mask or index by its name.

    ``named`` by the user, a tensor may have any name.
    """
    if (tensor.dtype or "").startswith(("int", "uint", "bool")):
        return False
    return named or not _NO_FEATURES.search(tensor.name)


def moments(tensor: Tensor) -> list[tuple[float, float]]:
    """Return mean and variance of each feature with finite values."""
    channels = tensor.summary.channels
    if channels is None:
        return []
    return [
        (mean, variance)
        for mean, variance in zip(channels.mean, channels.variance, strict=False)
        if mean is not None and variance is not None
    ]
