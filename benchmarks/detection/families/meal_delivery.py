"""Minutes until a meal is delivered, from embedded categories and numbers, by a class Trainer.

The network is that of many tabular libraries: embeddings with dropout beside normalised numbers,
then blocks of a linear layer, ReLU and batch norm. The target is standardised. The skill is the
share of the variance of the minutes that is explained, of later orders.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, explained, normal
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

# restaurant, zone of the town, vehicle, weather, weekday
KINDS = (40, 12, 4, 5, 7)
NUMBERS = 6  # metres, dishes, hour, degrees, orders that wait, the courier's rating
SPEED = torch.tensor([0.75, 1.0, 1.35, 1.15])


def orders(count: int, seed: int, noise: float) -> tuple[Tensor, Tensor, Tensor]:
    """Codes of the categories, numbers in their own units, and minutes."""
    draw = torch.Generator().manual_seed(seed)
    codes = torch.stack([torch.randint(k, (count,), generator=draw) for k in KINDS], 1)
    share = torch.rand(count, 4, generator=draw)
    metres, dishes = 500 + 6000 * share[:, 0] ** 1.5, (1 + 9 * share[:, 1]).floor()
    hour, waiting = 10 + 13 * share[:, 2], (25 * share[:, 3] ** 2).floor()
    degrees, rating = (
        12 + 9 * normal(count, seed=seed + 1),
        4.4 + 0.3 * normal(count, seed=seed + 2),
    )
    kitchen, zone = 12 + 6 * normal(KINDS[0], seed=7), 1 + 0.25 * normal(KINDS[1], seed=8).tanh()
    storm = torch.tensor([1.0, 1.05, 1.2, 1.5, 1.8])[codes[:, 3]]
    rush = 1 + 0.4 * torch.exp(-(((hour - 19) / 1.5) ** 2)) * (codes[:, 4] >= 4)
    ride = metres / 350 * zone[codes[:, 1]] * storm / SPEED[codes[:, 2]]
    cook = kitchen[codes[:, 0]].clamp(min=3) + 1.2 * dishes + 0.6 * waiting
    minutes = (ride * rush + cook - 4 * (rating - 4.4)) * (1 + noise * normal(count, seed=seed + 3))
    return codes, torch.stack([metres, dishes, hour, degrees, waiting, rating], 1), minutes


class TabularModel(nn.Module):
    """Embeddings and numbers side by side, then a perceptron with batch norm."""

    def __init__(self, sizes: tuple[int, ...], dropout: float, unknown: float) -> None:
        super().__init__()
        self.embeds = nn.ModuleList(nn.Embedding(k + 1, min(10, (k + 2) // 2)) for k in sizes)
        wide = sum(embed.embedding_dim for embed in self.embeds) + NUMBERS
        self.drop, self.unknown = nn.Dropout(dropout), unknown
        self.layers = nn.Sequential(
            nn.Linear(wide, 64), nn.ReLU(), nn.BatchNorm1d(64),
            nn.Linear(64, 32), nn.ReLU(), nn.BatchNorm1d(32),
        )  # fmt: skip
        self.head = nn.Linear(32, 1)

    def forward(self, codes: Tensor, numbers: Tensor) -> Tensor:
        codes = codes + 1  # 0 stands for a category that was never seen
        if self.training and self.unknown:
            codes = codes.masked_fill(torch.rand(codes.shape) < self.unknown, 0)
        parts = [embed(codes[:, i]) for i, embed in enumerate(self.embeds)]
        out: Tensor = self.head(
            self.layers(torch.cat([self.drop(torch.cat(parts, 1)), numbers], 1))
        )
        return out


class Trainer:
    """Trains and evaluates; ``fault`` names the mistake, if there is one."""

    def __init__(self, model: TabularModel, how: dict[str, Any], steps: int) -> None:
        self.model, self.how, self.fault = model, how, how["fault"]
        self.average = copy.deepcopy(model) if how["ema"] else None
        rate, named = how["rate"], list(model.named_parameters())
        tables = [p for name, p in named if "embeds" in name]
        rest = [p for name, p in named if "embeds" not in name]
        groups = [{"params": tables, "weight_decay": 0.0}, {"params": rest}]
        if self.fault == "group of layers forgotten":
            groups = groups[:1]
        if how["optimizer"] == "momentum":
            self.optimizer: Any = torch.optim.SGD(groups, rate, momentum=0.9)
        else:
            self.optimizer = torch.optim.AdamW(groups, rate, weight_decay=how["decay"])
        self.scheduler: Any = None
        if how["one_cycle"]:
            self.scheduler = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, rate, steps)
        elif self.fault == "scheduler of epochs stepped by batch":
            self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 3, 0.7)

    def loss(self, codes: Tensor, numbers: Tensor, y: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.how["bfloat16"]):
            out = self.model(codes, numbers)
        out = out.float()
        if self.fault == "relu at the end":
            out = out.relu()
        if self.fault != "column against row":
            out = out.squeeze(1)
        if self.how["huber"]:
            return nn.functional.smooth_l1_loss(out, y, reduction=self.how["reduction"])
        return ((out - y) ** 2).sum() if self.how["reduction"] == "sum" else ((out - y) ** 2).mean()

    def train_epoch(self, loader: DataLoader[Any]) -> None:
        self.model.train()
        every = self.how["accumulate"]
        for number, batch in enumerate(loader):
            (self.loss(*batch) / every).backward()
            if number % every != every - 1:
                continue
            if self.how["clip"]:
                nn.utils.clip_grad_norm_(self.model.parameters(), self.how["clip"])
            self.optimizer.step()
            self.optimizer.zero_grad()
            if self.scheduler is not None:
                self.scheduler.step()
            if self.average is not None:
                with torch.no_grad():
                    for old, new in zip(
                        self.average.state_dict().values(), self.model.state_dict().values(),
                        strict=True,
                    ):  # fmt: skip
                        old.lerp_(new, 0.02) if old.is_floating_point() else old.copy_(new)

    @torch.no_grad()
    def evaluate(self, data: tuple[Tensor, Tensor, Tensor]) -> float:
        self.model.eval()
        return self.loss(*data).item() / (len(data[2]) if self.how["reduction"] == "sum" else 1)

    @torch.no_grad()
    def predict(self, codes: Tensor, numbers: Tensor) -> Tensor:
        model = (self.average or self.model).eval()
        out: Tensor = model(codes, numbers)[:, 0]
        return out.relu() if self.fault == "relu at the end" else out


def train(
    seed: int, hook: Any, fault: str = "", epochs: int = 30, batch: int = 64, count: int = 5000,
    noise: float = 0.08, dropout: float = 0.04, unknown: float = 0.0, evaluated: bool = True,
    **options: Any,
) -> float:  # fmt: skip
    begin(seed)
    how: dict[str, Any] = {
        "rate": 2e-3, "optimizer": "adamw", "decay": 1e-2, "accumulate": 1, "clip": None,
        "ema": False, "bfloat16": False, "huber": False, "reduction": "mean", "one_cycle": False,
        "fault": fault, **options,
    }  # fmt: skip
    codes, numbers, minutes = orders(count, 10 * seed + 1000, noise)
    held, test = orders(1000, 10 * seed + 2004, 0.08), orders(2000, 10 * seed + 3008, 0.08)
    middle, spread = numbers.mean(0), numbers.std(0)
    mean, deviation = minutes.mean(), minutes.std()

    def prepared(part: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        kinds, x, y = part
        if fault == "categories renumbered":  # in the order in which they come, not as in training
            kinds = torch.stack(
                [torch.randperm(k)[c] for k, c in zip(KINDS, kinds.T, strict=True)], 1
            )
        return kinds, (x - middle) / spread, (y - mean) / deviation

    y = (minutes - mean) / deviation
    held, test = prepared(held), prepared(test)
    loader = DataLoader(
        TensorDataset(codes, (numbers - middle) / spread, y), batch, shuffle=True, drop_last=True
    )
    model = TabularModel(KINDS, dropout, unknown)
    hook.torch(model)
    trainer = Trainer(model, how, epochs * len(loader) // how["accumulate"] + 1)
    for _ in range(epochs):
        trainer.train_epoch(loader)
        if evaluated:
            trainer.evaluate(held)
    found = trainer.predict(*test[:2])
    return explained(found, test[2]) if bool(found.isfinite().all()) else math.nan


CASES = cases(
    "meal delivery",
    train,
    {
        "plain": {},
        "one cycle, large batches": {"one_cycle": True, "batch": 256, "rate": 1e-2},
        "averaged weights": {"ema": True, "rate": 4e-3},
        "bfloat16 and clipping": {"bfloat16": True, "clip": 1.0},
        "huber sums of small batches": {
            "huber": True, "reduction": "sum", "batch": 16, "epochs": 10, "rate": 1e-3,
        },
        "unknown categories drawn": {"unknown": 0.05, "dropout": 0.0, "epochs": 40},
        "momentum, accumulated, late orders": {
            "optimizer": "momentum", "rate": 2e-2, "accumulate": 4, "noise": 0.1,
            "evaluated": False, "batch": 32,
        },
    },
    {
        "column against row": ("broadcast no-skill", {"fault": "column against row"}),
        "categories renumbered": ("inputs overfit worse", {"fault": "categories renumbered"}),
        "scheduler of epochs stepped by batch": (
            "slow schedule no-skill", {"fault": "scheduler of epochs stepped by batch"},
        ),
        "relu at the end": ("range dead", {"fault": "relu at the end"}),
        "group of layers forgotten": ("unbound slow", {"fault": "group of layers forgotten"}),
        "eighty orders": ("overfit", {"count": 80, "batch": 16, "epochs": 400}),
    },
)  # fmt: skip
