"""Where the wind at a harbour will come from in three hours, by a von Mises likelihood by hand.

A perceptron reads pressures, temperatures and the wind of now; it says a direction and how sure it
is. The skill is how much nearer the mean cosine of the error comes to one than that of the most
frequent direction.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, dense, normal, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

READINGS = 8


def weather(count: int, seed: int, gusts: float = 1.0) -> tuple[Tensor, Tensor]:
    """Readings of the stations in their units, and the direction (radians) three hours later."""
    z = normal(count, READINGS, seed=seed)
    draw = torch.Generator().manual_seed(seed + 1)
    hour = 24 * torch.rand(count, generator=draw)
    breeze = (z[:, 3] + 0.5).clamp_min(0) * torch.sin((hour - 9) * math.pi / 12)
    east = 0.9 * z[:, 0] - 0.5 * z[:, 1] + 0.5 * z[:, 4] * z[:, 6] + 1.2 * breeze + 0.3
    north = 0.8 * z[:, 1] + 0.4 * z[:, 2] - 0.6 * breeze + 0.6 * z[:, 5] + 0.4 * z[:, 0].abs()
    speed = (east**2 + north**2).sqrt()
    error = gusts * 0.35 / (0.5 + speed * speed) * normal(count, seed=seed + 2)
    readings = torch.stack(
        [
            1013 + 8 * z[:, 0],  # hPa, at three stations
            1013 + 8 * z[:, 1],
            1012 + 9 * z[:, 2],
            14 + 6 * z[:, 3],  # degrees, land against sea
            6 * z[:, 4],  # metres per second
            6 * z[:, 5],
            70 + 15 * z[:, 6],
            hour,
        ],
        1,
    )
    direction = torch.atan2(east, north) + error
    return readings, torch.remainder(direction, 2 * math.pi)


class WindNet(nn.Module):
    """Two numbers give the direction, as a vector; the third one how concentrated it is."""

    def __init__(self, width: int, dropout: float, activation: type[nn.Module]) -> None:
        super().__init__()
        self.body = nn.Sequential(
            dense([READINGS, width, width], activation), activation(), nn.Dropout(dropout)
        )
        self.vector = nn.Linear(width, 2)
        self.sureness = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.body(x)
        towards = self.vector(features)
        kappa = nn.functional.softplus(self.sureness(features)[:, 0]) + 1e-3
        return torch.atan2(towards[:, 0], towards[:, 1]), kappa


class VonMises(nn.Module):
    """The negative logarithm of the likelihood; ``i0e`` is scaled, so that it stays finite."""

    def __init__(self, kind: str = "", reduction: str = "mean") -> None:
        super().__init__()
        self.kind, self.reduction = kind, reduction
        self.known = True

    def forward(self, mean: Tensor, kappa: Tensor, angle: Tensor) -> Tensor:
        if self.kind == "cosine alone" or not self.known:
            kappa = kappa * 0 + 2.0
        if self.kind == "direction detached":
            mean = mean.detach()
        if self.kind == "plain Bessel function":
            normaliser = torch.log(2 * math.pi * torch.special.i0(kappa))
        else:
            normaliser = math.log(2 * math.pi) + torch.log(torch.special.i0e(kappa)) + kappa
        loss = normaliser - kappa * torch.cos(angle - mean)
        return loss.sum() if self.reduction == "sum" else loss.mean()


def degrees_wrong(mean: Tensor, angle: Tensor) -> float:
    difference = torch.remainder(mean - angle + math.pi, 2 * math.pi) - math.pi
    return math.degrees(difference.abs().mean().item())


def train(
    seed: int, hook: Any, loss: str = "", fault: str = "", steps: int = 2500, rate: float = 3e-3,
    batch: int = 64, optimizer: str = "adam", decay: float = 0.0, schedule: str = "cosine",
    clip: float | None = None, reduction: str = "mean", count: int = 5000, gusts: float = 1.0,
    width: int = 64, dropout: float = 0.0, activation: type[nn.Module] = nn.ReLU,
    sure_from: int = 0, evaluated: str = "loss", dtype: torch.dtype = torch.float32,
) -> float:  # fmt: skip
    begin(seed)
    x, angle = weather(count, 4 * seed + 700, gusts)
    (held_x, held), (test_x, test) = weather(600, 4 * seed + 800), weather(3000, 4 * seed + 900)
    if fault != "pressures as they are":
        mean, deviation = x.mean(0), x.std(0)
        x, held_x, test_x = ((part - mean) / deviation for part in (x, held_x, test_x))
    if fault == "directions in degrees":
        angle, held = torch.rad2deg(angle), torch.rad2deg(held)
    if fault == "another file's directions":
        angle = weather(count, 4 * seed + 701, gusts)[1]
    x, angle, held_x, held, test_x = (v.to(dtype) for v in (x, angle, held_x, held, test_x))
    net = WindNet(width, dropout, activation).to(dtype)
    criterion = VonMises(loss, reduction)
    hook.torch(net)
    steering = optimizer_of(optimizer, net.parameters(), rate, decay)
    scheduler = scheduler_of(steering, schedule, steps)
    for step in range(steps):
        rows = torch.randint(len(x), (batch,))
        criterion.known = step >= sure_from
        error = criterion(*net(x[rows]), angle[rows])
        if fault != "gradients kept":
            steering.zero_grad()
        error.backward()
        if clip:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        steering.step()
        scheduler.step()
        if evaluated and (step + 1) % 250 == 0:
            net.eval()
            with torch.no_grad():
                mean_angle, kappa = net(held_x)
                if evaluated == "loss":
                    criterion(mean_angle, kappa, held)
                degrees_wrong(mean_angle, held)
            net.train()
    net.eval()
    with torch.no_grad():
        found = net(test_x)[0]
    if not bool(found.isfinite().all()):
        return math.nan
    constant = math.hypot(test.cos().mean().item(), test.sin().mean().item())
    return (torch.cos(found - test).mean().item() - constant) / (1 - constant)


CASES = cases(
    "wind direction",
    train,
    {
        "plain": {},
        "sureness learned later": {"sure_from": 800},
        "momentum, warm-up, clipping": {
            "optimizer": "momentum", "rate": 2e-2, "schedule": "warmup", "clip": 1.0,
        },
        "cosine alone, degrees alone": {"loss": "cosine alone", "evaluated": "degrees"},
        "sums of thirty-two": {"batch": 32, "reduction": "sum", "rate": 2e-3, "steps": 3000},
        "gusty years, tanh, double precision": {
            "gusts": 1.8, "activation": nn.Tanh, "dtype": torch.float64,
        },
        "large batches, decay, no validation": {
            "batch": 512, "optimizer": "adamw", "decay": 0.1, "steps": 1500, "evaluated": "",
        },
    },
    {
        "directions in degrees": ("range no-skill", {"fault": "directions in degrees"}),
        "plain Bessel function": ("not-finite worse", {"loss": "plain Bessel function"}),
        "pressures as they are": (
            "inputs saturated no-skill",
            {"fault": "pressures as they are", "activation": nn.Tanh},
        ),
        "direction detached": ("no-gradient unbound no-skill", {"loss": "direction detached"}),
        "gradients kept": (
            "kept-gradients fast",
            {"fault": "gradients kept", "optimizer": "momentum", "rate": 2e-2},
        ),
        "another file's directions": (
            "no-skill overfit",
            {"fault": "another file's directions"},
        ),
    },
)  # fmt: skip
