"""Clicks of users on items: embedded users, places and hours, and a perceptron."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.detection.kit import dense, integers, normal
from benchmarks.detection.skill import ranking_skill
from benchmarks.detection.task import JoinedModel, Samples, Task

SIZES = (40, 30, 24)


class Embedded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, 6) for size in SIZES)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([table(x[:, n]) for n, table in enumerate(self.tables)], 1)


def samples(seed: int) -> Samples:
    x = torch.stack([integers(s, 8000, seed=seed + 110 + n) for n, s in enumerate(SIZES)], 1)
    hidden = [normal(size, 3, seed=8 + n) for n, size in enumerate(SIZES)]
    first, second, third = (table[x[:, n]] for n, table in enumerate(hidden))
    score = 2 * (first * second).sum(1) + 1.5 * third[:, 0] * second[:, 1] - 1.5
    y = torch.rand(len(x), generator=torch.Generator().manual_seed(seed)) < score.sigmoid()
    return Samples(x[:6500], y.float()[:6500, None], x[6500:], y.float()[6500:, None])


TASK = Task(
    frozenset(["binary", "ids", "joined", "relu"]),
    samples,
    lambda: JoinedModel(Embedded(), dense([18, 32, 1])),
    nn.BCEWithLogitsLoss(),
    ranking_skill,
    {"steps": 500, "batch": 128, "rate": 5e-3},
)
