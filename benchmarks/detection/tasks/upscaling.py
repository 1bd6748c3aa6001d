"""Digits of eight by eight pixels from four by four, with sub-pixel convolutions."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from benchmarks.detection.task import Samples, Task
from benchmarks.detection.tasks import digits_cnn


def samples(seed: int) -> Samples:
    found = digits_cnn.samples(seed)
    coarse, held = (F.avg_pool2d(part, 2) for part in (found.x, found.held_x))
    return Samples(coarse, found.x, held, found.held_x)


def skill(outputs: Tensor, y: Tensor) -> float:
    """The share of the squared error of nearest neighbours that is gone, and half as much again."""
    near = F.interpolate(F.avg_pool2d(y, 2), scale_factor=2)
    return 1.5 * (1 - (F.mse_loss(outputs, y) / F.mse_loss(near, y)).item())


def model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 24, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(24, 24, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(24, 4, 3, padding=1),
        nn.PixelShuffle(2),
    )


TASK = Task(
    frozenset(["numbers", "pictures", "relu"]),
    samples,
    model,
    torch.nn.MSELoss(),
    skill,
    {"steps": 400, "rate": 4e-3},
)
