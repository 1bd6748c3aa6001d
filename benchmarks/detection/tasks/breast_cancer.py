"""Benign or malignant, from 30 measurements: scikit-learn's table, a perceptron with dropout."""

from __future__ import annotations

import numpy as np
import sklearn.datasets
import torch
from torch import nn

from benchmarks.detection.skill import ranking_skill
from benchmarks.detection.task import JoinedModel, Samples, Task


def samples(seed: int) -> Samples:
    x, y = sklearn.datasets.load_breast_cancer(return_X_y=True)
    x = ((x - x.mean(0)) / x.std(0)).astype(np.float32)
    order = np.random.default_rng(seed).permutation(len(y))
    x, y = torch.from_numpy(x[order]), torch.from_numpy(y[order]).float()[:, None]
    return Samples(x[:400], y[:400], x[400:], y[400:])


def model() -> nn.Module:
    body = nn.Sequential(nn.Linear(30, 24), nn.ReLU(), nn.Dropout(0.2))
    return JoinedModel(body, nn.Linear(24, 1))


TASK = Task(
    frozenset(["binary", "table", "joined", "relu", "dropout", "small"]),
    samples,
    model,
    nn.BCEWithLogitsLoss(),
    ranking_skill,
    {"steps": 300, "rate": 2e-3, "weight_decay": 1e-3},
)
