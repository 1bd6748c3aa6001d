"""A Hamiltonian network of a pendulum: its energy is learned from angles, momenta and their change.

A sensor has recorded swings of all widths, with noise. The network gives one number, an energy,
whose derivatives by angle and momentum are how both will change: the loss is of these. The skill is
the share of the variance of the true change that is explained on other swings.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from benchmarks.detection.families.kit import begin, explained, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

STEP = 0.1


def field(state: Tensor) -> Tensor:
    """How angle and momentum change, (N, 2)."""
    return torch.stack([state[:, 1], -3.0 * state[:, 0].sin()], 1)


def after(state: Tensor, change: Any, time: float = STEP) -> Tensor:
    """The state a moment later, by Runge and Kutta's rule."""
    one = change(state)
    two = change(state + time / 2 * one)
    three = change(state + time / 2 * two)
    four = change(state + time * three)
    return cast(Tensor, state + time / 6 * (one + 2 * two + 2 * three + four))


def swings(count: int, seed: int, wrapped: bool = False) -> tuple[Tensor, ...]:
    """States, and their change by central differences; and states a moment later: (N, 2) each."""
    draw = torch.Generator().manual_seed(seed)
    angle = (2 * torch.rand(count // 30, generator=draw) - 1) * 2.4
    momentum = torch.randn(count // 30, generator=draw)
    recorded = [torch.stack([angle, momentum], 1)]
    for _ in range(31):
        recorded.append(after(recorded[-1], field))
    record = torch.stack(recorded)
    if wrapped:
        record[..., 0] = record[..., 0] % (2 * math.pi)
    record = record + 0.005 * torch.randn(record.shape, generator=draw)
    change = (record[2:] - record[:-2]) / (2 * STEP)
    return tuple(part.reshape(-1, 2) for part in (record[1:-1], change, record[2:]))


class Energy(nn.Module):
    """``direct``: the change is said as it is, without an energy."""

    def __init__(self, kind: type[nn.Module], direct: bool, units: int = 48) -> None:
        super().__init__()
        self.direct = direct
        self.net = nn.Sequential(
            nn.Linear(2, units), kind(), nn.Linear(units, units), kind(),
            nn.Linear(units, 2 if direct else 1),
        )  # fmt: skip

    def forward(self, state: Tensor) -> Tensor:
        return cast(Tensor, self.net(state))

    def change(self, state: Tensor, detached: bool = False) -> Tensor:
        if self.direct:
            return self(state)
        with torch.enable_grad():
            state = state if state.requires_grad else state.requires_grad_()
            slope = torch.autograd.grad(self(state).sum(), state, create_graph=True)[0]
        if detached:
            slope = torch.stack([slope[:, 0].detach(), slope[:, 1]], 1)
        return torch.stack([slope[:, 1], -slope[:, 0]], 1)


def train(
    seed: int, hook: Any, steps: int = 700, rate: float = 5e-3, batch: int = 100,
    kind: type[nn.Module] = nn.Tanh, direct: bool = False, solver: bool = False,
    optimizer: str = "adam", schedule: str = "constant", decay: float = 0.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    wrapped = fault == "angles wrapped"
    state, change, later = swings(1500, seed + 9800, wrapped)
    held, held_change, held_later = swings(300, seed + 9801, wrapped)
    test, _, _ = swings(1500, seed + 9802)
    if fault == "columns the other way round":
        change, held_change = change.flip(1), held_change.flip(1)
    if fault == "changes shuffled apart":
        change = change[torch.randperm(len(change))]
    model = Energy(kind, direct)
    hook.torch(model)
    stepper = optimizer_of(optimizer, model.parameters(), rate, decay)
    scheduler = scheduler_of(stepper, schedule, steps)

    def error(state: Tensor, change: Tensor, later: Tensor) -> Tensor:
        if solver:
            return (after(state, model.change) - later).square().mean()
        found = model.change(state, fault == "force detached")
        return (found - change).square().mean()

    for step in range(steps):
        rows = torch.randint(len(state), (batch,)) if batch else torch.arange(len(state))
        if fault != "gradients kept":
            stepper.zero_grad()
        error(state[rows], change[rows], later[rows]).backward()
        stepper.step()
        scheduler.step()
        if step % 100 == 99:
            model.eval()
            with torch.no_grad():
                error(held, held_change, held_later)
            model.train()
    return explained(model.change(test).detach(), field(test.detach()))


CASES = cases(
    "swinging pendulum",
    train,
    {
        "plain": {},
        "every state at once": {"batch": 0, "steps": 400},
        "softplus": {"kind": nn.Softplus, "rate": 1e-2},
        "without an energy": {"direct": True},
        "through the solver": {"solver": True, "steps": 400, "rate": 1e-2},
        "decay and cosine": {"optimizer": "adamw", "decay": 1e-3, "schedule": "cosine"},
    },
    {
        "angles wrapped": ("range worse no-skill overfit", {"fault": "angles wrapped"}),
        "columns the other way round": ("no-skill", {"fault": "columns the other way round"}),
        "force detached": ("no-gradient no-skill", {"fault": "force detached"}),
        "changes shuffled apart": ("no-skill overfit", {"fault": "changes shuffled apart"}),
        "gradients kept": (
            "kept-gradients fast worse",
            {"fault": "gradients kept", "optimizer": "momentum", "rate": 2e-2},
        ),
    },
)
