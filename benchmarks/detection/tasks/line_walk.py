"""A walker that sees its goal: five moves, a reward for each step towards it."""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from benchmarks.detection.kit import dense, integers
from benchmarks.detection.task import Samples, Task

MOVES = torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1], [0, 0]])
PATIENCE = 8


def observe(state: Tensor) -> Tensor:
    return state / 3


def move(state: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
    """The next state, (N, 4) place and goal, and the reward."""
    at, goal = state.chunk(2, 1)
    after = at + MOVES[action]
    nearer = (at - goal).abs().sum(1) - (after - goal).abs().sum(1)
    return torch.cat([after, goal], 1), nearer - 0.05 * (action != 4)


def best(state: Tensor) -> Tensor:
    """Return what can be earned from there."""
    at, goal = state.chunk(2, 1)
    return 0.95 * (at - goal).abs().sum(1).clamp(max=PATIENCE)


def samples(seed: int) -> Samples:
    states = integers(7, 2500, 4, seed=seed + 330).float() - 3
    return Samples(states[:2000], best(states[:2000]), states[2000:], best(states[2000:]))


TASK = Task(
    frozenset(["episodes", "walk"]),
    samples,
    lambda: dense([4, 48, 5]),
    lambda outputs, y: outputs.mean(),
    lambda earned, y: (earned.mean() / y.mean()).item(),
    {"steps": 400, "rate": 3e-3, "world": sys.modules[__name__]},
)
