"""Ratings of items by users: factors of a matrix."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.detection.kit import normal
from benchmarks.detection.skill import explained
from benchmarks.detection.task import Samples, Task

USERS, ITEMS, FACTORS = 120, 80, 3


class Factors(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(USERS, 8), nn.Embedding(ITEMS, 8)
        self.bias = nn.Embedding(ITEMS, 1)
        for table in (self.users, self.items, self.bias):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, x: Tensor) -> Tensor:
        alike = (self.users(x[:, 0]) * self.items(x[:, 1])).sum(1, keepdim=True)
        found: Tensor = alike + self.bias(x[:, 1])
        return found


def samples(seed: int) -> Samples:
    true = normal(USERS, FACTORS, seed=5) @ normal(FACTORS, ITEMS, seed=6) / 2
    pairs = torch.cartesian_prod(torch.arange(USERS), torch.arange(ITEMS))
    pairs = pairs[torch.randperm(len(pairs), generator=torch.Generator().manual_seed(seed))]
    y = (true + normal(ITEMS, seed=7) / 2)[pairs[:, 0], pairs[:, 1]][:, None]
    y = y + 0.1 * normal(len(y), 1, seed=seed + 100)
    return Samples(pairs[:7000], y[:7000], pairs[7000:8500], y[7000:8500])


TASK = Task(
    frozenset(["numbers", "ids"]),
    samples,
    Factors,
    nn.MSELoss(),
    explained,
    {"steps": 900, "rate": 1e-2, "batch": 128},
)
