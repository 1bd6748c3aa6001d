"""Five classes from a table of 18 numbers, by a perceptron."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.detection.kit import dense, normal
from benchmarks.detection.skill import class_skill
from benchmarks.detection.task import JoinedModel, Samples, Task

FEATURES, CLASSES = 18, 5


def samples(seed: int) -> Samples:
    x, held_x = normal(4000, FEATURES, seed=seed + 10), normal(800, FEATURES, seed=seed + 11)
    mixing, kinds = normal(FEATURES, 5, seed=1), normal(5, CLASSES, seed=2)
    y, held_y = ((torch.tanh(part @ mixing / 2) @ kinds).argmax(1) for part in (x, held_x))
    return Samples(x, y, held_x, held_y)


def model() -> nn.Module:
    body = nn.Sequential(*dense([FEATURES, 48, 48]), nn.ReLU())
    return JoinedModel(body, nn.Linear(48, CLASSES))


TASK = Task(
    frozenset(["classes", "table", "joined", "relu"]),
    samples,
    model,
    nn.CrossEntropyLoss(),
    class_skill,
)
