"""A class for each pixel: background, a square or a cross, in colour."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.detection.skill import class_skill
from benchmarks.detection.task import JoinedModel, Samples, Task

SIDE = 12


def pictures(count: int, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    y = torch.zeros(count, SIDE, SIDE, dtype=torch.long)
    for picture in y:
        for kind in (1, 2):
            top, left = (int(n) for n in torch.randint(SIDE - 4, (2,), generator=draw))
            if kind == 1:
                picture[top : top + 4, left : left + 4] = 1
            else:
                picture[top : top + 5, left + 2] = 2
                picture[top + 2, left : left + 5] = 2
    colours = torch.tensor([[0.0, 0.0, 0.0], [0.8, 0.3, 0.1], [0.6, 0.5, 0.3]])
    x = colours[y].movedim(-1, 1) + 0.35 * torch.randn(count, 3, SIDE, SIDE, generator=draw)
    return x, y


def samples(seed: int) -> Samples:
    return Samples(*pictures(600, seed + 130), *pictures(150, seed + 131))


def model() -> nn.Module:
    body = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
    )
    return JoinedModel(body, nn.Conv2d(16, 3, 1))


TASK = Task(
    frozenset(["classes", "pictures", "pixels", "joined", "relu", "batch_norm"]),
    samples,
    model,
    nn.CrossEntropyLoss(),
    class_skill,
    {"steps": 300, "rate": 1e-2, "batch": 16},
)
