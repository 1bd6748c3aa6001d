"""A network solves a differential equation: the loss is made of its derivatives, without labels."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin, dense, optimizer_of, scheduler_of
from benchmarks.detection.skill import explained


def solution(x: Tensor) -> Tensor:
    return torch.sin(2 * math.pi * x) + 0.5 * x


def curvature(x: Tensor) -> Tensor:
    return -4 * math.pi**2 * torch.sin(2 * math.pi * x)


def slope(y: Tensor, x: Tensor) -> Tensor:
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]


def train(
    seed: int,
    hook: Any,
    rate: float = 3e-3,
    steps: int = 1500,
    points: int = 64,
    optimizer: str = "adam",
    schedule: str = "cosine",
    edges: float = 10.0,
    activation: type[nn.Module] = nn.Tanh,
    fixed: bool = False,
    fault: str = "",
    scaled: float = 1.0,
    recorded: bool = False,
) -> float:
    begin(seed)
    model = dense([1, 32, 32, 1], activation)
    other = dense([1, 32, 32, 1], activation)
    parameters = (other if fault == "other model" else model).parameters()
    lbfgs = optimizer == "lbfgs"
    if lbfgs:
        stepper: Any = torch.optim.LBFGS(parameters, 0.5, max_iter=4)
        steps //= 5
    else:
        stepper = optimizer_of(optimizer, parameters, rate)
    scheduler = scheduler_of(stepper, schedule, steps)
    still = torch.linspace(0, 1, points)[:, None]
    ends = torch.tensor([[0.0], [1.0]])
    given = solution(ends) if fault != "no edges" else None
    watched = hook.torch(model)
    for step in range(steps):
        x = (still.clone() if fixed else torch.rand(points, 1)).requires_grad_()

        def closure(x: Tensor = x, step: int = step) -> Tensor:
            stepper.zero_grad()
            y = model(x)
            bend = slope(slope(y, x), x)
            wanted = curvature(x)
            if fault == "broadcast":
                wanted = wanted.squeeze(1)
            if fault == "points of others":
                wanted = wanted[torch.randperm(points)]
            if fault == "detached":
                bend = bend.detach()
            if fault == "not a number" and step == 300:
                bend = bend / (x - x)
            loss = (bend - wanted).square().mean() / 100
            if given is not None:
                loss = loss + edges * (model(ends) - given).square().mean()
            if recorded:
                watched.record_loss(loss)
            (scaled * loss).backward()
            return loss

        if lbfgs:
            stepper.step(closure)
        else:
            closure()
            stepper.step()
        scheduler.step()
    model.eval()
    x = torch.linspace(0, 1, 200)[:, None]
    with torch.no_grad():
        return explained(model(x), solution(x))


CASES = cases(
    "physics informed",
    train,
    {
        "plain": {},
        "L-BFGS": {"optimizer": "lbfgs", "schedule": "constant", "fixed": True},
        "loss x 10⁶": {"scaled": 1e6},
        "loss recorded": {"recorded": True},
        "sixteen points": {"points": 16, "steps": 2000},
        "SiLU": {"activation": nn.SiLU},
    },
    {
        "(N, 1) against (N)": ("broadcast no-skill", {"fault": "broadcast"}),
        "points of others": ("no-skill", {"fault": "points of others"}),
        "derivative detached": ("derivative no-skill no-gradient", {"fault": "detached"}),
        "optimizer of another model": ("unbound slow", {"fault": "other model"}),
        "ReLU has no curvature": (
            "derivative dead no-gradient no-skill",
            {"activation": nn.ReLU},
        ),
        "not a number": ("not-finite", {"fault": "not a number"}),
        "rate x 1000": ("fast saturated", {"rate": 3.0}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
    },
)
