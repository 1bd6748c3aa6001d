"""Glucose of the next hours by temporal convolutions: four horizons, missing values masked.

Sensors give a value every 10 minutes, with gaps; meals and insulin are written down, and planned
for the next two hours. From six hours the model says how the glucose will have changed in 30, 60,
90 and 120 minutes. What a gap hides has no part in the loss. The skill is the share of variance
explained in persons of a third group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.detection.case import cases

PAST, HORIZONS = 36, torch.tensor([3, 6, 9, 12])


@dataclass(frozen=True)
class Records:
    """Glucose in mg/dl (P, T), whether it was measured (P, T), and meals and insulin (P, T, 2)."""

    glucose: Tensor
    measured: Tensor
    taken: Tensor


def persons(count: int, seed: int, days: int = 4) -> Records:
    draw = torch.Generator().manual_seed(seed)
    hours = 144 * days
    grams = (torch.rand(count, hours, generator=draw) < 0.03) * (
        30 + 60 * torch.rand(count, hours, generator=draw)
    )
    doses = grams / 10 * (0.4 + 1.0 * torch.rand(count, hours, generator=draw))
    sensitive = 0.7 + 0.6 * torch.rand(count, generator=draw)
    level, gut, active = torch.full((count,), 130.0), torch.zeros(count), torch.zeros(count)
    trend, found = torch.zeros(count), []
    for step in range(hours):
        gut, active = gut * 0.85 + grams[:, step], active * 0.9 + doses[:, step]
        trend = 0.8 * trend + 0.15 * torch.randn(count, generator=draw)
        change = 0.35 * gut * 0.15 - 2.4 * active * 0.1 * sensitive + trend
        level = (level + change + 0.03 * (130 - level)).clamp(40, 400)
        found.append(level)
    starts = torch.rand(count, hours, generator=draw) < 0.02
    gap = torch.nn.functional.max_pool1d(starts.float()[:, None], 7, 1, 3)[:, 0] > 0
    taken = torch.stack([grams / 50, doses / 5], 2)
    return Records(torch.stack(found, 1), ~gap, taken)


class Windows(Dataset[dict[str, Tensor]]):
    def __init__(self, records: Records, fault: str = "", unit: float = 50.0) -> None:
        self.records, self.fault, self.unit = records, fault, unit
        length = records.glucose.shape[1] - 12
        self.rows = [
            self.window(person, now)
            for person in range(len(records.glucose))
            for now in range(PAST, length, 4)
            if bool(records.measured[person, now])
        ]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        return self.rows[row]

    def window(self, person: int, now: int) -> dict[str, Tensor]:
        glucose, measured = self.records.glucose[person], self.records.measured[person]
        past = slice(now - PAST + 1, now + 1)
        filled = torch.where(measured[past], glucose[past], 140.0)
        if self.fault == "unknown is not a number":
            filled = torch.where(measured[past], glucose[past], torch.nan)
        planned = slice(past.start + 12, past.stop + 12)
        columns = [
            (filled - 140) / 50,
            measured[past].float(),
            *self.records.taken[person, planned].T,
        ]
        change = (glucose[now + HORIZONS] - glucose[now]) / self.unit
        there = measured[now + HORIZONS].float()
        if self.fault == "mark of gaps as a value":  # the mark of a gap is taken as a value
            change = torch.where(there > 0, change, (-999.0 - glucose[now]) / self.unit)
            there = torch.ones_like(there)
        if self.fault == "mask the wrong way":
            there = 1 - there
            change = change * (1 - there)
        return {"past": torch.stack(columns), "change": change, "there": there}


class Causal(nn.Module):
    def __init__(
        self, inputs: int, outputs: int, dilation: int, dropout: float, norm: bool
    ) -> None:
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(inputs, outputs, 3, dilation=dilation)
        self.norm = nn.BatchNorm1d(outputs) if norm else nn.Identity()
        self.drop = nn.Dropout(dropout)
        self.skip = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.drop(torch.relu(self.norm(self.conv(nn.functional.pad(x, (self.pad, 0))))))
        return y + self.skip(x)


class Forecaster(nn.Module):
    def __init__(self, dropout: float = 0.0, norm: bool = False, end: str = "") -> None:
        super().__init__()
        sizes = (4, 20, 20, 20)
        self.layers = nn.Sequential(
            *(Causal(sizes[i], sizes[i + 1], 3**i, dropout, norm) for i in range(3))
        )
        self.head = nn.Linear(20, len(HORIZONS))
        self.end = nn.Sigmoid() if end == "sigmoid" else nn.Identity()

    def forward(self, past: Tensor) -> Tensor:
        found: Tensor = self.end(self.head(self.layers(past)[:, :, -1]))
        return found


def masked(found: Tensor, rows: dict[str, Tensor], kind: str) -> Tensor:
    off = found - rows["change"]
    if kind == "absolute":
        each = off.abs()
    elif kind == "huber":
        each = torch.where(off.abs() < 0.3, off.square() / 0.6, off.abs() - 0.15)
    elif kind == "late hours weigh more":
        each = off.square() * torch.tensor([0.5, 0.8, 1.2, 1.5])
    else:
        each = off.square()
    return (each * rows["there"]).sum() / rows["there"].sum().clamp(min=1)


def train(
    seed: int, hook: Any, steps: int = 2000, rate: float = 2e-3, batch: int = 32,
    loss: str = "squares", one_cycle: bool = False, unit: float = 50.0,
    people: int = 24, evaluate_every: int = 200, fault: str = "", **shape: Any,
) -> float:  # fmt: skip
    begin(seed)
    data, held = Windows(persons(people, seed + 9600), fault, unit), persons(4, seed + 9601)
    test = Windows(persons(10, seed + 9602), unit=unit)
    model = Forecaster(**shape)
    hook.torch(model)
    updates: Any = torch.optim.Adam(model.parameters(), rate)
    scheduler: Any = None
    if one_cycle:
        scheduler = torch.optim.lr_scheduler.OneCycleLR(updates, rate, total_steps=steps)
    validation = next(iter(DataLoader(Windows(held, unit=unit), 256)))
    loader = DataLoader(data, batch, shuffle=fault != "persons in order", drop_last=True)
    step = 0
    while step < steps:
        for rows in loader:
            value = masked(model(rows["past"]), rows, loss)
            updates.zero_grad()
            value.backward()
            updates.step()
            if scheduler:
                scheduler.step()
            step += 1
            if evaluate_every and step % evaluate_every == 0:
                model.eval()
                with torch.no_grad():
                    masked(model(validation["past"]), validation, loss)
                model.train()
            if step == steps:
                break
    model.eval()
    rows = next(iter(DataLoader(test, len(test))))
    with torch.no_grad():
        found = model(rows["past"])
    there, change = rows["there"] > 0, rows["change"]
    left: Tensor = (found - change)[there].square().mean() / change[there].var(unbiased=False)
    return 1 - float(left)


CASES = cases(
    "glucose hours",
    train,
    {
        "plain": {},
        "Huber": {"loss": "huber"},
        "one cycle": {"one_cycle": True, "rate": 6e-3},
        "absolute differences": {"loss": "absolute", "steps": 2500},
        "late hours weigh more": {"loss": "late hours weigh more"},
        "changes in mg/dl": {"unit": 1.0, "rate": 5e-3, "steps": 2500},
    },
    {
        "unknown is not a number": ("not-finite", {"fault": "unknown is not a number"}),
        "mark of gaps as a value": (
            "range no-skill worse inputs", {"fault": "mark of gaps as a value"},
        ),
        "mask the wrong way": ("ignored no-skill collapse", {"fault": "mask the wrong way"}),
        "sigmoid at the end": ("range saturated no-skill", {"end": "sigmoid"}),
        "one person": ("overfit", {"people": 1}),
        "dropout of 0.9": ("mode slow no-skill", {"dropout": 0.9}),
    },
)  # fmt: skip
