"""Values of Keras' variables and of its backends' tensors, on the host."""

from __future__ import annotations

from typing import Any

import numpy as np


def value_of(variable: Any) -> Any:
    """Return a variable's value, or a tensor, as something that a hook can reduce.

    A torch tensor stays one, for numpy has no bfloat16. An array may be a view of the variable's
    memory: it is to be used before the next batch.
    """
    value = getattr(variable, "value", variable)
    if hasattr(value, "detach"):
        return value
    return value.numpy() if hasattr(value, "numpy") else np.asarray(value)


def number_of(variable: Any) -> float:
    """Return the same of one element, or of a number."""
    return float(value_of(variable))


def learning_rate_of(optimizer: Any) -> float | None:
    rate = getattr(optimizer, "learning_rate", None)
    return None if rate is None else number_of(rate)


def loss_scale_of(optimizer: Any) -> float:
    """Return the optimizer's factor of the loss, against the underflow of half precision."""
    scaled = getattr(optimizer, "scale_loss", None)
    return 1.0 if scaled is None else number_of(scaled(1.0))
