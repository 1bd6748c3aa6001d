"""The position of a blob in a noisy picture: two coordinates by convolutions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.detection.skill import explained
from benchmarks.detection.task import JoinedModel, Samples, Task

SIDE = 16


def pictures(count: int, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    at = 2 * torch.rand(count, 2, generator=draw) - 1
    grid = torch.linspace(-1.2, 1.2, SIDE)
    far = (grid[None, :, None] - at[:, :1, None]) ** 2 + (grid[None, None] - at[:, 1:, None]) ** 2
    x = torch.exp(-8 * far)[:, None] + 0.2 * torch.randn(count, 1, SIDE, SIDE, generator=draw)
    return x, at


def samples(seed: int) -> Samples:
    return Samples(*pictures(2000, seed + 150), *pictures(400, seed + 151))


def model() -> nn.Module:
    body = nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
    )
    return JoinedModel(body, nn.Linear(256, 2))


TASK = Task(
    frozenset(["numbers", "pictures", "joined", "relu"]),
    samples,
    model,
    nn.MSELoss(),
    explained,
    {"steps": 400},
)
