"""A small student learns from a teacher's probabilities."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import (
    begin,
    class_skill,
    dense,
    normal,
    optimizer_of,
    scheduler_of,
)
from torch import nn

from benchmarks.detection.case import cases

SIZE, KINDS = 16, 6


def train(
    seed: int, hook: Any, rate: float = 3e-3, steps: int = 1200, batch: int = 32,
    heat: float = 2.0, hard: float = 0.0, schedule: str = "constant", loss: str = "kl",
    fault: str = "", scale: float = 1.0,
) -> float:  # fmt: skip
    begin(seed)
    x, held = normal(6000, SIZE, seed=seed + 340), normal(1000, SIZE, seed=seed + 341)
    mixing, kinds = normal(SIZE, 5, seed=111), normal(5, KINDS, seed=112)
    y, held_y = ((torch.tanh(p @ mixing / 3) @ kinds).argmax(1) for p in (x, held))
    teacher, student = dense([SIZE, 64, 64, KINDS]), dense([SIZE, 32, KINDS])
    learning = optimizer_of("adam", teacher.parameters(), 3e-3)
    for _ in range(0 if fault == "teacher untaught" else 500):
        rows = torch.randint(len(x), (64,))
        learning.zero_grad()
        F.cross_entropy(teacher(x[rows]), y[rows]).backward()
        learning.step()
    teacher.eval()
    trained = teacher if fault == "teacher's optimizer" else student
    optimizer = optimizer_of("adam", trained.parameters(), rate)
    scheduler = scheduler_of(optimizer, schedule, steps)
    divergence = nn.KLDivLoss(reduction="batchmean")
    squares = nn.MSELoss()
    hook.torch(student)
    for step in range(steps):
        rows = torch.randint(len(x), (batch,))
        with torch.no_grad():
            wanted = teacher(x[rows]) / heat
        if fault == "answers of others":
            wanted = wanted[torch.randperm(batch)]
        scores = student(x[rows])
        soft = (scores / heat).log_softmax(1)
        if fault == "no logarithm":
            soft = soft.exp()
        if fault == "over the batch":
            soft = (scores / heat).log_softmax(0)
        value = (
            squares(scores, wanted * heat)
            if loss == "squares"
            else heat**2 * divergence(soft, wanted.softmax(1))
        )
        if hard:
            value = (1 - hard) * value + hard * F.cross_entropy(scores, y[rows])
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        scheduler.step()
        if step % 200 == 199:
            student.eval()
            with torch.no_grad():
                found = (student(held * scale) / heat).log_softmax(1)
                divergence(found, (teacher(held) / heat).softmax(1))
            student.train()
    student.eval()
    with torch.no_grad():
        return class_skill(student(held * scale), held_y)


CASES = cases(
    "distillation",
    train,
    {
        "plain": {},
        "labels as well": {"hard": 0.5},
        "squares of scores": {"loss": "squares"},
        "hotter": {"heat": 5.0},
        "cosine": {"schedule": "cosine", "rate": 5e-3},
    },
    {
        "answers of others": ("no-skill", {"fault": "answers of others"}),
        "no logarithm": ("probabilities range worse no-skill", {"fault": "no logarithm"}),
        "softmax over the batch": ("softmax-axis probabilities", {"fault": "over the batch"}),
        "teacher untaught": ("no-skill", {"fault": "teacher untaught"}),
        "teacher's optimizer": ("unbound slow", {"fault": "teacher's optimizer"}),
        "evaluation x 255": ("inputs", {"scale": 255.0}),
        "rate x 1000": ("fast no-skill dead", {"rate": 3.0}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
    },
)
