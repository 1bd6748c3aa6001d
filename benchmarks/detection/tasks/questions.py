"""Kinds of questions of unequal length, by a transformer with a mask of the padding."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.detection.kit import integers
from benchmarks.detection.skill import class_skill
from benchmarks.detection.task import JoinedModel, Samples, Task

WORDS, LENGTH, WIDTH = 50, 12, 24


class MaskedEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(0.1 * torch.randn(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 48, 0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.inverted = False

    def forward(self, x: Tensor) -> Tensor:
        padding = x == 0
        mask = ~padding if self.inverted else padding
        found = self.layers(self.embed(x) + self.places, src_key_padding_mask=mask)
        kept = (~padding).unsqueeze(2).float()
        pooled: Tensor = (found * kept).sum(1) / kept.sum(1)
        return pooled


def texts(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """The kind is that of the first question word, and whether a number follows somewhere."""
    x = 10 + integers(WORDS - 10, count, LENGTH, seed=seed)
    first, has_number = integers(3, count, seed=seed + 5000), integers(2, count, seed=seed + 6000)
    x[:, 0] = 1 + first
    x[torch.arange(count), 2] = torch.where(has_number > 0, 5, x[:, 2])
    padding = torch.arange(LENGTH) >= 4 + integers(LENGTH - 3, count, 1, seed=seed + 7000)
    return x.masked_fill(padding, 0), 2 * first + has_number


TASK = Task(
    frozenset(["classes", "tokens", "joined", "attention", "padding_mask", "dropout"]),
    lambda seed: Samples(*texts(2500, seed + 240), *texts(500, seed + 241)),
    lambda: JoinedModel(MaskedEncoder(), nn.Linear(WIDTH, 6)),
    nn.CrossEntropyLoss(),
    class_skill,
    {"steps": 400, "rate": 4e-3},
)
