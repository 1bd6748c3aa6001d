"""Which exercises a pupil solves: sparse tables of pupils and exercises beside a small network.

The tables belong to SparseAdam, the network to Adam. The loss is the binary cross-entropy of
answers. The skill is the share of the variance of the true chances that is explained, for pairs
of pupil and exercise that were not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, explained, normal, scheduler_of
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

PUPILS, EXERCISES, TOPICS = 300, 120, 3


def answers(seed: int, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Pupils, exercises (each pair once), whether they were solved, and the chance of it."""
    able = normal(PUPILS, TOPICS, seed=seed)
    asked = normal(EXERCISES, TOPICS, seed=seed + 1).abs()
    hard = 0.5 + 1.2 * normal(EXERCISES, seed=seed + 2)
    chance = (1.6 * able @ asked.T - 1.5 * hard).sigmoid()
    draw = torch.Generator().manual_seed(seed + 3)
    pairs = torch.randperm(PUPILS * EXERCISES, generator=draw)[:count]
    pupil, exercise = pairs // EXERCISES, pairs % EXERCISES
    p = chance[pupil, exercise]
    return pupil, exercise, torch.bernoulli(p, generator=draw), p


class Answers(nn.Module):
    def __init__(self, size: int = 8, deviation: float = 0.1, dropout: float = 0.0) -> None:
        super().__init__()
        self.pupils = nn.Embedding(PUPILS, size, sparse=True)
        self.exercises = nn.Embedding(EXERCISES, size, sparse=True)
        self.hardness = nn.Embedding(EXERCISES, 1, sparse=True)
        for table in (self.pupils, self.exercises, self.hardness):
            nn.init.normal_(table.weight, std=deviation)
        self.drop = nn.Dropout(dropout)
        self.network = nn.Sequential(nn.Linear(3 * size, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, pupil: Tensor, exercise: Tensor) -> Tensor:
        p, e = self.pupils(pupil), self.exercises(exercise)
        deep = self.network(self.drop(torch.cat([p, e, p * e], 1))).squeeze(1)
        logit: Tensor = deep + (p * e).sum(1) + self.hardness(exercise).squeeze(1)
        return logit


def optimizers(
    model: Answers, table_rate: float, rate: float, fault: str
) -> tuple[torch.optim.Optimizer, ...]:
    tables = [model.pupils.weight, model.exercises.weight, model.hardness.weight]
    if fault == "tables without an optimizer":
        return (torch.optim.Adam(model.network.parameters(), rate),)
    dense = torch.optim.AdamW(model.network.parameters(), rate, weight_decay=0.01)
    return torch.optim.SparseAdam(tables, table_rate), dense


def batches(data: TensorDataset, size: int, shuffle: bool) -> Iterator[list[Tensor]]:
    while True:
        yield from DataLoader(data, size, shuffle=shuffle, drop_last=True)


def train(
    seed: int, hook: Any, steps: int = 2000, batch: int = 256, table_rate: float = 4e-3,
    rate: float = 2e-3, schedule: str = "cosine", count: int = 24000, deviation: float = 0.1,
    dropout: float = 0.0, smoothing: float = 0.0, scale: float = 1.0, reduction: str = "mean",
    tables_from: int = 0, network_from: int = 0, evaluation: str = "loss", accumulate: int = 1,
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    pupil, exercise, solved, chance = answers(11 * seed + 50, 30000)
    test = slice(26000, 30000)
    held = slice(24000, 26000)
    known = solved.roll(1) if fault == "answers moved by a row" else solved
    if fault == "sorted by pupil, not shuffled":
        first = pupil[:count].argsort()
        rows = (pupil[first], exercise[first], known[first])
    else:
        rows = (pupil[:count], exercise[:count], known[:count])
    stream = batches(TensorDataset(*rows), min(batch, count), "not shuffled" not in fault)
    model = Answers(deviation=deviation, dropout=dropout)
    hook.torch(model)
    steering = optimizers(model, table_rate, rate, fault)
    schedulers = [scheduler_of(one, schedule, steps) for one in steering]
    for step in range(steps):
        model.train()
        model.zero_grad()
        for _ in range(accumulate):
            who, what, right = next(stream)
            if fault == "an exercise's number for the pupil's":
                who = what
            logits = model(who, what)
            target = right * (1 - smoothing) + smoothing / 2
            if fault == "sigmoid twice":
                logits = logits.sigmoid()
            loss = functional.binary_cross_entropy_with_logits(logits, target, reduction=reduction)
            (scale * loss / accumulate).backward()
        for number, one in enumerate(steering):
            if step >= (tables_from, network_from)[number]:
                one.step()
        for scheduler in schedulers:
            scheduler.step()
        if evaluation and (step + 1) % 250 == 0:
            model.eval()
            with torch.no_grad():
                logits = model(pupil[held], exercise[held])
                if evaluation == "loss":
                    functional.binary_cross_entropy_with_logits(logits, solved[held])
                ((logits > 0).float() == solved[held]).float().mean()
    model.eval()
    with torch.no_grad():
        found = model(pupil[test], exercise[test]).sigmoid()
    if fault == "sigmoid twice":
        found = found.sigmoid()
    return explained(found, chance[test])


CASES = cases(
    "exercise answers",
    train,
    {
        "plain": {},
        "loss times 1000": {"scale": 1e3},
        "sum of a batch": {"reduction": "sum"},
        "tables first, the network later": {"network_from": 500},
        "accumulated, accuracy only": {"accumulate": 4, "batch": 64, "evaluation": "accuracy"},
        "smoothed labels, warmed up": {"smoothing": 0.02, "schedule": "warmup"},
        "dropout, no evaluation": {"evaluation": "", "dropout": 0.1},
    },
    {
        "tables without an optimizer": (
            "unbound no-skill slow", {"fault": "tables without an optimizer"}
        ),
        "answers moved by a row": (
            "no-skill overfit", {"fault": "answers moved by a row"}
        ),
        "an exercise's number for the pupil's": (
            "no-skill slow leak inputs", {"fault": "an exercise's number for the pupil's"}
        ),
        "sigmoid twice": ("probabilities", {"fault": "sigmoid twice"}),
        "few answers": ("overfit", {"count": 1500}),
        "tables of a large deviation": (
            "overfit saturated worse dead", {"deviation": 3.0}
        ),
    },
)  # fmt: skip
