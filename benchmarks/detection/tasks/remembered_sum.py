"""The sum of two marked numbers of a series, by a plain recurrent network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.detection.skill import explained
from benchmarks.detection.task import JoinedModel, Samples, Task
from benchmarks.detection.tasks.wave_classes import LastState

LENGTH = 10


def series(count: int, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    numbers = torch.randn(count, LENGTH, generator=draw)
    marks = torch.zeros(count, LENGTH)
    order = torch.rand(count, LENGTH, generator=draw).argsort(1)
    marks.scatter_(1, order[:, :2], 1.0)
    return torch.stack([numbers, marks], 2), (numbers * marks).sum(1, keepdim=True)


def samples(seed: int) -> Samples:
    return Samples(*series(4000, seed + 190), *series(500, seed + 191))


TASK = Task(
    frozenset(["numbers", "series", "joined", "recurrent", "plateau"]),
    samples,
    lambda: JoinedModel(LastState(nn.RNN, 2, 32), nn.Linear(32, 1)),
    nn.MSELoss(),
    explained,
    {"steps": 1200, "rate": 3e-3, "clip": 1.0},
)
