"""Layers that are not trained, and have never been."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np

from tocsin_hooks.drawn import ENOUGH, MOST, MOST_OF_MODEL, is_uniform


def is_frozen_at_random(model: Any) -> bool:
    """Whether most of a model that is trained is not trainable and is as it was drawn, as that of
    an application with ``weights=None``."""
    size = sum(map(_size, model.weights))
    trained = sum(map(_size, model.trainable_weights))
    if not 0 < trained <= (1 - MOST_OF_MODEL) * size:
        return False
    layers = [each for each in model._flatten_layers() if not each.trainable]
    frozen = [each for each in layers if getattr(each, "kernel", None) is not None]
    drawn = sum(_size(each.kernel) for each in frozen if _is_as_drawn(each))
    return 0 < MOST_OF_MODEL * sum(_size(each.kernel) for each in frozen) <= drawn


def _size(variable: Any) -> int:
    return math.prod(variable.shape)


def _is_as_drawn(layer: Any) -> bool:
    """Whether a kernel is one of its initializer's, as of Glorot and Bengio, AISTATS 2010."""
    how: Any = getattr(layer, "kernel_initializer", None)
    shape = layer.kernel.shape
    even = isinstance(how, keras.initializers.VarianceScaling) and how.distribution == "uniform"
    if not even or math.prod(shape) < ENOUGH:
        return False
    weights = np.ravel(keras.ops.convert_to_numpy(layer.kernel))
    *places, inputs, outputs = shape
    fans = math.prod(places) * inputs, math.prod(places) * outputs
    fan = {"fan_in": fans[0], "fan_out": fans[1]}.get(how.mode, sum(fans) / 2)
    bound = math.sqrt(3 * how.scale / max(1.0, fan))
    return is_uniform(weights[:: -(-weights.size // MOST)], bound)
