"""Experts of which a gate chooses few for each row, with a loss that spreads the load."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin, normal, optimizer_of, scheduler_of
from benchmarks.detection.skill import explained

SIZE, EXPERTS, HIDDEN = 8, 4, 24


def samples(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Another law in each of four regions."""
    x = normal(count, SIZE, seed=seed)
    region = 2 * (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    laws = torch.sin(x @ normal(SIZE, EXPERTS, seed=41)) * 2 + x @ normal(SIZE, EXPERTS, seed=42)
    y = laws.gather(1, region[:, None]) + 0.1 * normal(count, 1, seed=seed + 1)
    return x, y


class Mixture(nn.Module):
    """Chooses ``top`` experts for each row; ``forward`` gives predictions and the load loss."""

    def __init__(self, top: int, noise: float, capacity: float, fault: str) -> None:
        super().__init__()
        self.gate = nn.Linear(SIZE, EXPERTS)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(SIZE, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, 1))
            for _ in range(EXPERTS)
        )
        self.top, self.noise, self.capacity, self.fault = top, noise, capacity, fault

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.gate(x)
        if self.training and self.noise:
            scores = scores + self.noise * torch.randn_like(scores)
        if self.fault == "gate upside down" and not self.training:
            scores = -scores
        shares = scores.softmax(1)
        weights, chosen = shares.topk(self.top, 1)
        if self.top > 1:
            weights = weights / weights.sum(1, keepdim=True)
        out = torch.zeros(len(x), 1)
        parts = []
        for number, expert in enumerate(self.experts):
            rows, place = (chosen == number).nonzero(as_tuple=True)
            if self.training and self.capacity:
                most = int(self.capacity * len(x) * self.top / EXPERTS)
                rows, place = rows[:most], place[:most]
            found = expert(x[rows]) * weights[rows, place, None]
            parts.append(found)
            out = out.index_add(0, rows, found)
        if self.fault == "rows not put back":
            out = torch.cat(parts)
        used = torch.zeros(EXPERTS).scatter_add(
            0, chosen.flatten(), torch.ones(chosen.numel()) / chosen.numel()
        )
        return out, EXPERTS * (used * shares.mean(0)).sum()


def train(
    seed: int, hook: Any, rate: float = 5e-3, steps: int = 2000, batch: int = 64,
    top: int = 2, spread: float = 0.01, noise: float = 0.0, capacity: float = 0.0,
    schedule: str = "constant", clip: float = 0.0, unit: float = 1.0, huber: bool = False,
    evaluate: bool = True, rows_used: int = 6000, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    (x, y), (held, held_y) = samples(6000, seed + 500), samples(1500, seed + 502)
    x, y = x[:rows_used], y[:rows_used]
    if fault == "targets shifted by one":
        y = y.roll(1, 0)
    model = Mixture(top, noise, capacity, fault)
    if fault == "experts in a list":  # as if they were not registered
        chosen = list(model.gate.parameters())
    else:
        chosen = list(model.parameters())
    optimizer = optimizer_of("adam", chosen, rate)
    scheduler = scheduler_of(optimizer, schedule, steps)
    hook.torch(model)
    for step in range(steps):
        rows = torch.randint(len(x), (min(batch, len(x)),))
        found, load = model(x[rows])
        wanted = unit * (y[rows].squeeze(1) if fault == "broadcast" else y[rows])
        error = found - wanted
        loss = (error**2).mean()
        if huber:
            small = error.abs() < unit
            loss = torch.where(small, error**2 / 2, unit * (error.abs() - unit / 2)).mean()
        total = loss + spread * unit**2 * load
        optimizer.zero_grad()
        (-total if fault == "wrong sign" and step > 1000 else total).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        scheduler.step()
        if evaluate and step % 200 == 199:
            model.eval()
            with torch.no_grad():
                for part, true in zip(held[:500].split(100), held_y[:500].split(100), strict=True):
                    ((model(part)[0] - unit * true) ** 2).mean()
            model.train()
    model.eval()
    with torch.no_grad():
        return explained(model(held)[0] / unit, held_y)


CASES = cases(
    "mixture of experts",
    train,
    {
        "plain": {},
        "one expert each": {"top": 1, "spread": 0.02, "steps": 2800},
        "noise at the gate": {"noise": 0.3},
        "limited capacity": {"capacity": 1.5},
        "huber, no evaluation": {"huber": True, "evaluate": False},
        "batch of eight, clipped": {"batch": 8, "clip": 1.0, "rate": 3e-3, "steps": 2500},
        "targets x 1000": {"unit": 1000.0, "rate": 3e-2, "steps": 2500},
        "restarts": {"schedule": "restarts", "rate": 1e-2},
        "no load loss": {"spread": 0.0},
    },
    {
        "rows not put back": ("no-skill", {"fault": "rows not put back", "top": 1}),
        "targets shifted by one": ("no-skill overfit", {"fault": "targets shifted by one"}),
        "gate alone in the optimizer": ("unbound", {"fault": "experts in a list"}),
        "gate upside down in evaluation": ("mode inputs", {"fault": "gate upside down"}),
        "load loss x 100,000": ("no-skill slow", {"spread": 1e5, "noise": 1.0}),
        "capacity too small": ("no-skill worse", {"capacity": 0.15}),
        "each against all": ("broadcast no-skill", {"fault": "broadcast"}),
        "sign turns": ("worse not-finite", {"fault": "wrong sign"}),
        "memorises 60": ("overfit", {"rows_used": 60}),
        "rate / 100": ("slow no-skill", {"rate": 2e-5, "steps": 900}),
        "rate x 200": ("fast worse no-skill dead collapse", {"rate": 1.0}),
    },
)
