"""An LSTM forecasts the next value of waves, by mean absolute error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from benchmarks.detection.families.kit import LoopOptions, Split, begin, explained, fit, outputs
from torch import Tensor, nn

from benchmarks.detection.case import cases

LENGTH = 16


def waves(count: int, seed: int, noise: float = 0.1) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    pace = 0.3 + torch.rand(count, 1, generator=draw)
    phase = 6.3 * torch.rand(count, 1, generator=draw)
    size = 0.5 + torch.rand(count, 1, generator=draw)
    wave = size * torch.sin(pace * torch.arange(LENGTH + 2) + phase)
    wave = wave + noise * torch.randn(count, LENGTH + 2, generator=draw)
    return wave[:, :LENGTH, None], wave[:, LENGTH + 1 :]


class Forecaster(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.LSTM(1, 24, batch_first=True)
        self.head = nn.Linear(24, 1)

    def forward(self, x: Tensor) -> Tensor:
        forecast: Tensor = self.head(self.body(x)[0][:, -1])
        return forecast


def train(
    seed: int, hook: Any, loss: str = "absolute", unit: float = 1.0, drift: float = 0.0,
    **options: Any,
) -> float:  # fmt: skip
    begin(seed)
    how = replace(LoopOptions(steps=700, batch=32, rate=5e-3), **options)
    data = Split(*waves(4000, seed + 360), *waves(600, seed + 361))
    data = replace(data, y=data.y * unit + drift, held_y=data.held_y * unit + drift)
    if loss == "broadcast":
        data = replace(data, y=data.y.squeeze(1), held_y=data.held_y.squeeze(1))
    model = Forecaster()
    criterion: Any = {
        "absolute": nn.L1Loss(),
        "squares": nn.MSELoss(),
        "huber": nn.HuberLoss(),
        "broadcast": nn.MSELoss(),
        "clamped": lambda found, y: nn.L1Loss()(found.clamp(5, 6), y),
    }[loss]
    fit(model, data, criterion, how, hook, seed)
    found = outputs(model, data, how)
    return explained(found, data.held_y.reshape(found.shape))


CASES = cases(
    "time series",
    train,
    {
        "plain": {},
        "squares": {"loss": "squares"},
        "Huber": {"loss": "huber"},
        "clipped": {"clip": 0.3},
        "restarts": {"schedule": "restarts", "rate": 8e-3},
        "batch of eight": {"batch": 8, "steps": 1600, "rate": 3e-3},
    },
    {
        "series paired wrongly": ("no-skill", {"shuffled": True}),
        "(N, 1) against (N)": ("broadcast no-skill", {"loss": "broadcast"}),
        "clamped output": ("no-gradient no-skill range", {"loss": "clamped"}),
        "targets far away": ("slow no-skill range", {"drift": 5000.0}),
        "evaluation x 255": ("inputs", {"eval_scale": 255.0}),
        "memorises 40": ("overfit", {"memorise": 40, "steps": 1500}),
        "body in no optimizer": ("unbound", {"only": "head"}),
        "rate x 1000": ("fast no-skill saturated", {"rate": 5.0}),
        "rate / 1000": ("slow no-skill", {"rate": 5e-6}),
    },
)
