"""A drone that flies to its mark as its pilot did, cloned from the records of the pilot's flights.

Observed are place, speed, mark and wind; actions are two forces. The skill is how near the clone
comes in flights of its own, where 1 is the pilot's own and 0 that of one constant force.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, dense
from torch import Tensor, nn

from benchmarks.detection.case import cases

MOMENTS, TICK = 40, 0.1


class Flight:
    def __init__(self, count: int, seed: int) -> None:
        self.draw = torch.Generator().manual_seed(seed)
        self.place = 30 * torch.randn(count, 2, generator=self.draw)
        self.speed = 5 * torch.randn(count, 2, generator=self.draw)
        self.mark = 30 * torch.randn(count, 2, generator=self.draw)
        self.wind = 4 * torch.randn(count, 2, generator=self.draw)

    def seen(self) -> Tensor:
        return torch.cat([self.place, self.speed, self.mark, self.wind], 1)

    def step(self, force: Tensor) -> None:
        gust = self.wind + torch.randn(self.wind.shape, generator=self.draw)
        self.speed = self.speed + TICK * (force.clamp(-40, 40) + gust - 0.2 * self.speed)
        self.place = self.place + TICK * self.speed


def pilot(seen: Tensor) -> Tensor:
    place, speed, mark, wind = seen.split(2, 1)
    wanted = (mark - place) * 1.2 / (1 + (mark - place).norm(dim=1, keepdim=True) / 40)
    return (3.0 * (wanted - speed) - wind).clamp(-40, 40)


def records(flights: int, seed: int, noise: float, late: int) -> dict[str, Tensor]:
    """What was seen at each moment, the force before it, and the pilot's."""
    flight, before, moments = Flight(flights, seed), torch.zeros(flights, 2), []
    for _ in range(MOMENTS):
        force = pilot(flight.seen())
        moments.append((flight.seen(), before, force))
        before = force
        flight.step(force + noise * torch.randn(force.shape, generator=flight.draw))
    seen, befores, forces = (torch.stack(part) for part in zip(*moments, strict=True))
    last = MOMENTS - late  # the recorder wrote forces so many moments later
    parts = {"seen": seen[:last], "before": befores[:last], "force": forces[late:]}
    return {name: part.flatten(0, 1) for name, part in parts.items()}


class Policy(nn.Module):
    def __init__(self, inputs: int, scale: float, bounded: bool) -> None:
        super().__init__()
        self.scale, self.bounded, self.layers = scale, bounded, dense([inputs, 64, 64, 4])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        force, spread = self.layers(x).chunk(2, 1)
        return self.scale * (torch.tanh(force) if self.bounded else force), spread.clamp(-5, 3)


def objective(policy: Policy, x: Tensor, force: Tensor, kind: str) -> Tensor:
    found, spread = policy(x)
    if kind == "likelihood":
        error = (force - found) / policy.scale / spread.exp()
        return (0.5 * error**2 + spread).sum(1).mean()
    return F.l1_loss(found, force) if kind == "absolute" else F.mse_loss(found, force)


def train(
    seed: int, hook: Any, loss: str = "squares", flights: int = 120, noise: float = 0.0,
    epochs: int = 10, batch: int = 64, rate: float = 2e-3, scale: float = 20.0,
    bounded: bool = False, late: int = 0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    data = records(flights, seed + 9400, noise, late)
    held = records(20, seed + 9401, noise, late)
    if fault == "force among the inputs":  # that of the moment itself, for the one before
        data["before"], held["before"] = data["force"], held["force"]
    spread, mean = torch.std_mean(data["seen"], 0)

    def inputs(seen: Tensor, before: Tensor, flying: bool = False) -> Tensor:
        if fault == "scaled twice in flight" and flying:
            seen = (seen - mean) / spread
        x = (seen - mean) / spread
        return torch.cat([x, before / 20], 1) if fault == "force among the inputs" else x

    policy = Policy(10 if fault == "force among the inputs" else 8, scale, bounded)
    hook.torch(policy)
    updates = torch.optim.Adam(policy.parameters(), rate)
    for _ in range(epochs):
        policy.train()
        for rows in torch.randperm(len(data["seen"])).split(batch):
            part = {name: values[rows] for name, values in data.items()}
            updates.zero_grad()
            error = objective(policy, inputs(part["seen"], part["before"]), part["force"], loss)
            error.backward()
            updates.step()
        policy.eval()
        with torch.no_grad():
            objective(policy, inputs(held["seen"], held["before"]), held["force"], loss)

    def flown(act: Any) -> float:
        flight, before, far = Flight(200, seed + 9402), torch.zeros(200, 2), 0.0
        for moment in range(MOMENTS):
            before = act(flight.seen(), before)
            flight.step(before)
            away = (flight.place - flight.mark).norm(dim=1).mean().item()
            far += away if moment >= MOMENTS // 2 else 0.0
        return far

    with torch.no_grad():
        own = flown(lambda seen, before: policy(inputs(seen, before, True))[0])
    best, none = flown(lambda seen, _: pilot(seen)), flown(lambda _, before: before)
    return (none - own) / (none - best)


CASES = cases(
    "expert records",
    train,
    {
        "plain": {},
        "a likelihood, below zero": {"loss": "likelihood", "rate": 1e-3},
        "absolute error": {"loss": "absolute"},
        "pilot disturbed on purpose": {"noise": 10.0},
        "forces bounded by tanh": {"bounded": True, "scale": 40.0},
        "large batches": {"batch": 480, "epochs": 40, "rate": 1e-2},
    },
    {
        "scaled twice in flight": ("inputs overfit", {"fault": "scaled twice in flight"}),
        "force among the inputs": ("leak", {"fault": "force among the inputs"}),
        "tanh for forces of tens": ("range saturated", {"bounded": True, "scale": 1.0}),
        "forces written late": ("inputs no-skill overfit", {"late": 12}),
        "two flights": ("overfit", {"flights": 2, "epochs": 300}),
    },
)  # fmt: skip
