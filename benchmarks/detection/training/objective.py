"""From a model's outputs to loss, slope, predictions and how good they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.detection.training.data import Array, Task
from benchmarks.detection.training.setup import Objective as Kind


@dataclass(frozen=True)
class Objective:
    """Cross-entropy of classes and tokens, half the squared error of numbers; or what a fault
    has made of it."""

    task: Task
    kind: Kind = ""

    def loss(self, outputs: Array, labels: Array) -> tuple[float, Array]:
        """The mean over all labels, and its derivative by the outputs."""
        z = outputs.reshape(-1, outputs.shape[-1]).astype(np.float64)
        y = labels.reshape(len(z), -1)
        with np.errstate(all="ignore"):  # a training that diverges is what we are after
            value, slope = self._loss(z, y)
        if self.kind == "sum":
            value, slope = value * len(z), slope * len(z)
        return value, slope.reshape(outputs.shape).astype(np.float32)

    def predictions(self, outputs: Array) -> Array:
        """Probabilities of classes (n, classes), or numbers (n, 1)."""
        z = outputs.reshape(-1, outputs.shape[-1])
        with np.errstate(all="ignore"):
            if self.task == "numbers":
                return np.ones_like(z) if self.kind == "softmax of one" else z
            return softmax(z)

    def metric(self, outputs: Array, labels: Array) -> float:
        """Mean recall over the classes that occur, or the explained share of the variance."""
        y, predicted = labels.reshape(-1), self.predictions(outputs)
        if not np.isfinite(predicted).all():
            return float("-inf")
        if self.task == "numbers":
            error = float(np.square(predicted[:, 0].astype(np.float64) - y).mean())
            return 1 - error / float(y.var())
        right = predicted.argmax(axis=1) == y
        if self.task == "tokens":
            return float(right.mean())
        return float(np.mean([right[y == label].mean() for label in np.unique(y)]))

    def _loss(self, z: Array, y: Array) -> tuple[float, Array]:
        if self.task == "numbers":
            difference = (1.0 if self.kind == "softmax of one" else z) - y
            slope = difference / len(z)
            value = float(np.square(difference).mean()) / 2
            return value, np.zeros_like(z) if self.kind == "softmax of one" else slope
        first = softmax(z)
        share = softmax(first) if self.kind == "softmax twice" else first
        rows = np.arange(len(z)), y[:, 0]
        value = -float(np.log(share[rows] + 1e-30).mean())
        slope = share.copy()
        slope[rows] -= 1
        if self.kind == "softmax twice":
            slope = first * (slope - (slope * first).sum(axis=1, keepdims=True))
        return value, slope / len(z)


def softmax(z: Array) -> Array:
    power = np.exp(z - z.max(axis=1, keepdims=True))
    shares: Array = power / power.sum(axis=1, keepdims=True)
    return shares
