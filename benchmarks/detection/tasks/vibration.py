"""Three faults of a bearing from its vibration, by convolutions over time."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.detection.skill import class_skill
from benchmarks.detection.task import JoinedModel, Samples, Task

LENGTH = 64


def signals(count: int, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(4, (count,), generator=draw)
    time = torch.arange(LENGTH).float()
    period = torch.tensor([1e9, 9.0, 13.0, 17.0])[y, None]
    begin = 17 * torch.rand(count, 1, generator=draw)
    beats = torch.exp(-0.7 * ((time + begin) % period)) * torch.cos(2 * time)
    x = 3 * beats + 0.5 * torch.randn(count, LENGTH, generator=draw)
    return x[:, None], y


def samples(seed: int) -> Samples:
    return Samples(*signals(2500, seed + 180), *signals(500, seed + 181))


def model() -> nn.Module:
    layers: list[nn.Module] = []
    for inputs, width in ((1, 12), (12, 24), (24, 24)):
        conv = nn.Conv1d(inputs, width, 5, stride=2, padding=2)
        layers += [conv, nn.BatchNorm1d(width), nn.LeakyReLU(0.1)]
    body = nn.Sequential(*layers, nn.Flatten())
    return JoinedModel(body, nn.Sequential(nn.Dropout(0.1), nn.Linear(192, 4)))


TASK = Task(
    frozenset(["classes", "series", "joined", "batch_norm", "dropout"]),
    samples,
    model,
    nn.CrossEntropyLoss(label_smoothing=0.05),
    class_skill,
    {"steps": 400, "optimizer": "adamw", "weight_decay": 0.01},
)
