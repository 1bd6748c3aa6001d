"""A battery buys and sells power as its price goes up and down by the hour: deep Q-learning.

Many batteries deal at once; what they lived through goes to a memory, and a slow copy of the
network says what the next state is worth. The skill is the profit of the greedy policy as a share
of what perfect dealers earn who know all prices; a battery that never deals has 0.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

ROOM, HOURS, MEAN_PRICE, FEE = 5, 24, 60.0, 0.08


class Market:
    """Prices in euros, high in the evening and low at night, for each battery its own."""

    def __init__(self, batteries: int, draw: torch.Generator) -> None:
        self.draw, self.batteries = draw, batteries
        self.hour = torch.randint(HOURS, (batteries,), generator=draw)
        self.charge = torch.randint(ROOM + 1, (batteries,), generator=draw)
        self.mood = torch.zeros(batteries)
        self.price = self.priced()

    def priced(self) -> Tensor:
        self.mood = 0.7 * self.mood + 8 * torch.randn(self.batteries, generator=self.draw)
        angle = 2 * math.pi * self.hour / HOURS
        wave = 25 * (angle - 4.7).cos() + 10 * (2 * angle - 4.0).cos()
        return MEAN_PRICE + wave + self.mood

    def seen(self, raw: bool = False) -> Tensor:
        angle = 2 * math.pi * self.hour / HOURS
        price = self.price * 1e3 if raw else (self.price - MEAN_PRICE) / 25
        charge = self.charge * 1e3 if raw else self.charge / ROOM * 2 - 1
        return torch.stack([charge, price, angle.sin(), angle.cos()], 1)

    def deal(self, action: Tensor) -> Tensor:
        """Gained, in units of 25 euros over the mean price, less a fee for each deal."""
        change = (action - 1).clamp(-self.charge, ROOM - self.charge)
        gain = -change * (self.price - MEAN_PRICE) / 25 - FEE * change.abs()
        self.charge = self.charge + change
        self.hour = (self.hour + 1) % HOURS
        self.price = self.priced()
        return gain


class Values(nn.Module):
    """What each action is worth; ``duel``: the state's worth and what an action adds."""

    def __init__(self, width: int, duel: bool, softmax: bool) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(4, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.action = nn.Linear(width, 3)
        self.state = nn.Linear(width, 1) if duel else None
        self.softmax = softmax

    def forward(self, seen: Tensor) -> Tensor:
        inner = self.body(seen)
        values: Tensor = self.action(inner)
        if self.state is not None:
            values = values - values.mean(1, keepdim=True) + self.state(inner)
        return values.softmax(1) if self.softmax else values


class Memory:
    def __init__(self, size: int) -> None:
        self.size, self.filled, self.at = size, 0, 0
        self.seen, self.then = torch.zeros(size, 4), torch.zeros(size, 4)
        self.action, self.gain = torch.zeros(size, dtype=torch.long), torch.zeros(size)

    def add(self, seen: Tensor, action: Tensor, gain: Tensor, then: Tensor) -> None:
        rows = (self.at + torch.arange(len(seen))) % self.size
        self.seen[rows], self.action[rows], self.gain[rows], self.then[rows] = (
            seen, action, gain, then,
        )  # fmt: skip
        self.at = (self.at + len(seen)) % self.size
        self.filled = min(self.size, self.filled + len(seen))

    def sample(self, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        rows = torch.randint(self.filled, (count,))
        return self.seen[rows], self.action[rows], self.gain[rows], self.then[rows]


def perfect(prices: Tensor, charge: Tensor) -> Tensor:
    """What each battery can earn at most with prices that are known, (hours, batteries)."""
    worth = torch.zeros(len(charge), ROOM + 1)
    for price in prices.flip(0):
        best = worth.clone()
        best[:, 1:] = torch.maximum(best[:, 1:], worth[:, :-1] + (price - FEE)[:, None])
        best[:, :-1] = torch.maximum(best[:, :-1], worth[:, 1:] - (price + FEE)[:, None])
        worth = best
    return worth.gather(1, charge[:, None]).squeeze(1)


def profit(model: nn.Module, seed: int, raw: bool = False) -> float:
    """Of three days of 200 batteries, as a share of what perfect dealers earn."""
    market = Market(200, torch.Generator().manual_seed(seed))
    earned, prices, first = torch.zeros(200), [], market.charge
    model.eval()
    with torch.no_grad():
        for _ in range(3 * HOURS):
            prices.append((market.price - MEAN_PRICE) / 25)
            values = model(market.seen(raw))
            earned += market.deal(values.argmax(1))
    model.train()
    share = earned.sum() / perfect(torch.stack(prices), first).sum()
    return share.item() if bool(values.isfinite().all()) else math.nan


def train(
    seed: int, hook: Any, updates: int = 2500, rate: float = 1e-3, batch: int = 64,
    discount: float = 0.95, copied_every: int = 50, soft: float = 0.0, double: bool = False,
    duel: bool = False, squared: bool = False, optimizer: str = "adam", schedule: str = "constant",
    clip: float = 0.0, memory: int = 20000, waiting: int = 20, least: float = 0.1,
    batteries: int = 16, evaluate_every: int = 250, softmax: bool = False, raw: bool = False,
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    model = Values(48, duel, softmax)
    slow = copy.deepcopy(model).requires_grad_(fault == "optimizer of the slow copy")
    hook.torch(model)
    trained = slow if fault == "optimizer of the slow copy" else model
    steering = optimizer_of(optimizer, trained.parameters(), rate)
    scheduler = scheduler_of(steering, schedule, updates)
    criterion = nn.MSELoss() if squared else nn.SmoothL1Loss()
    market, lived = Market(batteries, torch.Generator().manual_seed(seed + 5)), Memory(memory)
    seen = market.seen(raw)
    for step in range(updates + waiting):
        exploring = max(least, 1 - 2 * step / updates)
        with torch.no_grad():
            action = model(seen).argmax(1)
        by_chance = torch.rand(batteries) < exploring
        action = torch.where(by_chance, torch.randint(3, (batteries,)), action)
        gain = market.deal(action)
        then = market.seen(raw)
        lived.add(seen, action, gain, then)
        seen = then
        if step < waiting:
            continue
        before, chosen, gained, after = lived.sample(batch)
        with torch.no_grad():
            coming = slow(after)
            best = model(after).argmax(1) if double else coming.argmax(1)
            target = gained + discount * coming.gather(1, best[:, None]).squeeze(1)
        worth = model(before).gather(1, chosen[:, None])
        if fault != "columns and rows":
            worth = worth.squeeze(1)
        error = criterion(worth, target)
        if fault != "gradients kept":
            steering.zero_grad()
        error.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        steering.step()
        scheduler.step()
        if soft:
            with torch.no_grad():
                for kept, new in zip(slow.parameters(), model.parameters(), strict=True):
                    kept.lerp_(new, soft)
        elif step % copied_every == 0:
            slow.load_state_dict(model.state_dict())
        if evaluate_every and (step + 1) % evaluate_every == 0:
            profit(model, seed + 99, raw)
    return profit(model, seed + 1098, raw)


CASES = cases(
    "battery dealer",
    train,
    {
        "plain": {},
        "soft copy, double": {"soft": 0.02, "double": True},
        "duel, clipped": {"duel": True, "clip": 1.0},
        "squared error, AdamW": {"squared": True, "optimizer": "adamw", "rate": 5e-4},
        "large batch, few batteries": {"batch": 256, "batteries": 4, "updates": 2000},
        "momentum, no evaluation": {
            "optimizer": "momentum", "rate": 2e-2, "evaluate_every": 0, "updates": 3000,
        },
        "cosine, explores to the end": {"schedule": "cosine", "least": 0.5, "rate": 3e-3},
    },
    {
        "columns and rows": ("broadcast no-skill", {"fault": "columns and rows"}),
        "softmax at the end": ("probabilities range no-skill saturated", {"softmax": True}),
        "rate of 0.3": ("fast dead no-skill", {"rate": 0.3}),
        "optimizer of the slow copy": (
            "unbound no-skill", {"fault": "optimizer of the slow copy"}
        ),
        "gradients kept": ("kept-gradients fast worse", {"fault": "gradients kept"}),
        "units of the meter": ("inputs dead worse", {"raw": True}),
    },
)  # fmt: skip
