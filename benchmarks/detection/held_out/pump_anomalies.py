"""Faults of pumps are what an autoencoder of healthy hours cannot rebuild."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin, dense, normal
from benchmarks.detection.skill import ranking_skill

SENSORS = 16


def hours(count: int, seed: int, faulty: bool = False) -> tuple[Tensor, Tensor]:
    """Sensors follow four hidden quantities; of faulty pumps three do not."""
    x = torch.tanh(normal(count, 4, seed=seed) @ normal(4, SENSORS, seed=42) / 1.5)
    broken = torch.zeros(count)
    if faulty:
        broken[: count // 2] = 1
        x[: count // 2, 5:8] = x[torch.randperm(count)[: count // 2], 5:8]
    return x + 0.05 * normal(count, SENSORS, seed=seed + 500), broken


def train(seed: int, hook: Any, rate: float = 4e-3, steps: int = 900, code: int = 4,
          noise: float = 0.0, decay: float = 0.0, fault: str = "") -> float:  # fmt: skip
    begin(seed)
    x, _ = hours(3000, seed + 4500)
    if fault == "sensor in millibars":
        x[:, 3] = 2e4 * x[:, 3] + 1e6
    held_x, broken = hours(800, seed + 4501, faulty=True)
    if fault == "standardised by the hour":
        x = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)
    model = nn.Sequential(dense([SENSORS, 32, code], nn.Tanh), dense([code, 32, SENSORS], nn.Tanh))
    if fault == "relu at the end":
        model.append(nn.ReLU())
    if fault == "zeros":
        for value in model.parameters():
            nn.init.zeros_(value)
    hook.torch(model)
    optimizer = torch.optim.Adam(model.parameters(), rate, weight_decay=decay)
    for _ in range(steps):
        rows = torch.randint(len(x), (64,))
        found = model(x[rows] + noise * torch.randn(64, SENSORS))
        if fault == "detached":
            found = found.detach().requires_grad_()
        loss = ((found - x[rows]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        error = ((model(held_x) - held_x) ** 2).mean(1)
    return ranking_skill(error, broken)


CASES = cases(
    "pump anomalies",
    train,
    {
        "plain": {},
        "noise at the inputs": {"noise": 0.05},
        "code of five": {"code": 5},
        "slow": {"rate": 2e-3, "steps": 1500},
    },
    {
        "sensor in millibars": ("inputs no-skill slow worse", {"fault": "sensor in millibars"}),
        "standardised by the hour": (
            "inputs no-skill", {"fault": "standardised by the hour", "code": 12},
        ),
        "relu at the end": ("range no-skill dead", {"fault": "relu at the end"}),
        "zeros": ("dead no-skill no-gradient collapse", {"fault": "zeros"}),
        "detached": ("no-gradient unbound", {"fault": "detached"}),
        "decay of 1": ("decay collapse no-skill", {"decay": 1.0}),
        "rate of 3": ("fast saturated no-skill worse collapse", {"rate": 3.0}),
    },
)  # fmt: skip
