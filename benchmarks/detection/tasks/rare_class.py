"""One sample of twenty is positive; positives weigh more."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.detection.kit import dense, normal
from benchmarks.detection.skill import ranking_skill
from benchmarks.detection.task import JoinedModel, Samples, Task

FEATURES = 12


def is_positive(x: Tensor) -> Tensor:
    return ((x[:, 0] * x[:, 1] + x[:, 2] + 0.5 * x[:, 3] ** 2) > 2.6).float()[:, None]


def samples(seed: int) -> Samples:
    x, held_x = normal(6000, FEATURES, seed=seed + 60), normal(2000, FEATURES, seed=seed + 61)
    return Samples(x, is_positive(x), held_x, is_positive(held_x))


def model() -> nn.Module:
    return JoinedModel(nn.Sequential(*dense([FEATURES, 48, 48]), nn.ReLU()), nn.Linear(48, 1))


TASK = Task(
    frozenset(["binary", "table", "joined", "relu", "imbalanced"]),
    samples,
    model,
    nn.BCEWithLogitsLoss(pos_weight=torch.tensor(10.0)),
    ranking_skill,
    {"batch": 64},
)
