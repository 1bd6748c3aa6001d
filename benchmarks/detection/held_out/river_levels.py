"""A river's level in the next four hours: dilated convolutions over a day of rain and levels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin
from benchmarks.detection.skill import explained

PAST, AHEAD = 24, 4


def record(hours: int, seed: int) -> Tensor:
    """(hours, 2): rain, and the level that it fills and that runs off."""
    draw = torch.Generator().manual_seed(seed)
    falls = torch.rand(hours, generator=draw) < 0.08
    rain = torch.where(falls, 2 * torch.rand(hours, generator=draw), torch.zeros(hours))
    level, soil, levels = 0.0, 0.0, []
    for drop in rain.tolist():
        soil = 0.8 * soil + drop
        level = 0.9 * level + 0.2 * soil
        levels.append(level)
    found = torch.stack([rain, torch.tensor(levels)], 1)
    return found + 0.02 * torch.randn(found.shape, generator=draw)


def windows(series: Tensor) -> tuple[Tensor, Tensor]:
    pieces = series.unfold(0, PAST + AHEAD, 2)
    return pieces[:, :, :PAST], pieces[:, 1, PAST:]


def train(seed: int, hook: Any, rate: float = 3e-3, steps: int = 600, loss: str = "mse",
          momentum: bool = False, fault: str = "") -> float:  # fmt: skip
    begin(seed)
    x, y = windows(record(5000, seed + 4400))
    held_x, held_y = windows(record(1500, seed + 4401))
    if fault == "gauge of another place":
        held_x = 4 * held_x + 30
    if fault == "time runs backwards":
        held_x = held_x.flip(2)
    if fault == "the future is known":
        x = torch.cat([x[:, :, AHEAD:], torch.stack([0 * y, y], 1)], 2)
    if fault == "a sensor fails":
        x = x.clone()
        x[500:503] = float("nan")
    mean, spread = x.nanmean((0, 2), keepdim=True), 1.0
    x, held_x = (x - mean) / spread, (held_x - mean) / spread
    layers: list[nn.Module] = []
    for inputs, dilation in ((2, 1), (16, 2), (16, 4)):
        layers += [nn.Conv1d(inputs, 16, 3, dilation=dilation), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(16 * 10, AHEAD))
    if fault == "all biases at -20":
        for layer in model:
            if isinstance(layer, nn.Conv1d):
                nn.init.constant_(layer.bias, -20.0)
    hook.torch(model)
    used: Any = torch.optim.SGD if momentum else torch.optim.Adam
    optimizer = used(model.parameters(), rate, **({"momentum": 0.9} if momentum else {}))
    criterion: Any = {"mse": nn.MSELoss(), "huber": nn.HuberLoss(), "l1": nn.L1Loss()}[loss]
    for step in range(steps):
        rows = torch.randint(len(x), (32,))
        found = model(x[rows])
        if fault == "errors averaged first":
            value = (found - y[rows]).mean().abs()
        else:
            value = criterion(found, y[rows])
        optimizer.zero_grad()
        value.backward()
        if fault != "never stepped":
            optimizer.step()
        if step % 60 == 59:
            with torch.no_grad():
                criterion(model(held_x[:128]), held_y[:128])
    with torch.no_grad():
        return explained(model(held_x), held_y)


CASES = cases(
    "river levels",
    train,
    {
        "plain": {},
        "huber": {"loss": "huber"},
        "absolute errors": {"loss": "l1"},
        "momentum": {"momentum": True, "rate": 2e-2},
    },
    {
        "gauge of another place": ("inputs overfit worse", {"fault": "gauge of another place"}),
        "time runs backwards": ("inputs overfit worse", {"fault": "time runs backwards"}),
        "the future is known": ("leak overfit inputs", {"fault": "the future is known"}),
        "a sensor fails": ("not-finite", {"fault": "a sensor fails"}),
        "all biases at -20": ("dead no-skill collapse", {"fault": "all biases at -20"}),
        "errors averaged first": ("cancel no-skill", {"fault": "errors averaged first"}),
        "never stepped": ("unbound slow no-skill", {"fault": "never stepped"}),
    },
)  # fmt: skip
