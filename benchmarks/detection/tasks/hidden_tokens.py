"""Tokens behind masks, by an encoder; the labels of all others are -100."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from benchmarks.detection.kit import integers
from benchmarks.detection.skill import class_skill
from benchmarks.detection.task import Samples, Task

TOKENS, LENGTH, WIDTH, MASK = 20, 12, 32, 20


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(TOKENS + 1, WIDTH)
        self.places = nn.Parameter(torch.randn(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, TOKENS)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.layers(self.embed(x) + self.places))
        return scores


def sentences(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Three tokens that are repeated."""
    tokens = integers(TOKENS, count, 3, seed=seed).repeat(1, LENGTH // 3)
    hidden = torch.rand(count, LENGTH, generator=torch.Generator().manual_seed(seed)) < 0.25
    return tokens.masked_fill(hidden, MASK), tokens.masked_fill(~hidden, -100)


def criterion(scores: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), y.flatten())


TASK = Task(
    frozenset(["tokens", "padded", "attention"]),
    lambda seed: Samples(*sentences(3000, seed + 250), *sentences(400, seed + 251)),
    Encoder,
    criterion,
    lambda scores, y: class_skill(scores.transpose(1, 2), y),
    {"steps": 400, "rate": 4e-3},
)
