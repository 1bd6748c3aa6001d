"""How many people are in an office, none to three, from the sensors on its wall; a class Trainer.

Carbon dioxide, noise, light, warmth and movements are measured every ten minutes. The skill is the
mean recall of the four classes, above chance, on other days.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from benchmarks.detection.families.kit import balanced_skill, begin, normal
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

SENSORS, CLASSES = 7, 4
SHARES = torch.tensor([0.45, 0.25, 0.18, 0.12])


def measured(count: int, seed: int, wrong: float = 0.0) -> tuple[Tensor, Tensor]:
    """Readings in units of the sensors, and the number of people."""
    draw = torch.Generator().manual_seed(seed)
    people = torch.multinomial(SHARES, count, replacement=True, generator=draw)
    n, z = people.float(), normal(count, SENSORS, seed=seed + 50)
    window = (torch.rand(count, generator=draw) < 0.3).float()
    hour = 24 * torch.rand(count, generator=draw)
    daylight = 400 * (-((hour - 12.5) ** 2) / 12).exp()
    lamp = 300 * (n > 0).float() * (daylight < 150).float()
    readings = torch.stack(
        [
            430 + 190 * n * (1 - 0.6 * window) + 45 * z[:, 0],
            33 + 9 * torch.log2(1 + n) + 9 * window + 2.5 * z[:, 1],
            (daylight + lamp + 30 * z[:, 2]).clamp_min(0),
            21.5 + 0.4 * n - 2.5 * window + 0.7 * z[:, 3],
            (3 * n + 2 * n.sqrt() * z[:, 4]).clamp_min(0).round(),
            window,
            hour,
        ],
        1,
    )
    other = torch.randint(CLASSES, (count,), generator=draw)
    return readings, torch.where(torch.rand(count, generator=draw) < wrong, other, people)


def network(width: int, dropout: float, batch_norm: bool) -> nn.Sequential:
    first: list[nn.Module] = [nn.BatchNorm1d(SENSORS)] if batch_norm else []
    return nn.Sequential(
        *first, nn.Linear(SENSORS, width), nn.ReLU(), nn.Dropout(dropout),
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, CLASSES),
    )  # fmt: skip


@dataclass
class Settings:
    epochs: int = 30
    batch: int = 64
    rate: float = 2e-3
    optimizer: str = "adam"
    one_cycle: bool = False
    accumulate: int = 1
    averaged: bool = False
    validated: bool = True
    fault: str = ""


class Trainer:
    """Trains a model on readings, and validates it after each epoch."""

    def __init__(self, model: nn.Module, criterion: nn.Module, settings: Settings) -> None:
        self.model, self.criterion, self.settings = model, criterion, settings
        owner = copy.deepcopy(model) if settings.fault == "optimizer of a copy" else model
        if settings.optimizer == "sgd":
            self.optimizer: Any = torch.optim.SGD(owner.parameters(), settings.rate, momentum=0.9)
        else:
            self.optimizer = torch.optim.Adam(owner.parameters(), settings.rate)
        self.average = torch.optim.swa_utils.AveragedModel(
            model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99)
        )
        self.scheduler: Any = None

    def fit(self, training: TensorDataset, validation: TensorDataset) -> nn.Module:
        loader = DataLoader(training, self.settings.batch, shuffle=True, drop_last=True)
        if self.settings.one_cycle:
            self.scheduler = torch.optim.lr_scheduler.OneCycleLR(
                self.optimizer, self.settings.rate, len(loader) * self.settings.epochs
            )
        for _ in range(self.settings.epochs):
            self.model.train()
            self.train_epoch(loader)
            if self.settings.validated:
                self.validate(validation)
        return self.average.module if self.settings.averaged else self.model

    def train_epoch(self, loader: DataLoader[Any]) -> None:
        for number, (x, y) in enumerate(loader):
            loss = self.criterion(self.model(x), y)
            loss.backward()
            if (number + 1) % self.settings.accumulate == 0:
                self.optimizer.step()
                if self.settings.fault != "gradients kept":
                    self.optimizer.zero_grad()
                if self.settings.averaged:
                    self.average.update_parameters(self.model)
            if self.scheduler:
                self.scheduler.step()

    @torch.no_grad()
    def validate(self, validation: TensorDataset) -> tuple[float, float]:
        self.model.eval()
        total = right = 0.0
        for x, y in DataLoader(validation, 128):
            logits = self.model(x)
            total += self.criterion(logits, y).item() * len(y)
            right += (logits.argmax(1) == y).sum().item()
        return total / len(validation), right / len(validation)


def train(
    seed: int, hook: Any, count: int = 6400, wrong: float = 0.0, width: int = 64,
    dropout: float = 0.0, batch_norm: bool = False, weights: bool = False, smoothing: float = 0.0,
    reduction: str = "mean", fault: str = "", **settings: Any,
) -> float:  # fmt: skip
    begin(seed)
    x, y = measured(count, 5 * seed + 3100, wrong)
    (held_x, held_y), (test_x, test_y) = (measured(n, 5 * seed + n) for n in (600, 4000))
    if not batch_norm:
        mean, deviation = x.mean(0), x.std(0)
        x = (x - mean) / deviation
        if fault != "training alone normalised":
            held_x, test_x = (held_x - mean) / deviation, (test_x - mean) / deviation
    if fault == "readings sorted without labels":
        x = x[x[:, -1].argsort()]  # by the hour
    model = network(width, dropout, batch_norm)
    criterion = nn.CrossEntropyLoss(
        1 / (CLASSES * SHARES) if weights else None, reduction=reduction, label_smoothing=smoothing
    )
    trainer = Trainer(model, criterion, Settings(fault=fault, **settings))
    hook.torch(model)
    best = trainer.fit(TensorDataset(x, y), TensorDataset(held_x, held_y))
    best.eval()
    with torch.no_grad():
        return balanced_skill(best(test_x), test_y)


CASES = cases(
    "room occupancy",
    train,
    {
        "plain": {},
        "weights of classes": {"weights": True},
        "labels smoothed, dropout": {"smoothing": 0.1, "dropout": 0.2},
        "large batches, one cycle, momentum": {
            "batch": 256, "optimizer": "sgd", "rate": 0.2, "one_cycle": True, "epochs": 50,
        },
        "sum of losses, averaged weights": {"reduction": "sum", "averaged": True},
        "eight readings, accumulated, no validation": {
            "batch": 8, "accumulate": 4, "validated": False, "epochs": 6, "rate": 1e-3,
        },
        "batch norm of raw readings": {"batch_norm": True},
    },
    {
        "training alone normalised": ("inputs worse", {"fault": "training alone normalised"}),
        "readings sorted without labels": (
            "no-skill overfit",
            {"fault": "readings sorted without labels"},
        ),
        "gradients kept": ("kept-gradients fast", {"fault": "gradients kept"}),
        "optimizer of a copy": ("unbound no-skill", {"fault": "optimizer of a copy"}),
        "rate of one": ("fast dead no-skill", {"rate": 1.0}),
        "tiny steps of SGD": ("slow no-skill", {"optimizer": "sgd", "rate": 1e-5}),
        "a hundred readings, noted carelessly": (
            "overfit", {"count": 100, "wrong": 0.4, "batch": 16, "epochs": 200},
        ),
    },
)  # fmt: skip
