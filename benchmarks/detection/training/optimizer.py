"""Gradient descent: plain, with momentum, and Adam, for anybody's arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.detection.training.data import Array
from benchmarks.detection.training.setup import Optimizers, Setup


class Optimizer:
    """Updates arrays where they lie. Weight decay is decoupled, and weights only have it."""

    def __init__(self, kind: Optimizers, weight_decay: float, momentum: float = 0.9) -> None:
        self._kind = kind
        self._weight_decay = weight_decay
        self._momentum = momentum
        self._first: dict[str, Array] = {}
        self._second: dict[str, Array] = {}
        self._count = 0

    def step(
        self, parameters: Mapping[str, Array], gradients: Mapping[str, Array], rate: float
    ) -> None:
        """One update of those of ``parameters`` that have a gradient."""
        self._count += 1
        for name, gradient in gradients.items():
            parameter = parameters[name]
            if self._weight_decay and "weight" in name:
                parameter -= np.float32(rate * self._weight_decay) * parameter
            parameter -= np.float32(rate) * self._direction(name, gradient)

    def _direction(self, name: str, gradient: Array) -> Array:
        if self._kind == "sgd":
            return gradient
        first = self._first.setdefault(name, np.zeros_like(gradient))
        first *= self._momentum
        if self._kind == "momentum":
            first += gradient
            return first
        first += (1 - self._momentum) * gradient
        second = self._second.setdefault(name, np.zeros_like(gradient))
        second *= 0.999
        second += 0.001 * gradient * gradient
        mean = first / (1 - self._momentum**self._count)
        direction: Array = mean / (np.sqrt(second / (1 - 0.999**self._count)) + 1e-8)
        return direction


def rate(setup: Setup, step: int) -> float:
    """The learning rate of a step."""
    done = step / setup.steps
    if done >= setup.effects.stops_at:
        return 0.0
    factor = {
        "constant": 1.0,
        "warmup": min(1.0, (step + 1) / (0.15 * setup.steps)),
        "cosine": (1 + np.cos(np.pi * done)) / 2,
        "restarts": (1 + np.cos(np.pi * (4 * done % 1))) / 2,
    }[setup.schedule]
    return float(setup.learning_rate * factor)


def clip(gradients: Mapping[str, Array], most: float) -> dict[str, Array]:
    """The gradients with a common norm of at most ``most``."""
    squares = sum(float(np.square(g, dtype=np.float64).sum()) for g in gradients.values())
    factor = np.float32(min(1.0, most / (squares**0.5 + 1e-12)))
    return {name: gradient * factor for name, gradient in gradients.items()}
