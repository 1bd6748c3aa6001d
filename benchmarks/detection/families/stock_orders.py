"""A duelling double DQN with replay orders the stock of a shop; costs are rewards below zero."""

from __future__ import annotations

import copy
import logging
from collections import deque
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, factor, optimizer_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

log = logging.getLogger(__name__)

SHELF, ORDERS, DAYS = 20, 6, 7
PER_ORDER = 2
"""Pieces: an order of k brings 2 k the next morning."""
DEMAND = np.array([1.0, 1.0, 2.0, 3.0, 5.0, 8.0, 0.2])
HOLDING, LOST, DELIVERY = 0.05, 1.0, 0.6


class Shop:
    """Several shops at once. The state is (stock, day of the week)."""

    def __init__(self, count: int, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        self.stock = self.draw.integers(0, SHELF + 1, count)
        self.day = self.draw.integers(0, DAYS, count)

    def step(self, orders: Any) -> Any:
        """Sells for a day; the rewards."""
        wanted = self.draw.poisson(DEMAND[self.day])
        sold = np.minimum(wanted, self.stock)
        left = self.stock - sold
        reward = -(HOLDING * left + LOST * (wanted - sold) + DELIVERY * (orders > 0))
        self.stock = np.minimum(left + PER_ORDER * orders, SHELF)
        self.day = (self.day + 1) % DAYS
        return reward.astype(np.float32)


def mean_cost(policy: Any) -> float:
    """Of a day, by a simulation whose demand is always the same; policy is (21, 7)."""
    shop = Shop(128, 77)
    rewards = [shop.step(policy[shop.stock, shop.day]).mean() for _ in range(105)]
    return -float(np.mean(rewards[21:]))


def best_policy(discount: float = 0.95) -> Any:
    """By value iteration."""
    many = np.arange(30)
    logs = np.log(DEMAND)[:, None] * many - np.cumsum(np.log(np.maximum(many, 1)))
    chance = np.exp(logs - DEMAND[:, None])
    stock = np.arange(SHELF + 1)[:, None]
    left = np.maximum(stock - many, 0)
    now = chance @ (-(HOLDING * left + LOST * np.maximum(many - stock, 0))).T
    after = np.minimum(left[..., None] + PER_ORDER * np.arange(ORDERS), SHELF)
    paid = DELIVERY * (np.arange(ORDERS) > 0)
    value = np.zeros((DAYS, SHELF + 1))
    for _ in range(300):
        then = np.roll(value, -1, 0)
        action = np.stack([
            now[d][:, None] - paid + discount * np.einsum("m,sma->sa", chance[d], then[d][after])
            for d in range(DAYS)
        ])  # fmt: skip
        value = action.max(-1)
    return action.argmax(-1).T


class Replay:
    def __init__(self, size: int, width: int) -> None:
        self.state = np.zeros((size, width), np.float32)
        self.following = np.zeros((size, width), np.float32)
        self.action, self.reward = np.zeros(size, np.int64), np.zeros(size, np.float32)
        self.size, self.at, self.full = size, 0, False

    def add(self, state: Any, action: Any, reward: Any, following: Any) -> None:
        rows = (self.at + np.arange(len(state))) % self.size
        self.state[rows], self.following[rows] = state, following
        self.action[rows], self.reward[rows] = action, reward
        self.full |= self.at + len(state) >= self.size
        self.at = (self.at + len(state)) % self.size

    def sample(self, count: int, draw: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        rows = draw.integers(self.size if self.full else self.at, size=count)
        return (
            torch.from_numpy(self.state[rows]), torch.from_numpy(self.action[rows]),
            torch.from_numpy(self.reward[rows]), torch.from_numpy(self.following[rows]),
        )  # fmt: skip


class Duelling(nn.Module):
    def __init__(self, inputs: int, units: int, layer_norm: bool, last: str) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(inputs, units), nn.LayerNorm(units) if layer_norm else nn.Identity(),
            nn.ReLU(), nn.Linear(units, units), nn.ReLU(),
        )  # fmt: skip
        self.value, self.advantage = nn.Linear(units, 1), nn.Linear(units, ORDERS)
        self.last = {"relu": torch.relu, "tanh": torch.tanh}.get(last, lambda q: q)

    def forward(self, x: Tensor) -> Tensor:
        found = self.body(x)
        advantage = self.advantage(found)
        q: Tensor = self.last(self.value(found) + advantage - advantage.mean(1, keepdim=True))
        return q


def observation(stock: Any, day: Any, wrong: str) -> Any:
    level = np.asarray(stock, np.float32)[:, None]
    week = np.eye(DAYS, dtype=np.float32)[day]
    if wrong == "logarithm of an empty shelf":
        with np.errstate(divide="ignore"):
            return np.concatenate([np.log(level), week], 1)
    if wrong == "day left out":
        week = np.zeros_like(week)
    scale = 0.005 if wrong == "in grams" else SHELF
    return np.concatenate([level / scale, week], 1)


def greedy(model: nn.Module, wrong: str) -> Any:
    """The policy (21, 7) that the network stands for."""
    stock, day = (part.ravel() for part in np.mgrid[0 : SHELF + 1, 0:DAYS])
    with torch.no_grad():
        q = model(torch.from_numpy(observation(stock, day, wrong)))
    return q.argmax(1).numpy().reshape(SHELF + 1, DAYS) if torch.isfinite(q).all() else None


def train(
    seed: int, hook: Any, rate: float = 2e-3, updates: int = 2400, batch: int = 32,
    discount: float = 0.9, optimizer: str = "adam", schedule: str = "cosine", decay: float = 0.0,
    clip: float = 10.0, units: int = 64, layer_norm: bool = False, double: bool = True,
    loss: str = "huber", soft: float = 0.0, sync: int = 50, cents: float = 1.0, memory: int = 20000,
    broken: float = 0.0, last: str = "", wrong: str = "",
) -> float:  # fmt: skip
    begin(seed)
    draw = np.random.default_rng(seed)
    shop, replay = Shop(16, seed + 1), Replay(memory, 1 + DAYS)
    model = Duelling(1 + DAYS, units, layer_norm, last)
    target = copy.deepcopy(model)
    chosen = target if wrong == "target's parameters" else model
    stepper = optimizer_of(optimizer, chosen.parameters(), rate, decay)
    scheduler = torch.optim.lr_scheduler.LambdaLR(stepper, lambda s: factor(schedule, s, updates))
    returns: deque[float] = deque(maxlen=100)
    hook.torch(model)
    state = observation(shop.stock, shop.day, wrong)
    for update in range(-30, updates):
        epsilon = max(0.05, 1 - 2 * update / updates) if update >= 0 else 1.0
        with torch.no_grad():
            action = model(torch.from_numpy(state)).argmax(1).numpy()
        explores = draw.random(16) < epsilon
        action = np.where(explores, draw.integers(ORDERS, size=16), action)
        reward = shop.step(action)
        following = observation(shop.stock, shop.day, wrong)
        if broken:
            reward = np.where(draw.random(16) < broken, reward * 3, reward).astype(np.float32)
        returns.append(float(reward.mean()))
        gained = -reward if wrong == "costs as rewards" else reward * np.float32(cents)
        kept = following if wrong == "state overwritten" else state
        replay.add(kept, action, gained, following)
        state = following
        if update < 0:
            continue
        now, done, gained, then = replay.sample(batch, draw)
        q = model(now).gather(1, done[:, None])
        if wrong == "best instead of taken":
            q = model(now).max(1, keepdim=True).values
        if wrong == "target's parameters":
            q = target(now).gather(1, done[:, None])
        with torch.no_grad():
            best = (model if double else target)(then).argmax(1, keepdim=True)
            ahead = target(then).gather(1, best)
        if wrong == "mask upside down":
            ahead = ahead * 0
        wanted = gained[:, None] + discount * ahead
        if wrong == "column against row":
            wanted = gained + discount * ahead.squeeze(1)
        error = F.mse_loss(q, wanted) if loss == "squares" else F.smooth_l1_loss(q, wanted)
        if wrong != "gradients kept":
            stepper.zero_grad()
        (error * (1e4 if loss == "x 1e4" else 1)).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        stepper.step()
        scheduler.step()
        with torch.no_grad():
            if soft:
                for old, new in zip(target.parameters(), model.parameters(), strict=True):
                    old.lerp_(new, soft)
            elif update % sync == 0:
                target.load_state_dict(model.state_dict())
        if update % 200 == 199:
            log.info("%d: mean reward %.3f, epsilon %.2f", update, np.mean(returns), epsilon)
    policy = greedy(model, wrong)
    if policy is None:
        return float("nan")
    without = min(mean_cost(np.full((SHELF + 1, DAYS), order)) for order in range(ORDERS))
    return (without - mean_cost(policy)) / (without - mean_cost(best_policy()))


CASES = cases(
    "stock orders",
    train,
    {
        "plain": {},
        "constant rate": {"schedule": "constant", "rate": 1e-3},
        "target that follows slowly": {"soft": 0.02},
        "squared error": {"loss": "squares"},
        "loss x 1e4": {"loss": "x 1e4", "clip": 0.0},
        "without double": {"double": False},
        "batch of 512": {"batch": 512, "rate": 4e-3, "updates": 1500},
        "layer norm": {"layer_norm": True},
        "wide": {"units": 128},
        "warm-up": {"schedule": "warmup"},
        "restarts": {"schedule": "restarts"},
        "AdamW": {"optimizer": "adamw", "decay": 0.01},
        "some bills three times as high": {"broken": 0.05},
        "small memory": {"memory": 2000},
    },
    {
        "column against row": ("broadcast", {"wrong": "column against row"}),
        "costs in cents": ("range slow no-skill", {"cents": 100.0, "loss": "squares", "clip": 0.0}),
        "mask upside down": ("no-skill range", {"wrong": "mask upside down"}),
        "costs as rewards": ("worse no-skill", {"wrong": "costs as rewards"}),
        "state overwritten": ("inputs leak no-skill", {"wrong": "state overwritten"}),
        "best instead of taken": ("no-skill worse", {"wrong": "best instead of taken"}),
        "target's parameters in the optimizer": (
            "unbound no-gradient",
            {"wrong": "target's parameters"},
        ),
        "relu on values": ("dead no-gradient range", {"last": "relu"}),
        "tanh on values": ("saturated range no-gradient", {"last": "tanh"}),
        "logarithm of an empty shelf": (
            "not-finite inputs",
            {"wrong": "logarithm of an empty shelf"},
        ),
        "stock in grams": ("inputs fast worse", {"wrong": "in grams"}),
        "day left out": ("inputs no-skill", {"wrong": "day left out"}),
        "discount above one": ("worse fast not-finite range", {"discount": 1.05, "clip": 0.0}),
        "gradients kept": (
            "kept-gradients fast worse",
            {"wrong": "gradients kept", "optimizer": "sgd", "rate": 0.05, "clip": 0.0},
        ),
        "rate of one": ("fast worse dead no-skill", {"rate": 1.0, "clip": 0.0}),
        "rate of 1e-6": ("slow no-skill", {"rate": 1e-6}),
        "decay of 0.3": ("no-skill collapse dead", {"decay": 0.3}),
    },
)
