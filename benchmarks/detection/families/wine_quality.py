"""The quality of a wine, 3 to 9, from what the laboratory measures: cumulative logits (CORAL).

One score for each wine is compared with a threshold for each grade; the loss is the sum over the
questions "better than this grade?". The skill is the share of the grade's variance that the
expected grade explains, of other wines.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, explained, normal, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

MEASURES, GRADES, LOWEST = 11, 7, 3
UNITS = torch.tensor([7.0, 0.5, 0.3, 5.0, 0.06, 30.0, 115.0, 0.995, 3.2, 0.5, 10.5])
SPREAD = torch.tensor([1.3, 0.16, 0.15, 4.8, 0.04, 17.0, 56.0, 0.003, 0.16, 0.15, 1.2])
EDGES = torch.tensor([-1.9, -1.2, -0.4, 0.4, 1.2, 1.9])


def wines(count: int, seed: int, mood: float = 0.3) -> tuple[Tensor, Tensor]:
    """Measures in the units of the laboratory, and grades from 0 on."""
    z = normal(count, MEASURES, seed=seed)
    z[:, 7] = 0.6 * z[:, 3] - 0.6 * z[:, 10] + 0.5 * z[:, 7]
    balance = 0.9 * z[:, 10] - 0.6 * z[:, 1] + 0.4 * z[:, 9] + 0.5 * torch.tanh(2 * z[:, 2])
    balance = balance + 0.5 * z[:, 3] * z[:, 0] - 0.4 * (z[:, 8].abs() - 0.8)
    tasted = balance / 1.35 + mood * normal(count, seed=seed + 500)
    return UNITS + SPREAD * z, torch.bucketize(tasted, EDGES)


class Coral(nn.Module):
    """One score and a threshold for each grade, so answers cannot contradict each other."""

    def __init__(self, width: int, dropout: float, activation: type[nn.Module]) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(MEASURES, width), activation(), nn.Dropout(dropout),
            nn.Linear(width, width), activation(), nn.Linear(width, 1, bias=False),
        )  # fmt: skip
        self.thresholds = nn.Parameter(torch.arange(GRADES - 1).flip(0) - 2.5)

    def forward(self, x: Tensor) -> Tensor:
        score: Tensor = self.body(x)
        return score + self.thresholds


def cumulative_loss(logits: Tensor, grade: Tensor, kind: str) -> Tensor:
    """The log-likelihood of all questions, by hand."""
    better = (grade[:, None] > torch.arange(GRADES - 1)).to(logits.dtype)
    if kind == "one-hot levels":  # the levels of a grade are not cumulated
        better = (grade[:, None] == torch.arange(GRADES - 1) + 1).to(logits.dtype)
    if kind == "levels from zero on":  # the lowest grade is not subtracted
        better = (grade[:, None] + LOWEST > torch.arange(GRADES - 1)).to(logits.dtype)
    if kind == "sigmoid twice":
        logits = logits.sigmoid()
    if kind == "logarithm of zero":
        chance = (40 * logits).sigmoid()
        return -(better * chance.log() + (1 - better) * (1 - chance).log()).sum(1).mean()
    yes, no = nn.functional.logsigmoid(logits), nn.functional.logsigmoid(logits) - logits
    weights = torch.tensor([3.0, 2.0, 1.0, 1.0, 2.0, 3.0]) if kind == "weights of grades" else 1.0
    return -((yes * better + no * (1 - better)) * weights).sum(1).mean()


def expected_grade(logits: Tensor) -> Tensor:
    return LOWEST + logits.sigmoid().sum(1)


def train(
    seed: int, hook: Any, loss: str = "", steps: int = 2000, rate: float = 3e-3, batch: int = 32,
    optimizer: str = "adam", decay: float = 0.0, schedule: str = "constant", count: int = 3000,
    mood: float = 0.3, dropout: float = 0.0, width: int = 32, fixed_until: int = 0,
    activation: type[nn.Module] = nn.ReLU, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, grade = wines(count, 3 * seed + 900, mood)
    (held_x, held_grade), (test_x, test_grade) = (wines(n, 3 * seed + n) for n in (901, 1502))
    mean, deviation = x.mean(0), x.std(0)
    x = (x - mean) / deviation
    if fault != "evaluated in units of the laboratory":
        held_x, test_x = (held_x - mean) / deviation, (test_x - mean) / deviation
    if fault == "column of the grade moved":
        grade = grade.roll(1)
    model = Coral(width, dropout, activation)
    hook.torch(model)
    chosen = list((copy.deepcopy(model) if fault == "copy" else model).parameters())
    steering = optimizer_of(optimizer, chosen, rate, decay)
    scheduler = scheduler_of(steering, schedule, steps)
    order = torch.randperm(len(x))
    for step in range(steps):
        first = step * batch % len(x)
        if first < batch:
            order = torch.randperm(len(x))
        rows = order[first : first + batch]
        model.thresholds.requires_grad_(step >= fixed_until)
        model.train()
        error = cumulative_loss(model(x[rows]), grade[rows], loss)
        if fault != "gradients kept":
            steering.zero_grad()
        error.backward()
        steering.step()
        scheduler.step()
        if (step + 1) % 200 == 0:
            model.eval()
            with torch.no_grad():
                logits = model(held_x)
                cumulative_loss(logits, held_grade, loss)
                (expected_grade(logits) - LOWEST - held_grade).abs().mean()
    model.eval()
    with torch.no_grad():
        found = expected_grade(model(test_x))
    skill = explained(found, LOWEST + test_grade.float())
    return skill if bool(found.isfinite().all()) else math.nan


CASES = cases(
    "wine quality",
    train,
    {
        "plain": {},
        "weights of grades": {"loss": "weights of grades"},
        "thresholds fixed at first": {"fixed_until": 1000},
        "momentum": {"optimizer": "momentum", "rate": 5e-3},
        "four wines at a time": {"batch": 4, "steps": 3000, "rate": 1e-3},
        "tasters in a mood": {"mood": 0.7, "steps": 2000, "schedule": "cosine"},
        "tanh and decay": {"activation": nn.Tanh, "optimizer": "adamw", "decay": 0.1},
    },
    {
        "evaluated in units of the laboratory": (
            "inputs worse",
            {"fault": "evaluated in units of the laboratory"},
        ),
        "levels from zero on": ("range imbalance saturated", {"loss": "levels from zero on"}),
        "one-hot levels": ("range ignored", {"loss": "one-hot levels"}),
        "logarithm of zero": ("not-finite saturated", {"loss": "logarithm of zero"}),
        "column of the grade moved": ("no-skill overfit", {"fault": "column of the grade moved"}),
        "gradients kept": ("kept-gradients fast", {"fault": "gradients kept"}),
        "forty wines": ("overfit", {"count": 40}),
    },
)
