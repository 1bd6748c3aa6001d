"""Two views of a thing find each other among those of the batch, by a contrastive loss."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from benchmarks.detection.kit import dense, normal
from benchmarks.detection.task import Samples, Task

FEATURES = 16


class TwoTowers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = dense([FEATURES, 48, 12]), dense([FEATURES, 48, 12])
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        """(N, N) scores of each first view with each second one."""
        first = F.normalize(self.first(x[:, 0]), dim=1)
        second = F.normalize(self.second(x[:, 1]), dim=1)
        return self.scale.exp() * first @ second.T


def views(count: int, seed: int) -> tuple[Tensor, Tensor]:
    hidden = normal(count, 5, seed=seed)
    both = [
        torch.tanh(hidden @ normal(5, FEATURES, seed=21 + n))
        + 0.1 * normal(count, FEATURES, seed=seed + 6000 + n)
        for n in range(2)
    ]
    return torch.stack(both, 1), torch.arange(count)


def criterion(scores: Tensor, y: Tensor) -> Tensor:
    own = torch.arange(len(scores))
    return (F.cross_entropy(scores, own) + F.cross_entropy(scores.T, own)) / 2


TASK = Task(
    frozenset(["contrastive", "relu"]),
    lambda seed: Samples(*views(3000, seed + 270), *views(200, seed + 271)),
    TwoTowers,
    criterion,
    lambda scores, y: (scores.argmax(1) == y).double().mean().item(),
    {"steps": 600, "batch": 64},
)
