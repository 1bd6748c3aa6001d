"""A neural differential equation of spirals: the velocity is a network, the solver is our own.

Curves turn inwards around a centre, as in the cubic example that everybody begins with. From a
first point the solver goes through eight moments, which are compared with measured points. The
skill is the share of variance explained over curves from other points.
"""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, explained
from torch import Tensor, nn

from benchmarks.detection.case import cases

MOMENTS, APART = 8, 0.12
TURN = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])


def curves(count: int, seed: int, noise: float = 0.02) -> Tensor:
    """Points (MOMENTS, count, 2), solved in steps that are ten times finer."""
    draw = torch.Generator().manual_seed(seed)
    angle = 6.2832 * torch.rand(count, generator=draw)
    y = torch.stack([angle.cos(), angle.sin()], 1) * (0.8 + torch.rand(count, 1, generator=draw))
    points = [y]
    for _ in range(MOMENTS - 1):
        for _ in range(10):
            middle = y + APART / 20 * (y**3 @ TURN)
            y = y + APART / 10 * (middle**3 @ TURN)
        points.append(y)
    found = torch.stack(points)
    return found + noise * torch.randn(found.shape, generator=draw)


class Velocity(nn.Module):
    def __init__(self, width: int, cubed: bool, last: bool) -> None:
        super().__init__()
        self.cubed = cubed
        self.net = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2))
        if last:
            self.net.append(nn.ReLU())
        for part in self.net:
            if isinstance(part, nn.Linear):
                nn.init.normal_(part.weight, std=0.3)
                nn.init.zeros_(part.bias)

    def forward(self, time: Tensor, y: Tensor) -> Tensor:
        out: Tensor = self.net(y**3 if self.cubed else y)
        return out


def solve(velocity: nn.Module, y: Tensor, times: Tensor, method: str) -> Tensor:
    points = [y]
    for time, until in pairwise(times.unbind()):
        step = until - time
        first = velocity(time, y)
        if method == "midpoint":
            first = velocity(time + step / 2, y + step / 2 * first)
        if method == "heun":
            first = (first + velocity(until, y + step * first)) / 2
        y = y + step * first
        points.append(y)
    return torch.stack(points)


def train(
    seed: int, hook: Any, rate: float = 1e-2, steps: int = 2000, batch: int = 32,
    optimizer: str = "adam", loss: str = "squares", width: int = 48, cubed: bool = False,
    method: str = "midpoint", lessons: bool = False,
    scale: float = 1.0, clip: float = 0.0, last: bool = False, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    data, held, test = (curves(n, seed + 70 + i) for i, n in enumerate((600, 100, 300)))
    velocity = Velocity(width, cubed, last)
    hook.torch(velocity)
    chosen = copy.deepcopy(velocity) if fault == "network made again" else velocity
    optimizers: Any = {
        "adam": lambda p: torch.optim.Adam(p, rate),
        "rmsprop": lambda p: torch.optim.RMSprop(p, rate),
        "momentum": lambda p: torch.optim.SGD(p, rate, momentum=0.9),
    }
    stepper = optimizers[optimizer](chosen.parameters())
    falls = torch.optim.lr_scheduler.CosineAnnealingLR(stepper, steps, rate / 100)
    times = APART * torch.arange(MOMENTS).float()
    later = times * 10 if fault == "time in other units" else times
    for step in range(steps):
        seen = data[:, torch.randint(data.shape[1], (batch,))] * scale
        length = min(MOMENTS, 2 + step * 10 // steps) if lessons else MOMENTS
        seen = seen[:length]
        found = solve(velocity, seen[0], times[:length], method)
        if fault == "reshaped, not transposed":
            found = found.reshape(batch, length, 2)
            seen = seen.transpose(0, 1)
        error = (found - seen).abs().mean() if loss == "absolute" else ((found - seen) ** 2).mean()
        stepper.zero_grad()
        error.backward()
        if clip:
            nn.utils.clip_grad_norm_(velocity.parameters(), clip)
        stepper.step()
        falls.step()
        if step % 200 == 0:
            with torch.no_grad():
                found = solve(velocity, held[0] * scale, later, method)
                ((found - held * scale) ** 2).mean()
    with torch.no_grad():
        return explained(solve(velocity, test[0] * scale, later, method)[1:] / scale, test[1:])


CASES = cases(
    "spiral equation",
    train,
    {
        "plain": {},
        "absolute error, RMSprop": {"loss": "absolute", "optimizer": "rmsprop", "cubed": True},
        "points cubed": {"cubed": True, "rate": 5e-3},
        "longer curves later": {"lessons": True},
        "Heun, clipped": {"method": "heun", "clip": 0.05},
        "batch of four": {"cubed": True, "batch": 4, "steps": 2500, "rate": 4e-3},
    },
    {
        "reshaped, not transposed": ("no-skill broadcast", {"fault": "reshaped, not transposed"}),
        "relu at the end": ("range dead no-skill", {"last": True}),
        "network made again": ("unbound no-skill", {"fault": "network made again"}),
        "time in other units": ("inputs overfit", {"fault": "time in other units"}),
        "points in millimetres": ("inputs saturated slow no-skill", {"scale": 1000.0}),
    },
)
