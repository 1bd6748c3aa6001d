"""A temporal convolutional network, or an LSTM, forecasts the load of each hour of tomorrow."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin
from sklearn.metrics import mean_absolute_error
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.detection.case import cases

PAST, AHEAD, DAYS, TRAINED_DAYS = 48, 24, 330, 240
COLUMNS = 6  # load, temperature, sine and cosine of the hour, weekend, holiday


def region(seed: int) -> Any:
    """Hours x columns: the load in kWh, the temperature in degrees, and the calendar."""
    draw, hours = np.random.default_rng(seed), np.arange(DAYS * 24)
    hour, day = hours % 24, hours // 24
    drift, activity = np.zeros(DAYS), np.zeros(DAYS)
    for d in range(1, DAYS):
        drift[d] = 0.8 * drift[d - 1] + 3.0 * draw.normal()
        activity[d] = 0.9 * activity[d - 1] + 0.4 * draw.normal()
    temperature = 11 + 4 * np.sin(2 * np.pi * day / 60) + 4 * np.sin(2 * np.pi * (hour - 9) / 24)
    temperature = temperature + np.interp(hours, 24 * np.arange(DAYS) + 12, drift)
    weekend, holiday = (day % 7 >= 5).astype(float), (draw.random(DAYS) < 0.04)[day].astype(float)
    profile = 3 * np.exp(-(((hour - 19) / 3) ** 2)) + 2 * np.exp(-(((hour - 8) / 2) ** 2))
    load = 12 + profile * (1 - 0.5 * weekend - 0.6 * holiday) - 1.5 * weekend - 2 * holiday
    load = load + 0.3 * np.maximum(0, 15 - temperature) + 0.5 * np.maximum(0, temperature - 20)
    load = 1000 * (load + activity[day] + 0.3 * draw.normal(size=len(hours)))
    turn = 2 * np.pi * hour / 24
    return np.column_stack([load, temperature, np.sin(turn), np.cos(turn), weekend, holiday])


class LoadWindows(Dataset):
    """Past hours (PAST, COLUMNS), the forecast weather and calendar of tomorrow, and its load."""

    def __init__(self, table: Any, every: int = 4, shift: int = 0, seen: int = 0) -> None:
        self.table = torch.tensor(table, dtype=torch.float32)
        self.starts = range(PAST, len(table) - AHEAD, every)
        self.shift, self.seen = shift, seen

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor, Tensor]:
        now = self.starts[row]
        known = self.table[now : now + AHEAD, 1:]
        target = self.table[now + self.shift : now + self.shift + AHEAD, 0]
        return self.table[now - PAST + self.seen : now + self.seen], known, target


class Block(nn.Module):
    """A causal dilated convolution with a way around it."""

    def __init__(self, width: int, dilation: int, activation: nn.Module, dropout: float) -> None:
        super().__init__()
        self.pad = 2 * dilation
        self.convolution = nn.Conv1d(width, width, 3, dilation=dilation)
        self.activation, self.dropout = activation, nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        there = self.convolution(F.pad(x, (self.pad, 0)))
        out: Tensor = x + self.dropout(self.activation(there))
        return out


class Forecaster(nn.Module):
    def __init__(self, kind: str, width: int = 16, dropout: float = 0.0, fault: str = "") -> None:
        super().__init__()
        self.kind, self.fault = kind, fault
        if kind == "lstm":
            self.lstm = nn.LSTM(COLUMNS, width, batch_first=True)
        else:
            activation = nn.GELU() if kind == "gelu" else nn.ReLU()
            self.entry = nn.Conv1d(COLUMNS, width, 1)
            self.blocks = nn.Sequential(
                *(Block(width, dilation, activation, dropout) for dilation in (1, 2, 4, 8))
            )
        self.tomorrow = nn.Linear(AHEAD * (COLUMNS - 1), width)
        self.head = nn.Sequential(nn.Linear(2 * width, 64), nn.ReLU(), nn.Linear(64, AHEAD))

    def forward(self, past: Tensor, known: Tensor) -> Tensor:
        if self.kind == "lstm":
            state = self.lstm(past)[0][:, -1]
        else:
            turned = past.transpose(1, 2)
            state = self.blocks(self.entry(turned))[:, :, -1]
        after = torch.relu(self.tomorrow(known.flatten(1)))
        out: Tensor = self.head(torch.cat([state, after], 1))
        if self.fault == "load cannot be negative":
            out = torch.relu(out)
        return out.unsqueeze(-1) if self.fault == "column for a row" else out


def prepared(table: Any, how: str, fault: str) -> tuple[Any, Any, Any, Any]:
    """Both parts scaled by the first one's statistics, and the centre and scale of the load."""
    train, test = table[: TRAINED_DAYS * 24].copy(), table[TRAINED_DAYS * 24 :].copy()
    centre, scale = np.nanmean(train[:, :2], 0), np.nanstd(train[:, :2], 0)
    if how == "MWh":
        centre, scale = np.zeros(2), np.array([1000.0, 10.0])
    if fault == "one scale for all columns":
        centre, scale = np.full(2, train.mean()), np.full(2, train.std() / 4)
        train[:, 2:], test[:, 2:] = ((part[:, 2:] - centre[0]) / scale[0] for part in (train, test))
    train[:, :2] = (train[:, :2] - centre) / scale
    if fault == "weather in Fahrenheit":
        test[:, 1] = test[:, 1] * 1.8 + 32
    test[:, :2] = (test[:, :2] - centre) / scale
    return train, test, centre[0], scale[0]


