"""Which of two answers people prefer: scores, and the logistic loss of their difference."""

from __future__ import annotations

import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from benchmarks.detection.kit import dense, normal
from benchmarks.detection.task import Samples, Task

FEATURES = 12


class Scorer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = dense([FEATURES, 48, 1])

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layers(x).squeeze(-1)
        return scores


def pairs(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """(N, 2, FEATURES): the preferred one first."""
    x = normal(count, 2, FEATURES, seed=seed)
    worth = ((x @ normal(FEATURES, 8, seed=29) / 3).relu() @ normal(8, 1, seed=30)).squeeze(-1)
    order = worth.argsort(1, descending=True)
    return x.gather(1, order[:, :, None].expand_as(x)), worth.sort(1, descending=True).values


def criterion(scores: Tensor, y: Tensor) -> Tensor:
    return -F.logsigmoid(scores[:, 0] - scores[:, 1]).mean()


TASK = Task(
    frozenset(["pairs", "relu"]),
    lambda seed: Samples(*pairs(4000, seed + 310), *pairs(800, seed + 311)),
    Scorer,
    criterion,
    lambda scores, y: 2 * (scores[:, 0] > scores[:, 1]).double().mean().item() - 1,
)
