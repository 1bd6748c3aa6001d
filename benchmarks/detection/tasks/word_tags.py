"""A tag for each word of sentences of unequal length; padding has the label -100."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from benchmarks.detection.kit import integers
from benchmarks.detection.skill import class_skill
from benchmarks.detection.task import Samples, Task

WORDS, TAGS, LENGTH = 60, 5, 14


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, 24, padding_idx=0)
        self.cell = nn.GRU(24, 24, batch_first=True, bidirectional=True)
        self.head = nn.Linear(48, TAGS)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.cell(self.embed(x))[0])
        return scores.transpose(1, 2)


def sentences(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """The tag of a word depends on the word and on the kind of the word before it."""
    x = 1 + integers(WORDS - 1, count, LENGTH, seed=seed)
    before = torch.cat([torch.zeros(count, 1, dtype=torch.long), x[:, :-1]], 1)
    y = (x * 7 // 5 + before % 3) % TAGS
    padding = torch.arange(LENGTH) >= 4 + integers(LENGTH - 3, count, 1, seed=seed + 5000)
    return x.masked_fill(padding, 0), y.masked_fill(padding, -100)


def criterion(scores: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(scores, y, ignore_index=-100)


TASK = Task(
    frozenset(["tokens", "padded", "recurrent"]),
    lambda seed: Samples(*sentences(2500, seed + 220), *sentences(400, seed + 221)),
    Tagger,
    criterion,
    class_skill,
    {"steps": 500, "rate": 1e-2},
)
