"""Eight labels, of which a sample may have several."""

from __future__ import annotations

from torch import nn

from benchmarks.detection.kit import dense, normal
from benchmarks.detection.skill import ranking_skill
from benchmarks.detection.task import JoinedModel, Samples, Task

FEATURES, LABELS = 20, 8


def samples(seed: int) -> Samples:
    x, held_x = normal(4000, FEATURES, seed=seed + 70), normal(800, FEATURES, seed=seed + 71)
    first, second = normal(FEATURES, 16, seed=3), normal(16, LABELS, seed=4)
    y, held_y = (((part @ first).relu() @ second / 16 > 0.6).float() for part in (x, held_x))
    return Samples(x, y, held_x, held_y)


def model() -> nn.Module:
    body = nn.Sequential(*dense([FEATURES, 64, 64]), nn.ReLU())
    return JoinedModel(body, nn.Linear(64, LABELS))


TASK = Task(
    frozenset(["binary", "table", "joined", "relu", "many_labels"]),
    samples,
    model,
    nn.BCEWithLogitsLoss(),
    ranking_skill,
    {"steps": 800},
)
