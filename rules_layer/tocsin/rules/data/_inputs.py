"""Selects the inputs that have features of real numbers."""

from __future__ import annotations

import math
import re

from tocsin.model import Detail, Role
from tocsin.rules._rule import Read, Tensor

_NO_FEATURES = re.compile(r"(?i)mask|(?<![a-z])(ids?|index|indices|len|lengths?|steps?)(?![a-z])")

INPUTS = Read((Role.INPUT,), fields=("min", "max"), detail=Detail(channel_axis=1))
"""Reads the inputs of the model, with the moments of each feature or channel."""

TARGETS = Read((Role.LABEL,), fields=("mean", "variance"))
"""Reads labels with their moments."""


def has_features(tensor: Tensor, *, named: bool) -> bool:
    """Return whether these are features: not integers, and not a mask or index by name.

    ``named`` by the user, a tensor may have any name.
    """
    if not is_real(tensor):
        return False
    return named or not _NO_FEATURES.search(tensor.name)


def is_real(tensor: Tensor) -> bool:
    """Return whether the values are not integers."""
    return not (tensor.dtype or "").startswith(("int", "uint", "bool"))


def scale_of(tensor: Tensor) -> float:
    """Return the root mean square of a tensor; 0 if it is not known."""
    mean, variance = tensor.summary.mean, tensor.summary.variance
    return 0.0 if mean is None or variance is None else math.sqrt(mean * mean + variance)


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
