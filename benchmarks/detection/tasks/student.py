"""A small student learns a teacher's probabilities."""

from __future__ import annotations

import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from benchmarks.detection.kit import dense, normal
from benchmarks.detection.skill import class_skill
from benchmarks.detection.task import JoinedModel, Samples, Task

FEATURES, CLASSES = 14, 6


def teacher(x: Tensor) -> Tensor:
    hidden = (x @ normal(FEATURES, 12, seed=23)).relu()
    return (hidden @ normal(12, CLASSES, seed=24) / 2).softmax(1)


def samples(seed: int) -> Samples:
    x, held_x = normal(4000, FEATURES, seed=seed + 280), normal(800, FEATURES, seed=seed + 281)
    return Samples(x, teacher(x), held_x, teacher(held_x))


def criterion(scores: Tensor, y: Tensor) -> Tensor:
    return F.kl_div(scores.log_softmax(1), y, reduction="batchmean")


TASK = Task(
    frozenset(["soft_labels", "table", "joined", "relu"]),
    samples,
    lambda: JoinedModel(nn.Sequential(*dense([FEATURES, 48]), nn.ReLU()), nn.Linear(48, CLASSES)),
    criterion,
    lambda scores, y: class_skill(scores, y.argmax(1)),
    {"steps": 800, "rate": 5e-3},
)
