"""Seven classes by a deep residual perceptron with layer normalisation."""

from __future__ import annotations

from torch import Tensor, nn

from benchmarks.detection.kit import normal
from benchmarks.detection.skill import class_skill
from benchmarks.detection.task import JoinedModel, Samples, Task

FEATURES, CLASSES, WIDTH = 12, 7, 32


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.inner, self.outer = nn.Linear(WIDTH, 48), nn.Linear(48, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = x + self.outer(nn.functional.gelu(self.inner(self.norm(x))))
        return found


def samples(seed: int) -> Samples:
    x, held_x = normal(4000, FEATURES, seed=seed + 290), normal(800, FEATURES, seed=seed + 291)
    first, second = normal(FEATURES, 10, seed=25), normal(10, CLASSES, seed=26)
    y, held_y = (((part @ first / 3).sin() @ second).argmax(1) for part in (x, held_x))
    return Samples(x, y, held_x, held_y)


def model() -> nn.Module:
    blocks = [Residual() for _ in range(6)]
    return JoinedModel(
        nn.Sequential(nn.Linear(FEATURES, WIDTH), *blocks, nn.LayerNorm(WIDTH)),
        nn.Linear(WIDTH, CLASSES),
    )


TASK = Task(
    frozenset(["classes", "table", "joined", "deep"]),
    samples,
    model,
    nn.CrossEntropyLoss(),
    class_skill,
    {"steps": 600, "rate": 3e-3, "optimizer": "adamw", "weight_decay": 0.01, "schedule": "cosine"},
)
