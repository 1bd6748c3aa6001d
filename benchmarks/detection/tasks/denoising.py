"""Noise taken off patches of smooth pictures, by a residual convolutional network."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from benchmarks.detection.kit import normal
from benchmarks.detection.skill import explained
from benchmarks.detection.task import Samples, Task


class Denoiser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 1, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        clean: Tensor = x - self.layers(x)
        return clean


def pictures(count: int, seed: int) -> tuple[Tensor, Tensor]:
    coarse = normal(count, 1, 4, 4, seed=seed)
    y = F.interpolate(coarse, size=12, mode="bilinear", align_corners=True)
    return y + 0.8 * normal(*y.shape, seed=seed + 5000), y


def samples(seed: int) -> Samples:
    return Samples(*pictures(1000, seed + 140), *pictures(200, seed + 141))


TASK = Task(
    frozenset(["numbers", "pictures", "relu"]),
    samples,
    Denoiser,
    nn.L1Loss(),
    lambda outputs, y: explained(torch.as_tensor(outputs), y),
    {"steps": 300, "rate": 3e-3, "batch": 16},
)
