"""Demand of the next hours as a normal distribution, by a recurrent or a dilated network."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, explained, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

PAST, NEXT, SERIES, HOURS = 24, 4, 8, 1500


def demand(seed: int) -> Tensor:
    """Series (S, T) of two periods with wandering phases, each at its own level; positive."""
    draw = torch.Generator().manual_seed(seed)
    time = torch.arange(float(HOURS))
    phase = 0.06 * torch.randn(SERIES, HOURS, generator=draw).cumsum(1)
    periods = torch.tensor([[9.0], [11.0], [13.0], [17.0]]).repeat(SERIES // 4, 1)
    wave = torch.sin(6.283 * time / periods + phase) + 0.6 * torch.sin(6.283 * time / 5 + phase)
    noise = 0.1 * (1 + wave.sigmoid()) * torch.randn(SERIES, HOURS, generator=draw)
    level = 5 + 3 * torch.rand(SERIES, 1, generator=draw)
    return level * (4 + wave + noise)


class Recurrent(nn.Module):
    def __init__(self, batch_first: bool = True) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, 24, batch_first=batch_first)
        self.head = nn.Linear(24, 2 * NEXT)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        states, _ = self.lstm(x[:, :, None])
        mean, log_scale = self.head(states[:, -1]).chunk(2, 1)
        return mean, log_scale


class Dilated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv1d(1 if depth == 0 else 24, 24, 3, dilation=2**depth) for depth in range(4)
        )
        self.head = nn.Linear(24, 2 * NEXT)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        seen = x[:, None]
        for layer in self.layers:
            padded = F.pad(seen, ((layer.kernel_size[0] - 1) * layer.dilation[0], 0))
            new = torch.relu(layer(padded))
            seen = new + seen if seen.shape == new.shape else new
        mean, log_scale = self.head(seen[:, :, -1]).chunk(2, 1)
        return mean, log_scale


def likelihood(mean: Tensor, log_scale: Tensor, y: Tensor, fault: str = "") -> Tensor:
    """The negative logarithm of the normal density, without its constant."""
    log_scale = log_scale.clamp(-5, 5)
    if fault == "precision for scale":
        log_scale = log_scale.clamp(max=2)
        return (0.5 * ((y - mean) * log_scale.exp()) ** 2 + log_scale).mean()
    if fault == "broadcast":
        mean, log_scale = mean[:, None], log_scale[:, None]
    return (0.5 * ((y - mean) / log_scale.exp()) ** 2 + log_scale).mean()


def train(
    seed: int, hook: Any, net: str = "recurrent", rate: float = 5e-3, steps: int = 900,
    batch: int = 32, schedule: str = "constant", clip: float = 1.0, warm: int = 0,
    unit: float = 1.0, in_order: bool = False, fault: str = "", evaluate: bool = True,
) -> float:  # fmt: skip
    begin(seed)
    series = demand(seed + 440)
    split = HOURS * 3 // 4
    mean, spread = series[:, :split].mean(1, keepdim=True), series[:, :split].std(1, keepdim=True)
    series = series if fault == "not standardised" else (series - mean) / spread
    if fault == "gap":
        series[3, 500:520] = float("nan")
    windows = series.unfold(1, PAST + NEXT, 1)
    known, held = windows[:, : split - PAST - NEXT].flatten(0, 1), windows[:, split:].flatten(0, 1)
    x, y = known[:, :PAST], unit * known[:, PAST:]
    held_x, held_y = held[:, :PAST], unit * held[:, PAST:]
    if fault == "of another hour":
        y = y.roll(731, 0)
    if fault == "future in the past":
        x = torch.cat([x[:, NEXT:], y], 1)
    if fault == "evaluation standardised by window":
        held_x = (held_x - held_x.mean()) / held_x.std() * 12 + 30
    if fault == "few windows":
        x, y = x[:60], y[:60]
    model: Any = Dilated() if net == "dilated" else Recurrent(fault != "time for batch")
    chosen = model.head if fault == "head alone" else model
    optimizer = optimizer_of("adam", chosen.parameters(), rate)
    scheduler = scheduler_of(optimizer, schedule, steps)
    hook.torch(model)
    for step in range(steps):
        rows = torch.randint(len(x), (batch,))
        if in_order:  # windows that overlap, one after the other
            rows = (step * batch + torch.arange(batch)) * 7 % len(x)
        found, log_scale = model(x[rows])
        if step < warm:  # the mean first
            log_scale = log_scale * 0
        loss = likelihood(found, log_scale, y[rows], fault)
        if fault == "mean detached":
            loss = likelihood(found.detach(), log_scale, y[rows])
        optimizer.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        scheduler.step()
        if evaluate and step % 150 == 149:
            model.eval()
            with torch.no_grad():
                found, log_scale = model(held_x[::5])
                likelihood(found, log_scale, held_y[::5])
            model.train()
    model.eval()
    with torch.no_grad():
        return explained(model(held_x)[0], held_y)


CASES = cases(
    "forecasting",
    train,
    {
        "plain": {},
        "dilated": {"net": "dilated", "steps": 1200},
        "mean first": {"warm": 300},
        "one cycle": {"schedule": "one cycle", "rate": 1e-2},
        "small units": {"unit": 0.2, "steps": 1500, "rate": 1e-2},
        "windows in order": {"in_order": True},
        "batch of six": {"batch": 6, "rate": 3e-3, "steps": 1500},
        "restarts, no evaluation": {"schedule": "restarts", "rate": 1e-2, "evaluate": False},
        "clipped at each step": {"clip": 0.05},
    },
    {
        "hours of another day": ("no-skill overfit", {"fault": "of another hour"}),
        "future in the past": ("leak overfit", {"fault": "future in the past"}),
        "time for batch": ("no-skill order", {"fault": "time for batch"}),
        "precision for scale": ("no-skill range worse", {"fault": "precision for scale"}),
        "each against all": ("broadcast no-skill", {"fault": "broadcast"}),
        "mean detached": ("unbound no-gradient no-skill", {"fault": "mean detached"}),
        "evaluation standardised otherwise": (
            "inputs overfit",
            {"fault": "evaluation standardised by window"},
        ),
        "60 windows": ("overfit", {"fault": "few windows"}),
        "a gap in the series": ("not-finite", {"fault": "gap"}),
        "rate / 100": ("slow no-skill", {"rate": 5e-5, "steps": 500}),
        "rate x 200": ("fast no-skill dead worse saturated", {"rate": 1.0}),
        "rate falls at once": ("schedule slow no-skill", {"schedule": "ends early"}),
    },
)
