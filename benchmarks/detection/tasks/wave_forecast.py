"""The next value of two waves in noise, by an LSTM and absolute errors."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.detection.skill import explained
from benchmarks.detection.task import JoinedModel, Samples, Task
from benchmarks.detection.tasks.wave_classes import LENGTH, LastState


def waves(count: int, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    time = torch.arange(LENGTH + 1) / 3
    phase = 7 * torch.rand(count, 2, 1, generator=draw)
    found = torch.sin(time + phase[:, 0]) + 0.6 * torch.sin(1.7 * time + phase[:, 1])
    noisy = found + 0.1 * torch.randn(count, LENGTH + 1, generator=draw)
    return noisy[:, :-1, None], found[:, -1:]


def samples(seed: int) -> Samples:
    return Samples(*waves(2500, seed + 170), *waves(500, seed + 171))


TASK = Task(
    frozenset(["numbers", "series", "joined", "recurrent"]),
    samples,
    lambda: JoinedModel(LastState(nn.LSTM), nn.Linear(24, 1)),
    nn.L1Loss(),
    explained,
    {"steps": 500, "rate": 5e-3},
)
