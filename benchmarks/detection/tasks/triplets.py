"""Embeddings in which samples of one kind lie near each other, by triplets."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from benchmarks.detection.kit import dense, integers, normal
from benchmarks.detection.task import Samples, Task

FEATURES, KINDS = 16, 12


def drawn(kinds: Tensor, seed: int) -> Tensor:
    """A sample of each kind; what tells kinds apart is hidden in what does not."""
    hidden = torch.cat([normal(KINDS, 4, seed=19)[kinds], normal(*kinds.shape, 12, seed=seed)], -1)
    return torch.tanh(hidden @ normal(16, FEATURES, seed=20) / 3)


def samples(seed: int) -> Samples:
    """(N, 3, FEATURES): a sample, another one of its kind, one of another kind."""
    y = integers(KINDS, 4400, seed=seed + 260)
    other = (y + 1 + integers(KINDS - 1, len(y), seed=seed + 261)) % KINDS
    x = drawn(torch.stack([y, y, other], 1), seed + 262)
    return Samples(x[:4000], y[:4000], x[4000:], y[4000:])


def criterion(found: Tensor, y: Tensor) -> Tensor:
    return F.triplet_margin_loss(found[:, 0], found[:, 1], found[:, 2], margin=0.5)


def skill(found: Tensor, y: Tensor) -> float:
    """Return how often the nearest other sample is of the same kind, above chance."""
    far = torch.cdist(found[:, 0], found[:, 0]).fill_diagonal_(float("inf"))
    right = (y[far.argmin(1)] == y).double().mean().item()
    return (right - 1 / KINDS) / (1 - 1 / KINDS)


class Embedder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = dense([FEATURES, 64, 16])

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(self.layers(x), dim=-1)


TASK = Task(
    frozenset(["metric", "relu"]), samples, Embedder, criterion, skill, {"steps": 600, "batch": 64}
)