def criterion_of(loss: str) -> Any:
    return {
        "mse": nn.MSELoss(),
        "mae": nn.L1Loss(),
        "huber": nn.HuberLoss(),
        "mse x 1e4": lambda out, y: 1e4 * F.mse_loss(out, y),
        "mape": lambda out, y: ((out - y) / y).abs().mean(),
        "log cosh": lambda out, y: torch.log(torch.cosh(out - y)).mean(),
    }[loss]


def skill_of(model: nn.Module, tests: DataLoader, table: Any, centre: float, scale: float) -> float:
    """Squared error in kWh against the mean of each hour of the week."""
    model.eval()
    with torch.no_grad():
        found = torch.cat([model(past, known).reshape(-1, AHEAD) for past, known, _ in tests])
    found = (found.float().numpy() * scale + centre).astype(float)
    if not np.isfinite(found).all():
        return math.nan
    hours, known_load = np.arange(len(table)) % 168, table[: TRAINED_DAYS * 24, 0]
    of_week = np.array([known_load[hours[: len(known_load)] == h].mean() for h in range(168)])
    first = TRAINED_DAYS * 24
    at = [first + start + np.arange(AHEAD) for start in tests.dataset.starts]
    wanted = np.stack([table[rows, 0] for rows in at])
    usual = np.stack([of_week[hours[rows]] for rows in at])
    return float(1 - ((found - wanted) ** 2).mean() / ((usual - wanted) ** 2).mean())


