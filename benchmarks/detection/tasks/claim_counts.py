"""The number of claims of a contract in a year: Poisson regression on the logarithm."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.detection.kit import dense, normal
from benchmarks.detection.skill import explained
from benchmarks.detection.task import JoinedModel, Samples, Task

FEATURES = 8


def rates(x: Tensor) -> Tensor:
    return (0.8 + 0.8 * torch.tanh(x[:, :1] + x[:, 1:2] * x[:, 2:3]) + 0.4 * x[:, 3:4]).exp()


def samples(seed: int) -> Samples:
    x, held_x = normal(4000, FEATURES, seed=seed + 30), normal(800, FEATURES, seed=seed + 31)
    draw = torch.Generator().manual_seed(seed + 32)
    return Samples(x, torch.poisson(rates(x), generator=draw), held_x, rates(held_x))


def skill(outputs: Tensor, y: Tensor) -> float:
    return explained(outputs, y.log())


def model() -> nn.Module:
    return JoinedModel(nn.Sequential(*dense([FEATURES, 32, 32]), nn.ReLU()), nn.Linear(32, 1))


TASK = Task(
    frozenset(["counts", "table", "joined", "relu"]), samples, model, nn.PoissonNLLLoss(), skill
)
