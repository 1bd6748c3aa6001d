"""One body, two heads: a number and a class; the loss is the sum of both."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from benchmarks.detection.kit import dense, normal
from benchmarks.detection.skill import class_skill, explained
from benchmarks.detection.task import Samples, Task

FEATURES = 12


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(*dense([FEATURES, 64, 64]), nn.ReLU())
        self.number, self.kind = nn.Linear(64, 1), nn.Linear(64, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = self.body(x)
        return self.number(found).squeeze(1), self.kind(found)


def labelled(count: int, seed: int) -> tuple[Tensor, Tensor]:
    x = normal(count, FEATURES, seed=seed)
    number = torch.tanh(x[:, 0] * x[:, 1] + x[:, 2])
    kind = (torch.tanh(x @ normal(FEATURES, 4, seed=27) / 2) @ normal(4, 4, seed=28)).argmax(1)
    return x, torch.stack([number, kind.float()], 1)


def criterion(outputs: tuple[Tensor, Tensor], y: Tensor) -> Tensor:
    number, kind = outputs
    return F.mse_loss(number, y[:, 0]) + F.cross_entropy(kind, y[:, 1].long())


def skill(outputs: tuple[Tensor, Tensor], y: Tensor) -> float:
    number, kind = outputs
    return (explained(number, y[:, 0]) + class_skill(kind, y[:, 1].long())) / 2


TASK = Task(
    frozenset(["tuple", "table", "relu"]),
    lambda seed: Samples(*labelled(4000, seed + 300), *labelled(800, seed + 301)),
    TwoHeads,
    criterion,
    skill,
    {"steps": 800},
)
