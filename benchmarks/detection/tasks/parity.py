"""The parity of three of twelve bits: nothing is learned for long, then everything."""

from __future__ import annotations

from torch import nn

from benchmarks.detection.kit import dense, integers
from benchmarks.detection.skill import ranking_skill
from benchmarks.detection.task import JoinedModel, Samples, Task


def samples(seed: int) -> Samples:
    x, held_x = integers(2, 6000, 12, seed=seed + 80), integers(2, 800, 12, seed=seed + 81)
    y, held_y = ((part[:, :3].sum(1) % 2).float()[:, None] for part in (x, held_x))
    return Samples(2.0 * x - 1, y, 2.0 * held_x - 1, held_y)


TASK = Task(
    frozenset(["binary", "table", "joined", "relu", "plateau"]),
    samples,
    lambda: JoinedModel(nn.Sequential(*dense([12, 64]), nn.ReLU()), nn.Linear(64, 1)),
    nn.BCEWithLogitsLoss(),
    ranking_skill,
    {"steps": 1200, "rate": 4e-3, "batch": 64},
)
