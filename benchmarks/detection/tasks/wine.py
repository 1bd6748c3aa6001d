"""Three cultivars of wine from 13 measurements: scikit-learn's table, a linear classifier."""

from __future__ import annotations

import numpy as np
import sklearn.datasets
import torch
from torch import nn

from benchmarks.detection.skill import class_skill
from benchmarks.detection.task import Samples, Task


def samples(seed: int) -> Samples:
    x, y = sklearn.datasets.load_wine(return_X_y=True)
    x = ((x - x.mean(0)) / x.std(0)).astype(np.float32)
    order = np.random.default_rng(seed).permutation(len(y))
    x, y = torch.from_numpy(x[order]), torch.from_numpy(y[order])
    return Samples(x[:120], y[:120], x[120:], y[120:])


TASK = Task(
    frozenset(["classes", "table", "small", "linear"]),
    samples,
    lambda: nn.Linear(13, 3),
    nn.CrossEntropyLoss(),
    class_skill,
    {"steps": 300, "rate": 0.1, "optimizer": "sgd", "batch": 16, "weight_decay": 1e-3},
)
