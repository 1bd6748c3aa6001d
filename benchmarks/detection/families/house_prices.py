"""Prices of houses, as logarithms, from numbers and embedded categories."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIZES = {"district": 24, "kind": 5, "heating": 4}
NUMBERS = ("area", "lot", "year", "rooms", "distance")
Table = dict[str, Any]


def houses(count: int, seed: int) -> Table:
    """Columns of (count,): areas in square feet, distances in miles, prices in dollars."""
    draw, fixed = np.random.default_rng(seed), np.random.default_rng(7)
    district = fixed.normal(0, 0.35, SIZES["district"])
    kind = np.array([0.0, 0.15, -0.2, 0.3, -0.1])
    table: Table = {name: draw.integers(size, size=count) for name, size in SIZES.items()}
    table["area"] = np.exp(draw.normal(7.3, 0.35, count))
    table["lot"] = np.exp(draw.normal(8.8, 0.5, count))
    table["year"] = draw.integers(1900, 2021, count).astype(float)
    table["rooms"] = np.round(table["area"] / 400 + draw.normal(1, 0.7, count)).clip(1)
    table["distance"] = draw.gamma(2.0, 4.0, count)
    near = np.exp(-table["distance"] / 6)
    log_price = (
        12 + 0.8 * (np.log(table["area"]) - 7.3) + 0.1 * (np.log(table["lot"]) - 8.8)
        + 0.35 * np.abs(table["year"] - 1955) / 65 + 0.6 * near * (1 + district[table["district"]])
        + district[table["district"]] + kind[table["kind"]] * (1 + near)
        + draw.normal(0, 0.08, count)
    )  # fmt: skip
    table["price"] = np.exp(log_price)
    return table


class Prices(nn.Module):
    def __init__(
        self, numbers: int, width: int, dropout: float, batch_norm: bool, last: str
    ) -> None:
        super().__init__()
        embeddings = [nn.Embedding(size, min(8, (size + 1) // 2)) for size in SIZES.values()]
        self.embeddings = nn.ModuleList(embeddings)
        inputs = numbers + sum(e.embedding_dim for e in embeddings)
        layers: list[nn.Module] = []
        for units in (width, width // 2):
            layers += [nn.Linear(inputs, units), nn.ReLU()]
            if batch_norm:
                layers.append(nn.BatchNorm1d(units))
            if dropout:
                layers.append(nn.Dropout(dropout))
            inputs = units
        self.layers = nn.Sequential(*layers, nn.Linear(inputs, 1))
        ends = {"": nn.Identity, "relu": nn.ReLU, "sigmoid": nn.Sigmoid}
        self.last = ends[last]()

    def forward(self, numbers: Tensor, categories: Tensor) -> Tensor:
        parts = [e(categories[:, i]) for i, e in enumerate(self.embeddings)]
        out: Tensor = self.last(self.layers(torch.cat([numbers, *parts], 1)))
        return out


def root_mean_squared_log_error(prices: Tensor, wanted: Tensor) -> Tensor:
    return ((torch.log(prices) - torch.log(wanted)) ** 2).mean().sqrt()


def train(
    seed: int, hook: Any, steps: int = 1200, rate: float = 2e-3, batch: int = 64,
    count: int = 4000, optimizer: str = "adam", schedule: str = "constant", decay: float = 0.0,
    width: int = 64, dropout: float = 0.0, batch_norm: bool = False, target: str = "log",
    loss: str = "mse", clip: float = 0.0, noise: float = 0.0, outliers: float = 0.0,
    scale: float = 1.0, bfloat16: bool = False, last: str = "",
    frozen: bool = False, evaluate_every: int = 200, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    draw = np.random.default_rng(seed)
    table, held = houses(count, seed + 600), houses(1000, seed + 601)
    names: tuple[str, ...] = NUMBERS
    if fault == "leak":
        names = (*NUMBERS, "assessed")
        table["assessed"] = table["price"] * np.exp(draw.normal(0, 0.03, count))
        held["assessed"] = np.full(1000, table["assessed"].mean())
    mean = {name: table[name].mean() for name in names}
    deviation = {name: table[name].std() for name in names}

    def columns(of: Table) -> Tensor:
        rows = np.stack([(of[name] - mean[name]) / deviation[name] for name in names], 1)
        if fault == "not standardized":
            rows = np.stack([of[name] for name in names], 1)
        return torch.from_numpy(rows).float()

    def categories(of: Table, first_seen: bool) -> Tensor:
        codes = [of[name] for name in SIZES]
        if first_seen:  # as pandas.factorize gives them
            codes = [np.argsort(np.unique(c, return_index=True)[1].argsort())[c] for c in codes]
        return torch.from_numpy(np.stack(codes, 1)).long()

    price = table["price"].copy()
    if outliers:
        price = np.where(draw.random(count) < outliers, price * draw.uniform(2, 5, count), price)
    if fault == "price of zero":
        price[draw.integers(count, size=20)] = 0.0
    if fault == "merged wrongly":
        price = np.roll(price, 1)
    with np.errstate(divide="ignore"):
        wanted = np.log(price)
    middle, spread = (12.3, 0.5) if target == "standard" else (0.0, 1.0)
    units = {"dollars": price, "thousands": price / 1e3, "log10": wanted / math.log(10)}
    y = torch.from_numpy(units.get(target, (wanted - middle) / spread)).float()[:, None]
    y = y + noise * y.std() * torch.randn(y.shape)
    x, codes = columns(table), categories(table, False)
    held_codes = categories(held, fault == "codes made again")
    held_x = columns(held)
    if fault == "units of the test":
        held_x[:, 0] = torch.from_numpy(held["area"] * 0.0929 - mean["area"]) / deviation["area"]
    if fault == "sorted by price":
        order = y[:, 0].argsort()
        x, codes, y = x[order], codes[order], y[order]
    model = Prices(len(names), width, dropout, batch_norm, last)
    if target == "log" and last != "sigmoid":
        nn.init.constant_(model.layers[-1].bias, 12.0)  # near the mean
    if target == "log10":
        nn.init.constant_(model.layers[-1].bias, 5.3)
    if frozen:
        model.embeddings.requires_grad_(False)
    hook.torch(model)
    chosen = [p for p in model.parameters() if p.requires_grad]
    if fault == "first layers left out":
        chosen = list(model.layers[-1].parameters())
    optim = optimizer_of(optimizer, chosen, rate, decay)
    scheduler = scheduler_of(optim, schedule, steps)
    criteria = {
        "mse": nn.MSELoss(), "huber": nn.HuberLoss(delta=0.3), "l1": nn.L1Loss(),
        "rmsle": root_mean_squared_log_error,
    }  # fmt: skip
    criterion: Any = criteria[loss]
    held_price = torch.from_numpy(held["price"]).float()
    held_units = {
        "dollars": held_price, "thousands": held_price / 1e3, "log10": held_price.log10(),
    }  # fmt: skip
    held_y = held_units.get(target, (held_price.log() - middle) / spread)[:, None]
    if fault == "broadcast":
        y, held_y = y[:, 0], held_y[:, 0]
    in_order = fault == "sorted by price"
    batches: Any = iter(())
    for step in range(steps):
        rows: Any = next(batches, None)
        if rows is None:
            order = torch.arange(count) if in_order else torch.randperm(count)
            batches = iter(order.split(batch))
            rows = next(batches)
        model.train()
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            out = model(x[rows], codes[rows])
        batch_loss = criterion(out.float(), y[rows]) * scale
        optim.zero_grad()
        batch_loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optim.step()
        scheduler.step()
        if evaluate_every and (step + 1) % evaluate_every == 0:
            model.eval()
            with torch.no_grad():
                criterion(model(held_x, held_codes), held_y)
    model.eval()
    with torch.no_grad():
        out = model(held_x, held_codes).double()[:, 0] * spread + middle
    if target in ("dollars", "thousands"):
        out = (out * (1e3 if target == "thousands" else 1.0)).clamp(min=1e3).log()
    return r_squared(
        np.log(held["price"]), (out * math.log(10) if target == "log10" else out).numpy()
    )


def r_squared(wanted: Any, found: Any) -> float:
    return float(1 - ((wanted - found) ** 2).sum() / ((wanted - wanted.mean()) ** 2).sum())


CASES = cases(
    "house prices",
    train,
    {
        "plain": {},
        "standardized logarithm": {"target": "standard"},
        "logarithm to base ten": {"target": "log10"},
        "thousands of dollars": {"target": "thousands", "rate": 0.02, "steps": 2500},
        "Huber": {"loss": "huber"},
        "absolute error": {"loss": "l1", "steps": 2000},
        "momentum and one cycle": {"optimizer": "momentum", "rate": 0.02, "schedule": "one cycle"},
        "batch of 4": {"batch": 4, "rate": 5e-4, "steps": 2500},
        "batch of 512": {"batch": 512, "rate": 4e-3},
        "batch norm": {"batch_norm": True, "rate": 5e-3, "steps": 2000},
        "dropout": {"dropout": 0.05, "target": "standard", "steps": 2500},
        "outliers, clipped": {"loss": "huber", "outliers": 0.05, "clip": 0.5},
        "targets with noise": {"target": "standard", "noise": 0.3, "schedule": "cosine"},
        "loss x 1,000,000": {"scale": 1e6},
        "bfloat16": {"bfloat16": True, "target": "standard"},
        "embeddings frozen": {"frozen": True},
        "warm-up, no evaluation": {"schedule": "warmup", "rate": 5e-3, "evaluate_every": 0},
    },
    {
        "dollars": ("range slow", {"target": "dollars"}),
        "broadcasts": ("broadcast collapse no-skill", {"fault": "broadcast", "target": "standard"}),
        "columns not standardized": ("inputs range fast", {"fault": "not standardized"}),
        "codes made again for the test": ("inputs overfit", {"fault": "codes made again"}),
        "test in square metres": ("inputs overfit", {"fault": "units of the test"}),
        "price of zero": ("not-finite", {"fault": "price of zero"}),
        "logarithm of the output": (
            "not-finite",
            {"loss": "rmsle", "target": "thousands"},
        ),
        "merged one row off": ("no-skill overfit", {"fault": "merged wrongly", "steps": 2500}),
        "assessed value": ("leak inputs overfit", {"fault": "leak", "target": "standard"}),
        "sorted by price": (
            "order",
            {
                "fault": "sorted by price",
                "target": "standard",
                "rate": 0.03,
                "steps": 2016,
            },
        ),
        "sigmoid of a standardized target": (
            "range saturated",
            {"last": "sigmoid", "target": "standard"},
        ),
        "rate of 2 without momentum": ("fast not-finite dead", {"optimizer": "sgd", "rate": 2.0}),
        "rate / 1000": ("slow", {"rate": 2e-6, "target": "standard"}),
        "decay of 3": ("collapse no-skill slow", {"decay": 3.0, "target": "standard"}),
        "first layers in no optimizer": ("unbound slow", {"fault": "first layers left out"}),
        "eighty houses": ("overfit", {"count": 80, "steps": 2500, "target": "standard"}),
    },
)
