"""Handwritten digits by a perceptron with sigmoids, by gradient descent with momentum."""

from __future__ import annotations

import sklearn.datasets
import torch
from torch import nn

from benchmarks.detection.kit import dense
from benchmarks.detection.skill import class_skill
from benchmarks.detection.task import JoinedModel, Samples, Task


def samples(seed: int) -> Samples:
    x, y = sklearn.datasets.load_digits(return_X_y=True)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    x, y = torch.from_numpy(x).float()[order] / 8 - 1, torch.from_numpy(y)[order]
    return Samples(x[:1400], y[:1400], x[1400:], y[1400:])


TASK = Task(
    frozenset(["classes", "table", "joined", "sigmoid"]),
    samples,
    lambda: JoinedModel(
        nn.Sequential(*dense([64, 48], nn.Sigmoid), nn.Sigmoid()), nn.Linear(48, 10)
    ),
    nn.CrossEntropyLoss(),
    class_skill,
    {"optimizer": "momentum", "rate": 0.3},
)
