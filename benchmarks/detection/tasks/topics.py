"""Topics of short texts, by the mean of their embedded words."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.detection.kit import normal
from benchmarks.detection.skill import class_skill
from benchmarks.detection.task import JoinedModel, Samples, Task

WORDS, LENGTH, TOPICS = 200, 12, 6


def texts(count: int, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(TOPICS, (count,), generator=draw)
    words = (1.3 * normal(TOPICS, WORDS, seed=14)).softmax(1)
    return torch.multinomial(words[y], LENGTH, replacement=True, generator=draw), y


TASK = Task(
    frozenset(["classes", "tokens", "joined"]),
    lambda seed: Samples(*texts(4000, seed + 230), *texts(800, seed + 231)),
    lambda: JoinedModel(nn.EmbeddingBag(WORDS, 24), nn.Linear(24, TOPICS)),
    nn.CrossEntropyLoss(),
    class_skill,
    {"steps": 500, "rate": 2e-2},
)
