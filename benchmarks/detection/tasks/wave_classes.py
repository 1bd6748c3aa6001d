"""Four kinds of waves in noise, by a GRU."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from benchmarks.detection.skill import class_skill
from benchmarks.detection.task import JoinedModel, Samples, Task

LENGTH = 24


class LastState(nn.Module):
    def __init__(self, cell: type[nn.Module] = nn.GRU, inputs: int = 1, width: int = 24) -> None:
        super().__init__()
        self.cell = cell(inputs, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        states: Tensor = self.cell(x)[0]
        return states[:, -1]


def waves(count: int, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(4, (count,), generator=draw)
    time = torch.arange(LENGTH) / 4 + 6 * torch.rand(count, 1, generator=draw)
    sine = torch.sin(time)
    kinds = torch.stack([sine, sine.sign(), 2 * (time / math.tau % 1) - 1, sine.abs() - 0.6])
    x = kinds[y, torch.arange(count)] + 0.25 * torch.randn(count, LENGTH, generator=draw)
    return x[:, :, None], y


def samples(seed: int) -> Samples:
    return Samples(*waves(2500, seed + 160), *waves(500, seed + 161))


TASK = Task(
    frozenset(["classes", "series", "joined", "recurrent"]),
    samples,
    lambda: JoinedModel(LastState(), nn.Linear(24, 4)),
    nn.CrossEntropyLoss(),
    class_skill,
    {"steps": 500, "rate": 8e-3, "clip": 1.0},
)
