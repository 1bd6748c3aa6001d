"""The spread of ten points, whatever their order: a network for sets."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.detection.kit import dense, normal
from benchmarks.detection.skill import explained
from benchmarks.detection.task import JoinedModel, Samples, Task


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.points = dense([2, 32, 32])

    def forward(self, x: Tensor) -> Tensor:
        found = self.points(x)
        return torch.cat([found.mean(1), found.amax(1)], 1)


def samples(seed: int) -> Samples:
    scale = 0.5 + normal(3600, 1, 1, seed=seed + 91).abs()
    x = scale * normal(3600, 10, 2, seed=seed + 90)
    y = torch.cdist(x, x).amax((1, 2))[:, None] / 2
    return Samples(x[:3000], y[:3000], x[3000:], y[3000:])


TASK = Task(
    frozenset(["numbers", "sets", "joined", "relu"]),
    samples,
    lambda: JoinedModel(Pooled(), dense([64, 32, 1])),
    nn.HuberLoss(),
    explained,
)
