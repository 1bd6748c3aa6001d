"""Three quantiles of a number at once, by the pinball loss."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.detection.kit import dense, normal
from benchmarks.detection.task import JoinedModel, Samples, Task

LEVELS = torch.tensor([0.1, 0.5, 0.9])


def pinball(found: Tensor, y: Tensor) -> Tensor:
    error = y - found
    return torch.maximum(LEVELS * error, (LEVELS - 1) * error).mean()


def samples(seed: int) -> Samples:
    x, held_x = normal(4000, 6, seed=seed + 40), normal(800, 6, seed=seed + 41)
    noise = normal(4800, 1, seed=seed + 42)
    y, held_y = (
        part[:, :1] + torch.sin(2 * part[:, 1:2]) + 0.4 * part[:, 2:3].exp().clamp(max=3) * some
        for part, some in ((x, noise[:4000]), (held_x, noise[4000:]))
    )
    return Samples(x, y, held_x, held_y)


def skill(outputs: Tensor, y: Tensor) -> float:
    guess = pinball(torch.quantile(y, LEVELS).expand(len(y), 3), y)
    return 2 * (1 - (pinball(outputs, y) / guess).item())


TASK = Task(
    frozenset(["quantiles", "table", "joined", "relu"]),
    samples,
    lambda: JoinedModel(nn.Sequential(*dense([6, 48, 48]), nn.ReLU()), nn.Linear(48, 3)),
    pinball,
    skill,
)
