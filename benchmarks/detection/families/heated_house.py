"""Heating a house at changing prices of current: an actor and a critic, several houses at once.

Each hour the heat pump is off, half or full. A day costs current and degrees away from 21. The
skill is the mean daily return: 0 as of random choices, 1 as of a thermostat that knows the model.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of, scheduler_of
from torch import Tensor, nn
from torch.distributions import Categorical

from benchmarks.detection.case import cases

WANTED, HOURS, POWERS = 21.0, 24, torch.tensor([0.0, 1.5, 3.0])


class Houses:
    """Loses heat to the weather, gains it from the pump; days begin again by themselves."""

    def __init__(self, count: int, seed: int) -> None:
        self.draw = torch.Generator().manual_seed(seed)
        self.count = count
        self.reset()

    def reset(self) -> Tensor:
        u = torch.rand(self.count, 3, generator=self.draw)
        self.inside, self.mean = 17 + 8 * u[:, 0], -4 + 14 * u[:, 1]
        self.hour = 0
        self.price_shift = 6 * u[:, 2]
        return self.observe()

    def weather(self) -> Tensor:
        return self.mean - 4 * math.cos(6.28 * (self.hour - 3) / 24)

    def price(self) -> Tensor:
        return 0.15 + 0.1 * torch.sin(6.28 * (self.hour - self.price_shift) / 24)

    def observe(self) -> Tensor:
        """Degrees inside and outside, hour, price."""
        hour = torch.full((self.count,), float(self.hour))
        return torch.stack([self.inside, self.weather(), hour, self.price()], 1)

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, bool]:
        power = POWERS[action]
        self.inside = self.inside + 0.1 * (self.weather() - self.inside) + 1.2 * power
        self.inside = self.inside + 0.1 * torch.randn(self.count, generator=self.draw)
        reward = -power * self.price() - 0.3 * (self.inside - WANTED).abs()
        self.hour += 1
        done = self.hour == HOURS
        return (self.reset() if done else self.observe()), reward, done


def scaled(state: Tensor) -> Tensor:
    """About between -1 and 1."""
    return (state - torch.tensor([21.0, 3.0, 12.0, 0.15])) / torch.tensor([4.0, 6.0, 7.0, 0.1])


class Agent(nn.Module):
    def __init__(self, width: int, activation: type[nn.Module], fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.body = nn.Sequential(
            nn.Linear(4, width), activation(), nn.Linear(width, width), activation()
        )
        self.policy, self.value = nn.Linear(width, 3), nn.Linear(width, 1)

    def forward(self, state: Tensor) -> tuple[Tensor, Tensor]:
        h = self.body(state if self.fault == "degrees as they are" else scaled(state))
        scores = self.policy(h)
        return scores, self.value(h).squeeze(1)


def train(
    seed: int, hook: Any, updates: int = 700, rate: float = 3e-3, houses: int = 16, length: int = 8,
    optimizer: str = "adam", schedule: str = "constant", gamma: float = 0.9, entropy: float = 0.01,
    value_weight: float = 0.5, width: int = 48, activation: type[nn.Module] = nn.Tanh,
    clip: float = 0.5, normalized: bool = False, huber: bool = False, times: float = 1.0,
    watch: int = 0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    env = Houses(houses, seed + 40)
    agent = Agent(width, activation, fault)
    hook.torch(agent)
    parameters = agent.value.parameters() if fault == "value head alone" else agent.parameters()
    optim = optimizer_of(optimizer, parameters, rate)
    scheduler = scheduler_of(optim, schedule, updates)
    state = env.observe()
    for update in range(updates):
        logs, values, rewards, ends, entropies = [], [], [], [], []
        for _ in range(length):
            scores, value = agent(state)
            if not bool(scores.isfinite().all()):
                return math.nan
            policy = Categorical(logits=scores, validate_args=False)
            action = policy.sample()
            logs.append(policy.log_prob(policy.sample() if fault == "drawn twice" else action))
            values.append(value)
            entropies.append(policy.entropy())
            state, reward, end = env.step(action)
            rewards.append(reward)
            ends.append(end)
        with torch.no_grad():
            total = agent(state)[1]
        returns = []
        for reward, end in zip(reversed(rewards), reversed(ends), strict=True):
            total = reward + gamma * total * (1 - end)
            returns.insert(0, total)
        wanted, value, log = torch.stack(returns), torch.stack(values), torch.stack(logs)
        if fault == "returns in a column":
            wanted, value, log = wanted.reshape(-1, 1), value.flatten(), log.flatten()
        advantage = wanted - value.detach()
        if normalized:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        if fault == "costs as rewards":
            advantage = -advantage
        actor = -(log * advantage).mean()
        critic = F.smooth_l1_loss(value, wanted) if huber else (wanted - value).pow(2).mean()
        loss = actor + value_weight * critic - entropy * torch.stack(entropies).mean()
        optim.zero_grad()
        (times * loss).backward()
        if clip:
            nn.utils.clip_grad_norm_(agent.parameters(), clip)
        optim.step()
        scheduler.step()
        if watch and (update + 1) % watch == 0:
            daily_return(agent, 50)
    return (daily_return(agent, 400) - RANDOM) / (BEST - RANDOM)


def daily_return(agent: Agent | None, count: int, knows: bool = False) -> float:
    """Of the likeliest actions; of random ones without an agent."""
    env = Houses(count, 4321)
    total, draw = torch.zeros(count), torch.Generator().manual_seed(7)
    for _ in range(HOURS):
        if agent is None:
            lost = 0.1 * (env.weather() - env.inside)
            after = (env.inside + lost)[:, None] + 1.2 * POWERS
            action = torch.randint(3, (count,), generator=draw)
            if knows:
                action = (0.3 * (after - WANTED).abs() + POWERS * env.price()[:, None]).argmin(1)
        else:
            with torch.no_grad():
                scores = agent(env.observe())[0]
            if not bool(scores.isfinite().all()):
                return math.nan
            action = scores.argmax(1)
        total += env.step(action)[1]
    return float(total.mean())


RANDOM, BEST = -31.8, -9.3  # as daily_return says without an agent

CASES = cases(
    "heated house",
    train,
    {
        "plain": {},
        "normalised advantages, watched": {"normalized": True, "watch": 100},
        "ReLU, rate goes down": {"activation": nn.ReLU, "schedule": "cosine"},
        "not clipped, 1000 x loss": {"clip": 0.0, "times": 1e3},
        "Huber for values": {"huber": True, "value_weight": 1.0},
        "whole days": {"length": 24, "updates": 400, "rate": 5e-3},
        "four houses": {"houses": 4, "updates": 1200, "rate": 2e-3},
    },
    {
        "degrees as they are": ("inputs saturated no-skill", {"fault": "degrees as they are"}),
        "value head alone": ("unbound no-skill slow", {"fault": "value head alone"}),
        "drawn twice": ("no-skill", {"fault": "drawn twice"}),
        "returns in a column": ("broadcast no-skill", {"fault": "returns in a column"}),
        "costs as rewards": ("no-skill worse collapse", {"fault": "costs as rewards"}),
        "rate of 0.5": ("fast collapse saturated no-skill", {"rate": 0.5}),
        "rate of 3e-6": ("slow no-skill", {"rate": 3e-6}),
    },
)
