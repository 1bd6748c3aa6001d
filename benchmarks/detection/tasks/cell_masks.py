"""Pixels that belong to cells: discs in noise, a small U-shaped network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.detection.skill import overlap
from benchmarks.detection.task import Samples, Task

SIDE = 16


class SmallUNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU())
        self.deep = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.head = nn.Conv2d(16, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        fine = self.down(x)
        masks: Tensor = self.head(torch.cat([fine, self.up(self.deep(fine)).relu()], 1))
        return masks


def pictures(count: int, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    grid = torch.arange(SIDE).float()
    at = 3 + (SIDE - 6) * torch.rand(count, 2, 2, 1, 1, generator=draw)
    size = 2 + 2 * torch.rand(count, 2, 1, 1, generator=draw)
    far = ((grid[:, None] - at[:, :, 0]) ** 2 + (grid - at[:, :, 1]) ** 2).sqrt()
    masks = (far < size).any(1, keepdim=True).float()
    return masks + 0.7 * torch.randn(masks.shape, generator=draw), masks


def samples(seed: int) -> Samples:
    return Samples(*pictures(800, seed + 120), *pictures(200, seed + 121))


TASK = Task(
    frozenset(["binary", "pictures", "masks", "relu"]),
    samples,
    SmallUNet,
    nn.BCEWithLogitsLoss(),
    overlap,
    {"steps": 300, "rate": 1e-2, "batch": 16},
)
