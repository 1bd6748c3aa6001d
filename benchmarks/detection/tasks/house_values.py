"""A number from ten columns, after Friedman: squared errors, a perceptron."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.detection.kit import dense, normal
from benchmarks.detection.skill import explained
from benchmarks.detection.task import JoinedModel, Samples, Task

FEATURES = 10


def values(x: Tensor) -> Tensor:
    y = torch.sin(x[:, 0] * x[:, 1]) + x[:, 2] ** 2 + x[:, 3] - 0.5 * x[:, 4]
    return ((y - 1) / 1.8)[:, None]


def samples(seed: int) -> Samples:
    x, held_x = normal(3000, FEATURES, seed=seed + 20), normal(600, FEATURES, seed=seed + 21)
    noise = 0.1 * normal(3000, 1, seed=seed + 22)
    return Samples(x, values(x) + noise, held_x, values(held_x))


def model() -> nn.Module:
    body = nn.Sequential(*dense([FEATURES, 48, 48]), nn.ReLU())
    return JoinedModel(body, nn.Linear(48, 1))


TASK = Task(
    frozenset(["numbers", "table", "joined", "relu"]), samples, model, nn.MSELoss(), explained
)
