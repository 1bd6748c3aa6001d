"""Textures with few labels: a student of strong views follows a teacher of averaged weights.

Sixteen by sixteen pictures of five textures (stripes of two directions, checks, dots, and rings)
that differ in phase, width and contrast. 60 of them have labels. On the others the teacher says
what it sees in a weakly changed view, and where it is confident the student is to say so of a
strongly changed one. The skill is the accuracy of the averaged weights above the commonest kind's.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin, optimizer_of
from benchmarks.detection.skill import class_skill

SIZE, KINDS = 16, 5


def pictures(count: int, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    kind = torch.randint(KINDS, (count,), generator=draw)
    rows, columns = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    place = torch.rand(count, 2, 1, 1, generator=draw) * SIZE
    wide = 1.0 + 0.35 * torch.rand(count, 1, 1, generator=draw)
    y, x = (rows - place[:, 0]) * wide, (columns - place[:, 1]) * wide
    along, across = torch.sin(x + 0.3 * y), torch.sin(y - 0.3 * x)
    rings = torch.sin(torch.sqrt(x**2 + y**2 + 1e-3))
    all_kinds = torch.stack([along, across, along * across, (along + across) / 1.4, rings], 1)
    chosen = all_kinds[torch.arange(count), kind]
    contrast = 0.5 + torch.rand(count, 1, 1, generator=draw)
    noise = 0.5 * torch.randn(count, SIZE, SIZE, generator=draw)
    return (contrast * chosen + noise)[:, None], kind


def weak(x: Tensor) -> Tensor:
    shift = torch.randint(-2, 3, (2,)).tolist()
    return torch.roll(x, shift, (2, 3))


def strong(x: Tensor) -> Tensor:
    x = weak(x)
    corner = torch.randint(SIZE - 5, (2,)).tolist()
    x = x.clone()
    x[:, :, corner[0] : corner[0] + 5, corner[1] : corner[1] + 5] = 0
    return x * (0.6 + 0.8 * torch.rand(len(x), 1, 1, 1)) + 0.2 * torch.randn_like(x)


def network(norm: str, dropout: float) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in ((1, 8), (8, 16)):
        layers.append(nn.Conv2d(inputs, outputs, 3, stride=2, padding=1))
        if norm == "batch":
            layers.append(nn.BatchNorm2d(outputs))
        elif norm == "group":
            layers.append(nn.GroupNorm(4, outputs))
        layers.append(nn.LeakyReLU(0.1))
    head = [nn.Flatten(), nn.Dropout(dropout), nn.Linear(16 * 16, KINDS)]
    return nn.Sequential(*layers, *head)


def follow(teacher: nn.Module, student: nn.Module, keep: float) -> None:
    for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
        slow.data.mul_(keep).add_(fast.data, alpha=1 - keep)
    for slow, fast in zip(teacher.buffers(), student.buffers(), strict=True):
        slow.copy_(fast)


def train(
    seed: int, hook: Any, steps: int = 2000, rate: float = 2e-3, batch: int = 16,
    others: int = 24, optimizer: str = "adam", keep: float = 0.98, confident: float = 0.8,
    weight: float = 1.0, ramp: int = 200, labelled: int = 60, norm: str = "batch",
    dropout: float = 0.0, cosine: bool = False, consistency: str = "labels",
    evaluate_every: int = 200, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, y = pictures(2500, seed + 8900)
    held_x, held_y = pictures(300, seed + 8901)
    test_x, test_y = pictures(800, seed + 8902)
    known_x, known_y = x[:labelled], y[:labelled]
    if fault == "labels by another order":  # file names were listed twice, in different orders
        known_y = known_y[torch.randperm(labelled)]
    student = network(norm, dropout)
    teacher = copy.deepcopy(student).requires_grad_(False)
    hook.torch(student)
    trained = teacher if fault == "optimizer of the teacher" else student
    updates = optimizer_of(optimizer, trained.parameters(), rate)
    for step in range(steps):
        if cosine:
            updates.param_groups[0]["lr"] = rate * math.cos(7 / 16 * math.pi * step / steps)
        rows, free = torch.randint(labelled, (batch,)), torch.randint(len(x), (others,))
        supervised = functional.cross_entropy(student(weak(known_x[rows])), known_y[rows])
        with torch.no_grad():
            guess = teacher(weak(x[free])).softmax(0 if fault == "softmax of the batch" else 1)
        sure, kinds = guess.max(1)
        mask = (sure > confident).float()
        found = student(strong(x[free]))
        if consistency == "squares":
            unsupervised = (found.softmax(1) - guess).square().sum(1).mean()
        else:
            unsupervised = (functional.cross_entropy(found, kinds, reduction="none") * mask).mean()
        loss = supervised + weight * min(1.0, (step + 1) / ramp) * unsupervised
        if fault == "supervised part forgotten":
            loss = unsupervised
        updates.zero_grad()
        loss.backward()
        updates.step()
        follow(teacher, student, 1 - keep if fault == "decay the wrong way" else keep)
        if evaluate_every and step % evaluate_every == evaluate_every - 1:
            student.eval()
            with torch.no_grad():
                functional.cross_entropy(student(held_x), held_y)
            student.train()
    teacher.eval()
    with torch.no_grad():
        return class_skill(teacher(test_x), test_y)


CASES = cases(
    "teacher textures",
    train,
    {
        "plain": {},
        "squares of probabilities": {"consistency": "squares", "weight": 5.0},
        "momentum, cosine": {"optimizer": "momentum", "rate": 0.03, "cosine": True},
        "very confident, long ramp": {"confident": 0.97, "ramp": 1000, "steps": 2500},
        "four labelled a batch": {"batch": 4, "others": 32},
        "norm of groups, dropout": {"norm": "group", "dropout": 0.2, "steps": 2500},
        "slow teacher, not evaluated": {"keep": 0.995, "evaluate_every": 0},
    },
    {
        "labels by another order": ("no-skill overfit", {"fault": "labels by another order"}),
        "optimizer of the teacher": (
            "unbound no-gradient no-skill slow", {"fault": "optimizer of the teacher"},
        ),
        "supervised part forgotten": (
            "ignored collapse no-skill", {"fault": "supervised part forgotten"},
        ),
        "everything is trusted at once": (
            "collapse worse no-skill", {"confident": 0.0, "ramp": 1, "weight": 20.0},
        ),
        "five labels": ("overfit imbalance", {"labelled": 5}),
    },
)  # fmt: skip
