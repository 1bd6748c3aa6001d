"""How a beam bends: a surrogate of a finite-difference solver, from stiffness and load to a curve.

A beam lies on two supports; its stiffness changes along it, and it carries a load that differs from
place to place. A perceptron with residual blocks says the deflection at 24 places; its loss is the
relative L2 distance, by hand. The skill is the share of variance explained for other beams.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, explained, normal, optimizer_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

PLACES = 24
SPAN = torch.linspace(0, 1, PLACES + 2)[1:-1]
WAVES = torch.stack([torch.sin(k * math.pi * SPAN) for k in range(1, 7)])


def solved(stiffness: Tensor, load: Tensor) -> Tensor:
    """Moments from the load, then the deflection from moments: two systems of three diagonals."""
    step = 1 / (PLACES + 1)
    second = 2 * torch.eye(PLACES) - torch.eye(PLACES).roll(1, 0).tril() - torch.eye(
        PLACES).roll(-1, 0).triu()  # fmt: skip
    second[0, 0] = second[-1, -1] = 2.0
    inverse = torch.linalg.inv(second / step**2)
    return ((load @ inverse) / stiffness) @ inverse


def beams(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Stiffness in MN m² beside load in kN/m (N, 48), and deflections in millimetres (N, 24)."""
    fall = 1 / torch.arange(1, 7) ** 0.5
    stiffness = 20 * torch.exp(0.5 * (normal(count, 6, seed=seed) * fall**2) @ WAVES)
    load = 30 + 25 * (normal(count, 6, seed=seed + 1) * fall) @ WAVES
    return torch.cat([stiffness, load], 1), 1000 * solved(stiffness, load)


class Block(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Dropout(dropout),
            nn.Linear(width, width),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.body(x)
        return out


def surrogate(width: int, dropout: float, last: nn.Module) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(2 * PLACES, width), nn.GELU(), Block(width, dropout), Block(width, dropout),
        nn.LayerNorm(width), nn.Linear(width, PLACES), last,
    )  # fmt: skip


def distance(out: Tensor, y: Tensor, kind: str) -> Tensor:
    if kind == "mse":
        return nn.functional.mse_loss(out, y)
    if kind == "thousandfold":
        return 1000 * nn.functional.mse_loss(out, y)
    return ((out - y).norm(dim=1) / (y.norm(dim=1) + 1.0)).mean()


def batches(count: int, size: int) -> Iterator[Tensor]:
    while True:
        yield from torch.randperm(count)[: count // size * size].split(size)


@torch.no_grad()
def evaluate(model: nn.Module, x: Tensor, y: Tensor, loss: str) -> None:
    model.eval()
    distance(model(x), y, loss)
    (model(x) - y).abs().amax(1).mean()
    model.train()


def train(
    seed: int, hook: Any, fault: str = "", loss: str = "relative", steps: int = 2400,
    rate: float = 1e-3, optimizer: str = "adam", decay: float = 0.0, batch: int = 32,
    count: int = 4000, schedule: str = "cosine", dropout: float = 0.0, jitter: float = 0.0,
    mirrored: bool = False, frozen_until: int = 0, clip: float | None = None, every: int = 200,
) -> float:  # fmt: skip
    begin(seed)
    (x, y), (held_x, held_y), (test_x, test_y) = (
        beams(n, 9 * seed + s) for n, s in ((count, 3000), (400, 4003), (1500, 5006))
    )
    low, spread = x.mean(0), x.std(0)
    mean, deviation = y.mean(), y.std()
    x, y, held_y = (x - low) / spread, (y - mean) / deviation, (held_y - mean) / deviation
    if fault == "each part by its own extremes":  # x was standardised, these are put into 0 to 1
        held_x, test_x = (
            (p - p.amin(0)) / (p.amax(0) - p.amin(0)) for p in (held_x, test_x)
        )  # fmt: skip
    else:
        held_x, test_x = (held_x - low) / spread, (test_x - low) / spread
    if fault == "results of another run":  # the solver's files were read in another order
        y = y[torch.randperm(len(y))]
    model = surrogate(64, dropout, nn.Sigmoid() if fault == "sigmoid at the end" else nn.Identity())
    hook.torch(model)
    steering = optimizer_of(optimizer, model.parameters(), rate, decay)
    if schedule == "plateau of steps":
        scheduler: Any = torch.optim.lr_scheduler.MultiStepLR(
            steering, [steps // 2, steps * 3 // 4], 0.3
        )
    elif schedule == "restarts":
        scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(steering, steps // 3)
    elif fault == "decay of epochs at each step":
        scheduler = torch.optim.lr_scheduler.ExponentialLR(steering, 0.9)
    else:
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(steering, steps)
    model.train()
    for step, rows in zip(range(steps), batches(len(x), batch), strict=False):
        model[0].requires_grad_(step >= frozen_until)
        part, wanted = x[rows], y[rows]
        if mirrored and step % 2:  # a beam seen from its other side bends the same way
            part, wanted = part.reshape(-1, 2, PLACES).flip(2).flatten(1), wanted.flip(1)
        if jitter:
            part = part + jitter * torch.randn_like(part)
        error = distance(model(part), wanted, loss)
        if fault != "gradients kept":
            steering.zero_grad()
        error.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        steering.step()
        scheduler.step()
        if every and step % every == every - 1:
            evaluate(model, held_x, held_y, loss)
    model.eval()
    with torch.no_grad():
        found = mean + deviation * model(test_x)
    return explained(found, test_y) if bool(found.isfinite().all()) else math.nan


CASES = cases(
    "bending beam",
    train,
    {
        "plain": {},
        "mean squares a thousandfold": {"loss": "thousandfold"},
        "mirrored beams, rate in steps": {"mirrored": True, "schedule": "plateau of steps"},
        "restarts and decay": {"schedule": "restarts", "optimizer": "adamw", "decay": 0.1},
        "first layer frozen at first": {"frozen_until": 600, "rate": 2e-3},
        "eight beams, clipped": {"batch": 8, "steps": 3000, "clip": 0.1},
        "momentum without evaluation": {
            "optimizer": "momentum", "rate": 5e-2, "loss": "mse", "every": 0, "batch": 64,
        },
    },
    {
        "each part by its own extremes": (
            "inputs worse", {"fault": "each part by its own extremes"},
        ),
        "results of another run": ("no-skill overfit", {"fault": "results of another run"}),
        "sigmoid at the end": ("range saturated", {"fault": "sigmoid at the end"}),
        "decay of epochs at each step": (
            "slow schedule no-skill", {"fault": "decay of epochs at each step", "rate": 1e-3},
        ),
        "gradients kept": (
            "kept-gradients fast", {"fault": "gradients kept", "rate": 2e-3, "loss": "mse"},
        ),
        "twelve beams": ("overfit", {"count": 12, "batch": 6}),
    },
)  # fmt: skip
