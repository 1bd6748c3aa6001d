"""A pole that is kept upright: push left or right, a reward for each step without a fall."""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from benchmarks.detection.kit import dense, normal
from benchmarks.detection.task import Samples, Task

PATIENCE = 24


def observe(state: Tensor) -> Tensor:
    return state


def move(state: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
    """The next state, (N, 2) angle and its speed, and 1 while the pole stands."""
    angle, speed = state.unbind(1)
    push = 2.0 * action.float() - 1
    speed = speed + 0.15 * (torch.sin(angle) + push)
    angle = angle + 0.3 * speed
    stands = (angle.abs() < 1).float()
    return torch.stack([angle.clamp(-1.5, 1.5), speed.clamp(-3, 3)], 1), stands


def samples(seed: int) -> Samples:
    states = 0.25 * normal(2500, 2, seed=seed + 340)
    y = torch.full((2500,), float(PATIENCE))
    return Samples(states[:2000], y[:2000], states[2000:], y[2000:])


def skill(earned: Tensor, y: Tensor) -> float:
    """Return how much longer it stands than when it is pushed one way."""
    return ((earned.mean() - 6) / (y.mean() - 6)).item()


TASK = Task(
    frozenset(["episodes", "standing"]),
    samples,
    lambda: dense([2, 32, 2]),
    lambda outputs, y: outputs.mean(),
    skill,
    {"steps": 250, "rate": 5e-3, "world": sys.modules[__name__]},
)
