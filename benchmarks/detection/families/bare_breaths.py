"""Breaths per minute from half a minute of a chest strap, by a 1D network; saved without a hook.

Made-up signals of 120 samples, in counts of a converter: breaths of a changing depth, the heart, a
drift, and a turn of the sleeper now and then. The skill is the share of the variance of the rate
that is explained, of other sleepers.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import (
    begin,
    explained,
    optimizer_of,
    save_values,
    scheduler_of,
)
from tocsin_hooks import Hook, modes
from torch import Tensor, nn

from benchmarks.detection.case import cases

HERTZ, LENGTH = 4, 120


def nights(count: int, seed: int, miscounted: float = 0.0) -> tuple[Tensor, Tensor]:
    """Signals (N, 1, LENGTH) and breaths per minute (N,), as a nurse counted them."""
    draw = torch.Generator().manual_seed(seed)
    u = torch.rand(8, count, 1, generator=draw)
    t = torch.arange(LENGTH) / HERTZ
    rate = 8 + 22 * u[0]
    phase = 6.28 * (rate / 60 * t + u[1]) + 0.3 * (0.4 * t + 6.28 * u[2]).sin()
    depth = (0.7 + 0.6 * u[3]) * (1 + 0.25 * (0.25 * t + 6.28 * u[4]).sin())
    breaths = depth * (phase.sin() + 0.25 * (2 * phase).sin())
    heart = 0.15 * (6.28 * (1.0 + 0.4 * u[5]) * t).sin()
    turned = torch.where(u[6] < 0.3, 1.0, 0.0) * (t > 30 * u[7]) * 0.8
    drift = 0.02 * torch.randn(count, LENGTH, generator=draw).cumsum(1)
    signal = breaths + heart + turned + drift + 0.15 * torch.randn(count, LENGTH, generator=draw)
    error = miscounted * torch.randn(count, generator=draw)
    return (512 + 90 * signal)[:, None].round(), rate[:, 0] + error


class BreathNet(nn.Module):
    def __init__(self, norm: bool, dropout: float, ending: str = "") -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, width, reach in ((1, 8, 9), (8, 16, 7), (16, 16, 5)):
            layers.append(nn.Conv1d(inputs, width, reach, stride=2))
            layers += [nn.BatchNorm1d(width), nn.ReLU()] if norm else [nn.ReLU()]
        self.convolutions = nn.Sequential(*layers)
        self.drop = nn.Dropout(dropout)
        self.out = nn.Linear(16, 1)
        self.ending = ending

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.out(self.drop(self.convolutions(x).mean(2)))
        return found.relu() if self.ending == "relu" else found


def train(
    seed: int, hook: Any, loss: str = "mse", steps: int = 2000, rate: float = 4e-3, batch: int = 32,
    optimizer: str = "adam", decay: float = 0.0, schedule: str = "cosine", count: int = 3000,
    miscounted: float = 0.0, norm: bool = False, dropout: float = 0.0, clip: float = 0.0,
    per_minute: bool = False, ending: str = "", fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, y = nights(count, 9 * seed + 61, miscounted)
    (held_x, held_y), (test_x, test_y) = nights(300, 9 * seed + 62), nights(1500, 9 * seed + 63)
    x_mean, x_std, y_mean, y_std = x.mean(), x.std(), y.mean(), y.std()
    if fault == "counts of the converter":
        x_mean, x_std = torch.tensor(0.0), torch.tensor(1.0)
    x = (x - x_mean) / x_std
    if fault != "new nights in counts":
        held_x, test_x = (held_x - x_mean) / x_std, (test_x - x_mean) / x_std
    model = BreathNet(norm, dropout, ending)
    if per_minute:  # not scaled, but the last bias begins at the mean
        nn.init.constant_(model.out.bias, float(y_mean))
        y_mean, y_std = torch.tensor(0.0), torch.tensor(1.0)
    if fault == "all weights zero":
        for p in model.parameters():
            nn.init.zeros_(p)
    y, held_y = (y - y_mean) / y_std, (held_y - y_mean) / y_std
    if fault == "rates of other nights":  # the files were listed as text, the rates by number
        y = y[torch.tensor(sorted(range(len(y)), key=str))]

    def loss_of(found: Tensor, wanted: Tensor) -> Tensor:
        if fault != "column against row":
            found = found[:, 0]
        if loss == "huber":
            return F.huber_loss(found, wanted)
        if loss == "root":
            return ((found - wanted) ** 2).mean().add(1e-8).sqrt()
        return ((found - wanted) ** 2).mean()

    stepper = optimizer_of(optimizer, model.parameters(), rate, decay)
    plan = scheduler_of(stepper, schedule, steps)
    recorded = Hook(hook.folder, save_interval=hook.options.get("save_interval"))
    order = torch.randperm(len(x))
    for step in range(steps):
        first = step * batch % len(x)
        if first < batch:
            order = torch.randperm(len(x))
        rows = order[first : first + batch]
        model.train()
        error = loss_of(model(x[rows]), y[rows])
        if fault != "gradients kept":
            stepper.zero_grad()
        error.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        stepper.step()
        plan.step()
        save_values(recorded, model, error)
        if step % 200 == 199:
            model.eval()
            with torch.no_grad(), recorded.step(modes.EVAL):
                recorded.save("loss", loss_of(model(held_x), held_y).item(), "losses", raw=True)
    recorded.close()
    model.eval()
    with torch.no_grad():
        found = model(test_x)[:, 0] * y_std + y_mean
    return explained(found, test_y) if bool(found.isfinite().all()) else math.nan


CASES = cases(
    "bare breaths",
    train,
    {
        "plain": {},
        "Huber, one cycle": {"loss": "huber", "schedule": "one cycle", "rate": 1e-2},
        "batch norm, momentum": {"norm": True, "optimizer": "momentum", "rate": 2e-2},
        "breaths per minute as they are": {"per_minute": True, "rate": 1e-2},
        "eight at a time, clipped": {"batch": 8, "clip": 1.0, "rate": 2e-3, "steps": 3000},
        "miscounted, decay": {"miscounted": 2.0, "optimizer": "adamw", "decay": 0.1},
        "root of the error, warm-up": {"loss": "root", "schedule": "warmup"},
    },
    {
        "column against row": ("broadcast no-skill", {"fault": "column against row"}),
        "gradients kept": (
            "kept-gradients fast worse not-finite",
            {"fault": "gradients kept", "optimizer": "sgd", "rate": 5e-2},
        ),
        "counts of the converter": (
            "inputs fast not-finite dead no-skill worse",
            {"fault": "counts of the converter", "optimizer": "sgd", "rate": 1e-2},
        ),
        "new nights in counts": ("inputs worse", {"fault": "new nights in counts"}),
        "rates of other nights": ("no-skill overfit", {"fault": "rates of other nights"}),
        "ReLU at the end": ("range dead", {"ending": "relu"}),
        "all weights zero": ("dead no-skill no-gradient", {"fault": "all weights zero"}),
        "decay of 1": ("no-skill collapse", {"decay": 1.0}),
        "rate of 1e-5": ("slow no-skill", {"rate": 1e-5}),
        "ten nights": ("overfit", {"count": 10, "miscounted": 3.0}),
    },
)
