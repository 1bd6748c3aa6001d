"""Denoising diffusion: a network tells the noise from two-dimensional points at any noise level."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin, dense, optimizer_of, scheduler_of

LEVELS = 50


def spirals(count: int) -> Tensor:
    turn = 3 * math.pi * torch.rand(count).sqrt()
    side = torch.randint(2, (count,)) * 2 - 1
    points = torch.stack([turn.cos() * turn, turn.sin() * turn], 1) / 5
    return points * side[:, None] + 0.03 * torch.randn(count, 2)


KEPT = torch.cos(torch.linspace(0.05, 1.5, LEVELS)) ** 2


class Denoiser(nn.Module):
    def __init__(self, activation: type[nn.Module] = nn.SiLU) -> None:
        super().__init__()
        self.level = nn.Embedding(LEVELS, 8)
        self.body = dense([10, 64, 64, 2], activation)

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        noise: Tensor = self.body(torch.cat([x, self.level(level)], 1))
        return noise


def train(
    seed: int,
    hook: Any,
    rate: float = 2e-3,
    steps: int = 2000,
    batch: int = 64,
    schedule: str = "constant",
    average: bool = False,
    fault: str = "",
    activation: type[nn.Module] = nn.SiLU,
    optimizer: str = "adam",
    weighted: bool = False,
) -> float:
    begin(seed)
    model, slow = Denoiser(activation), Denoiser(activation)
    slow.load_state_dict(model.state_dict())
    trained = slow if fault == "other model" else model
    stepper = optimizer_of(optimizer, trained.parameters(), rate)
    scheduler = scheduler_of(stepper, schedule, steps)
    criterion = nn.MSELoss()
    hook.torch(model)
    for step in range(steps):
        level = torch.randint(LEVELS, (batch,))
        true, noise = spirals(batch), torch.randn(batch, 2)
        kept = KEPT[level, None]
        noisy = kept.sqrt() * true + (1 - kept).sqrt() * noise
        if fault == "fresh noise":
            noise = torch.randn(batch, 2)
        if fault == "one level":
            noisy = noise * 0 + noisy.mean(0)
        if fault == "not normalised":
            noisy = noisy * 1000
        predicted = model(noisy, level)
        if fault == "broadcast":
            loss = criterion(predicted[:, :1], noise[:, 0])
        elif weighted:
            loss = ((predicted - noise).square().mean(1) * (1 - KEPT[level]).clamp(min=0.1)).mean()
        else:
            loss = criterion(predicted, noise)
        stepper.zero_grad()
        loss.backward()
        stepper.step()
        scheduler.step()
        if average:
            with torch.no_grad():
                for old, new in zip(slow.parameters(), model.parameters(), strict=True):
                    old.lerp_(new, min(0.02, step / steps))
    judged = slow if average else model
    judged.eval()
    torch.manual_seed(99)
    with torch.no_grad():
        level = torch.randint(LEVELS, (4000,))
        true, noise = spirals(4000), torch.randn(4000, 2)
        kept = KEPT[level, None]
        noisy = kept.sqrt() * true + (1 - kept).sqrt() * noise
        noisy = noisy * 1000 if fault == "not normalised" else noisy
        error = (judged(noisy, level) - noise).square().mean().item()
    return 1 - error


CASES = cases(
    "denoising diffusion",
    train,
    {
        "plain": {},
        "average of weights": {"average": True},
        "warm-up": {"schedule": "warmup", "rate": 4e-3},
        "weighted by level": {"weighted": True},
        "tanh": {"activation": nn.Tanh},
        "batch of eight": {"batch": 8, "steps": 2500, "rate": 1e-3},
    },
    {
        "noise drawn twice": ("no-skill", {"fault": "fresh noise"}),
        "inputs all the same": ("no-skill inputs", {"fault": "one level"}),
        "(N, 1) against (N)": ("broadcast no-skill", {"fault": "broadcast"}),
        "optimizer of another model": ("unbound slow", {"fault": "other model"}),
        "rate x 1000": ("fast no-skill", {"rate": 2.0}),
        "rate / 1000": ("slow no-skill", {"rate": 2e-6}),
        "inputs x 1000": ("inputs saturated no-skill", {"fault": "not normalised", "rate": 1e-4}),
    },
)