def train(
    seed: int, hook: Any, kind: str = "tcn", epochs: int = 6, batch: int = 32, rate: float = 2e-3,
    loss: str = "mse", scaling: str = "standard", schedule: str = "", optimizer: str = "adam",
    decay: float = 0.0, dropout: float = 0.0, clip: float = 0.0, accumulate: int = 1,
    outliers: float = 0.0, averaged: bool = False, bfloat16: bool = False, nearest_first: int = 0,
    weeks: int = 0, every: int = 4, spread: float = 0.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    np.random.seed(seed)
    table = region(seed + 300)
    measured = table.copy()
    if outliers:  # a meter that sends nonsense
        rows = np.random.rand(len(table)) < outliers
        measured[: TRAINED_DAYS * 24][rows[: TRAINED_DAYS * 24], 0] *= 3
    if fault == "gaps in the weather":
        measured[: TRAINED_DAYS * 24][np.random.rand(TRAINED_DAYS * 24) < 0.002, 1] = np.nan
    if fault == "days in the order of file names":  # 0, 1, 10, 100, 101 …
        for place, day in enumerate(sorted(range(TRAINED_DAYS), key=str)):
            measured[24 * place : 24 * place + 24, 0] = table[24 * day : 24 * day + 24, 0]
    train_table, test_table, centre, scale = prepared(measured, scaling, fault)
    if fault == "outages":
        train_table[np.random.rand(len(train_table)) < 0.001, 0] = 0.0
    if weeks:
        train_table = train_table[: weeks * 168]
    windows = LoadWindows(
        train_table,
        every,
        shift=-9 if fault == "times of another zone" else 0,
        seen=AHEAD if fault == "past ends with tomorrow" else 0,
    )
    loader = DataLoader(windows, batch, shuffle=True, drop_last=True)
    tests = DataLoader(LoadWindows(test_table, 11), 256)
    model = Forecaster(kind, dropout=dropout, fault=fault)
    if spread:
        for parameter in model.parameters():
            nn.init.normal_(parameter, 0.0, spread)
    average = copy.deepcopy(model) if averaged else None
    hook.torch(model)
    criterion = criterion_of(loss)
    chosen = list(model.parameters())
    if fault == "head alone is optimised":
        chosen = list(model.head[-1].parameters())
    updates: Any = {
        "adam": lambda: torch.optim.Adam(chosen, rate, weight_decay=decay),
        "adamw": lambda: torch.optim.AdamW(chosen, rate, weight_decay=decay),
        "sgd": lambda: torch.optim.SGD(chosen, rate, momentum=0.9, nesterov=True),
        "rmsprop": lambda: torch.optim.RMSprop(chosen, rate),
    }[optimizer]()
    steps = len(loader) * epochs
    scheduler: Any = None
    if schedule == "one cycle":
        scheduler = torch.optim.lr_scheduler.OneCycleLR(updates, 3 * rate, total_steps=steps)
    if schedule == "restarts":
        scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(updates, steps // 4)
    if schedule == "step":  # meant for epochs
        scheduler = torch.optim.lr_scheduler.StepLR(updates, 2, 0.5)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(updates, patience=1, factor=0.3)
    best, kept = math.inf, None
    for epoch in range(epochs):
        model.train()
        for number, (past, known, target) in enumerate(loader):
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                forecast = model(past, known)
            if nearest_first and epoch < nearest_first:
                hours = AHEAD * (epoch + 1) // (nearest_first + 1)
                forecast, target = forecast[:, :hours], target[:, :hours]
            value = criterion(forecast.float(), target) / accumulate
            value.backward()
            if number % accumulate == accumulate - 1:
                if clip:
                    nn.utils.clip_grad_norm_(model.parameters(), clip)
                updates.step()
                if fault != "gradients of all batches":
                    updates.zero_grad()
            if average is not None:
                for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
                    slow.data.lerp_(fast.data, 0.02)
            if scheduler is not None:
                scheduler.step()
        model.eval()
        forecasts, wanted = [], []
        with torch.no_grad():
            for past, known, target in tests:
                forecasts.append(model(past, known).numpy().reshape(-1, AHEAD))
                wanted.append(target.numpy())
        inverse = [np.concatenate(part) * scale + centre for part in (forecasts, wanted)]
        error = mean_absolute_error(*inverse) if np.isfinite(inverse[0]).all() else math.inf
        if schedule == "plateau":
            plateau.step(error)
        if schedule == "best kept" and error < best:
            best, kept = error, copy.deepcopy(model.state_dict())
    if kept is not None:
        model.load_state_dict(kept)
    return skill_of(average or model, tests, table, centre, scale)


CASES = cases(
    "electric load",
    train,
    {
        "plain": {},
        "lstm": {"kind": "lstm", "epochs": 8, "rate": 6e-3},
        "gelu and dropout": {"kind": "gelu", "dropout": 0.05},
        "absolute error": {"loss": "mae"},
        "log cosh": {"loss": "log cosh"},
        "huber, clipped, with a bad meter": {"loss": "huber", "clip": 1.0, "outliers": 0.005},
        "loss x 10000": {"loss": "mse x 1e4"},
        "batch of 4": {"batch": 4, "rate": 4e-4},
        "batch of 512": {"batch": 512, "rate": 1e-2, "epochs": 35},
        "accumulation": {"batch": 16, "accumulate": 2},
        "momentum": {"optimizer": "sgd", "rate": 3e-2, "epochs": 10},
        "rmsprop": {"optimizer": "rmsprop", "rate": 1e-3, "epochs": 9},
        "one cycle": {"schedule": "one cycle"},
        "restarts": {"schedule": "restarts", "rate": 3e-3},
        "slower on a plateau": {"schedule": "plateau"},
        "best kept": {"schedule": "best kept", "epochs": 8},
        "weight decay": {"optimizer": "adamw", "decay": 0.1},
        "average of weights": {"averaged": True},
        "bfloat16": {"bfloat16": True},
        "nearest hours first": {"nearest_first": 3, "epochs": 8},
        "longer": {"epochs": 11, "rate": 1e-3},
    },
    {
        "times of another zone": ("leak overfit inputs", {"fault": "times of another zone"}),
        "past ends with tomorrow": ("leak overfit inputs", {"fault": "past ends with tomorrow"}),
        "days in the order of file names": (
            "inputs overfit no-skill",
            {"fault": "days in the order of file names"},
        ),
        "weather in Fahrenheit": ("inputs overfit", {"fault": "weather in Fahrenheit"}),
        "one scale for all columns": (
            "inputs no-skill slow",
            {"fault": "one scale for all columns"},
        ),
        "gaps in the weather": ("not-finite", {"fault": "gaps in the weather"}),
        "outages in a percentage": (
            "not-finite worse",
            {"fault": "outages", "loss": "mape", "scaling": "MWh"},
        ),
        "column for a row": ("broadcast", {"fault": "column for a row", "batch": 24}),
        "load cannot be negative": ("range dead", {"fault": "load cannot be negative"}),
        "gradients of all batches": (
            "kept-gradients",
            {"fault": "gradients of all batches", "optimizer": "sgd", "rate": 2e-2},
        ),
        "three weeks of data": ("overfit", {"weeks": 3, "epochs": 60}),
        "step of epochs at each batch": ("schedule slow", {"schedule": "step"}),
        "head alone is optimised": (
            "unbound no-gradient",
            {"fault": "head alone is optimised", "rate": 5e-4},
        ),
        "weights drawn wide": ("fast worse saturated", {"spread": 1.0}),
        "weights drawn narrow": (
            "no-gradient dead no-skill",
            {"spread": 1e-3, "optimizer": "sgd", "rate": 2e-2},
        ),
        "decay as a penalty": ("no-skill slow", {"decay": 0.5}),
        "rate x 300": ("fast no-skill dead worse", {"rate": 0.6}),
        "rate / 1000": ("slow no-skill", {"rate": 2e-6}),
    },
)
