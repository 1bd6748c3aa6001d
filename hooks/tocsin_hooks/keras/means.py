"""The part of one batch in the running means that Keras logs.

Keras' logs are means over the epoch so far. A mean keeps its sum and its count, so what lies
between two looks at them is the mean of the batches in between.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras

from tocsin_hooks.keras.values import number_of


@dataclass(frozen=True)
class Sum:
    """The state of a running mean: ``total`` of its values, each times its weight in ``count``."""

    total: float
    count: float


def running_means(model: Any) -> dict[str, Any]:
    """Return the metrics of a compiled model that are means, by the names that they have in its
    logs."""
    found: dict[str, Any] = {}
    for metric in model.metrics:
        inner = getattr(metric, "metrics", None)
        if inner and isinstance(results := metric.result(), dict):  # those given to compile
            found.update(zip(results, inner, strict=False))
        else:
            found[metric.name] = metric
    return {name: each for name, each in found.items() if isinstance(each, keras.metrics.Mean)}


def sums(means: Mapping[str, Any]) -> dict[str, Sum]:
    """Return the states of running means now."""
    return {name: Sum(number_of(mean.total), number_of(mean.count)) for name, mean in means.items()}


def since(before: Sum | None, now: Sum | None, logged: float) -> float:
    """Return the mean of what came in between, or what is ``logged`` where that is not such a mean.

    As exact as Keras' sum, a float32. Once a sum is not finite it stays so for its epoch.

    >>> since(Sum(12.0, 6.0), Sum(15.0, 9.0), logged=15 / 9)
    1.0
    """
    if before is None or now is None or not (count := now.count - before.count) > 0:
        return logged
    if not math.isclose(logged, now.total / now.count, rel_tol=1e-4, abs_tol=1e-30):
        return logged
    return (now.total - before.total) / count
