"""A number with its variance, by the Gaussian likelihood, which may be negative."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.detection.kit import dense, normal
from benchmarks.detection.task import JoinedModel, Samples, Task


def likelihood(outputs: Tensor, y: Tensor) -> Tensor:
    mean, log_variance = outputs.chunk(2, 1)
    return (log_variance + (y - mean) ** 2 * torch.exp(-log_variance)).mean() / 2


def samples(seed: int) -> Samples:
    x, held_x = normal(4000, 6, seed=seed + 50), normal(800, 6, seed=seed + 51)
    noise = normal(4800, 1, seed=seed + 52)
    y, held_y = (
        torch.sin(2 * part[:, :1]) + 0.05 * (1 + 3 * torch.sigmoid(2 * part[:, 1:2])) * some
        for part, some in ((x, noise[:4000]), (held_x, noise[4000:]))
    )
    return Samples(x, y, held_x, held_y)


def skill(outputs: Tensor, y: Tensor) -> float:
    guess = y.var().log().item() / 2 + 0.5
    return (guess - likelihood(outputs, y).item()) / 2


TASK = Task(
    frozenset(["likelihood", "table", "joined", "tanh"]),
    samples,
    lambda: JoinedModel(nn.Sequential(*dense([6, 48, 48], nn.Tanh), nn.Tanh()), nn.Linear(48, 2)),
    likelihood,
    skill,
    {"steps": 900, "rate": 5e-3, "clip": 1.0},
)
