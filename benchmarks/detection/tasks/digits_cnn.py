"""Handwritten digits by convolutions with batch normalisation."""

from __future__ import annotations

import sklearn.datasets
import torch
from torch import nn

from benchmarks.detection.skill import class_skill
from benchmarks.detection.task import JoinedModel, Samples, Task


def samples(seed: int) -> Samples:
    found = sklearn.datasets.load_digits()
    order = torch.randperm(len(found.target), generator=torch.Generator().manual_seed(seed))
    x = torch.from_numpy(found.images).float()[order, None] / 8 - 1
    y = torch.from_numpy(found.target)[order]
    return Samples(x[:1400], y[:1400], x[1400:], y[1400:])


def model() -> nn.Module:
    body = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
    )
    return JoinedModel(body, nn.Linear(96, 10))


TASK = Task(
    frozenset(["classes", "pictures", "joined", "relu", "batch_norm"]),
    samples,
    model,
    nn.CrossEntropyLoss(),
    class_skill,
    {"steps": 400},
)
