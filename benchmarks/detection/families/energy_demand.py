"""A temporal convolution net forecasts the demand of meters, 1, 6 and 24 hours ahead."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.detection.case import cases

METERS, HOURS, WINDOW = 12, 1400, 48
AHEAD = (1, 6, 24)
HELD_FROM = 1000


def demand(seed: int) -> tuple[Tensor, Tensor]:
    """The demand in kW, (METERS, HOURS), and what is known of each hour, (METERS, 3, HOURS)."""
    noise = np.random.default_rng(seed)
    hour = np.arange(HOURS)
    warm = 8 * np.sin(2 * np.pi * hour / 700) + np.cumsum(noise.normal(0, 0.3, HOURS))
    level = noise.uniform(60, 400, (METERS, 1))
    phase = noise.uniform(-2, 2, (METERS, 1))
    day = 0.35 * np.sin(2 * np.pi * (hour - phase) / 24) + 0.15 * np.sin(4 * np.pi * hour / 24)
    free = 0.25 * (hour // 24 % 7 >= 5)
    drift = np.zeros((METERS, HOURS))
    for t in range(1, HOURS):
        drift[:, t] = 0.9 * drift[:, t - 1] + noise.normal(0, 0.03, METERS)
    load = level * (1 + day - free - 0.01 * warm + drift)
    clock = np.stack([warm / 8, np.sin(2 * np.pi * hour / 24), np.cos(2 * np.pi * hour / 24)])
    known = np.broadcast_to(clock, (METERS, 3, HOURS)).copy()
    return torch.tensor(load, dtype=torch.float32), torch.tensor(known, dtype=torch.float32)


class Windows(Dataset):
    """Windows of scaled demand and what is known, with the demand at each horizon."""

    def __init__(self, load: Tensor, known: Tensor, first: int, last: int, late: int = 0) -> None:
        self.load, self.known, self.late = load, known, late
        self.places = [(m, t) for m in range(len(load)) for t in range(first, last, 2)]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        meter, t = self.places[row]
        past = self.load[meter, t - WINDOW : t]
        x = torch.cat([past[None], self.known[meter, :, t - WINDOW : t]])
        target = self.load[(meter + self.late) % METERS if self.late else meter]
        return x, target[[t - 1 + h + self.late for h in AHEAD]]


class Block(nn.Module):
    def __init__(self, inputs: int, width: int, dilation: int) -> None:
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(inputs, width, 3, dilation=dilation)
        self.skip = nn.Conv1d(inputs, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.conv(F.pad(x, (self.pad, 0))) + self.skip(x))


class Tcn(nn.Module):
    def __init__(self, width: int = 16, outputs: int = 3) -> None:
        super().__init__()
        sizes = [4, width, width, width]
        self.blocks = nn.Sequential(*(Block(sizes[i], width, d) for i, d in enumerate((1, 4, 12))))
        self.head = nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(self.blocks(x)[:, :, -1])
        return y


def pinball(prediction: Tensor, y: Tensor, q: float = 0.5) -> Tensor:
    error = y - prediction
    return torch.maximum(q * error, (q - 1) * error).mean()


def loss_of(kind: str, prediction: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    if kind == "mae":
        return ((prediction - y).abs() * weights).mean()
    if kind == "pinball":
        return pinball(prediction, y)
    if kind == "pinball upside down":
        error = y - prediction
        return torch.minimum(0.5 * error, -0.5 * error).mean()
    if kind == "column":
        return torch.stack(
            [(prediction[:, k] - y[:, k : k + 1]).abs().mean() for k in range(3)]
        ).mean()
    if kind == "item":
        return torch.tensor((prediction - y).abs().mean().item(), requires_grad=True)
    if kind == "huber":
        return F.huber_loss(prediction, y)
    return ((prediction - y) ** 2).mean()


def train(
    seed: int, hook: Any, rate: float = 3e-3, epochs: int = 4, batch: int = 32, loss: str = "mae",
    schedule: str = "", unit: float = 1.0, factor: float = 1.0,
    weights: tuple[float, ...] = (1.0, 1.0, 1.0), accumulate: int = 1, ema: bool = False,
    half: bool = False, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    kilowatts, known = demand(seed + 700)
    # Scaled per meter, by its history alone.
    mean = kilowatts[:, :HELD_FROM].mean(1, keepdim=True)
    std = kilowatts[:, :HELD_FROM].std(1, keepdim=True)
    load = (kilowatts - mean) / std * unit
    fitted = load.clone()
    if fault == "gaps in the meters":
        fitted[torch.rand(fitted.shape) < 2e-4] = float("nan")
    last = WINDOW + 6 if fault == "few hours" else HELD_FROM - 24
    late = 5 if fault == "another meter's target" else 0
    train_set = Windows(fitted, known, WINDOW, last, late)
    shifted = (kilowatts - kilowatts.amin(1, keepdim=True)) / mean * 10
    test_set = Windows(
        shifted if fault == "other scaler" else load, known, HELD_FROM + WINDOW, HELD_FROM + 240
    )
    loader = DataLoader(train_set, batch, shuffle=True, drop_last=len(train_set) > batch)
    test_loader = DataLoader(test_set, 600)
    model = Tcn()
    if fault == "relu on outputs":
        model.head = nn.Sequential(model.head, nn.ReLU())
    opt = torch.optim.Adam(model.parameters(), rate)
    if fault == "model made again":
        model = Tcn()
    steps = epochs * len(loader)
    plan: Any = None
    if schedule == "one cycle":
        plan = torch.optim.lr_scheduler.OneCycleLR(opt, 3 * rate, total_steps=steps + 1)
    elif schedule:
        plan = torch.optim.lr_scheduler.StepLR(opt, 1, 0.6)
    average = copy.deepcopy(model) if ema else model
    horizon_weights = torch.tensor(weights)
    hook.torch(model)
    for _epoch in range(epochs):
        model.train()
        for number, (x, y) in enumerate(loader):
            if fault != "no zero_grad" and number % accumulate == 0:
                opt.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                prediction = model(x)
            value = loss_of(loss, prediction.float(), y, horizon_weights) * factor
            (value / accumulate).backward()
            if number % accumulate == accumulate - 1:
                opt.step()
            if plan and schedule != "epochs":
                plan.step()
            if ema:
                for kept, p in zip(average.parameters(), model.parameters(), strict=True):
                    kept.data.lerp_(p.data, 0.02)
        if plan and schedule == "epochs":
            plan.step()
        model.eval()
        with torch.no_grad():
            for x, y in test_loader:
                loss_of(loss, model(x), y, horizon_weights)
    average.eval()
    with torch.no_grad():
        pairs = [(average(x), y) for x, y in test_loader]
    prediction, y = (torch.cat(part).numpy() for part in zip(*pairs, strict=True))
    if not np.isfinite(prediction).all():
        return math.nan
    if fault == "other scaler":  # the script believes in the scale that it was fitted with
        y = np.concatenate([b.numpy() for _, b in DataLoader(
            Windows(load, known, HELD_FROM + WINDOW, HELD_FROM + 240), 600)])  # fmt: skip
    each = y.reshape(METERS, -1, len(AHEAD))
    naive = np.abs(each - np.median(each, axis=1, keepdims=True)).mean((0, 1))
    return float((1 - np.abs(prediction - y).mean(0) / naive).mean())


CASES = cases(
    "energy demand",
    train,
    {
        "plain": {},
        "pinball": {"loss": "pinball"},
        "huber and one cycle": {"loss": "huber", "schedule": "one cycle"},
        "near horizons count more": {"weights": (1.5, 1.0, 0.7)},
        "batch of 512": {"batch": 512, "rate": 1e-2, "epochs": 14},
        "batch of four": {"batch": 4, "rate": 8e-4, "epochs": 1},
        "targets in other units": {"unit": 10.0, "rate": 6e-3},
        "loss times 10000": {"factor": 1e4},
        "ema": {"ema": True},
        "bfloat16": {"half": True},
        "decayed by epoch": {"schedule": "epochs", "rate": 5e-3},
        "accumulation": {"batch": 8, "accumulate": 4, "epochs": 3},
    },
    {
        "prediction against a column": ("broadcast no-skill", {"loss": "column"}),
        "loss.item() made a tensor": ("no-gradient unbound", {"loss": "item"}),
        "pinball upside down": ("worse no-skill", {"loss": "pinball upside down"}),
        "gaps in the meters": ("not-finite", {"fault": "gaps in the meters"}),
        "another meter's target": ("no-skill inputs", {"fault": "another meter's target"}),
        "scaled otherwise in the test": ("inputs", {"fault": "other scaler"}),
        "relu on outputs": ("dead range no-gradient", {"fault": "relu on outputs"}),
        "model made again": ("unbound", {"fault": "model made again"}),
        "no zero_grad": ("kept-gradients", {"fault": "no zero_grad", "rate": 1e-2}),
        "few hours of history": ("overfit", {"fault": "few hours", "epochs": 150}),
        "schedule stepped by batch": ("schedule slow", {"schedule": "steps", "rate": 1e-3}),
        "rate x 300": ("fast no-skill dead", {"rate": 1.0}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
    },
)  # fmt: skip
