"""Handwritten digits by a transformer on patches of two by two pixels."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.detection.skill import class_skill
from benchmarks.detection.task import JoinedModel, Task
from benchmarks.detection.tasks.digits_cnn import samples

WIDTH = 32


class Patches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(1, WIDTH, 2, stride=2)
        self.places = nn.Parameter(0.1 * torch.randn(16, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x).flatten(2).transpose(1, 2) + self.places
        pooled: Tensor = self.norm(self.layers(tokens).mean(1))
        return pooled


TASK = Task(
    frozenset(["classes", "pictures", "joined", "attention"]),
    samples,
    lambda: JoinedModel(Patches(), nn.Linear(WIDTH, 10)),
    nn.CrossEntropyLoss(),
    class_skill,
    {"steps": 400, "schedule": "warmup", "optimizer": "adamw", "weight_decay": 0.01},
)
