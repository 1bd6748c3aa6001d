"""Digits through a bottleneck of ten units."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.detection.kit import dense
from benchmarks.detection.skill import explained
from benchmarks.detection.task import JoinedModel, Samples, Task
from benchmarks.detection.tasks import digits_sigmoid


def samples(seed: int) -> Samples:
    found = digits_sigmoid.samples(seed)
    x, held_x = (part / 2 + 0.5 for part in (found.x, found.held_x))
    return Samples(x, x, held_x, held_x)


TASK = Task(
    frozenset(["numbers", "reconstruction", "joined", "relu", "bounded"]),
    samples,
    lambda: JoinedModel(
        nn.Sequential(*dense([64, 48, 10])), nn.Sequential(*dense([10, 48, 64]), nn.Sigmoid())
    ),
    nn.MSELoss(),
    lambda outputs, y: explained(torch.as_tensor(outputs), y),
    {"steps": 900, "rate": 3e-3},
)
