"""A cart on a rail learns to drive to its mark and to stop there, by TD3 from a replay memory.

Two critics, a delayed actor, noise on the target's actions. The skill is the return of the actor
without noise, from 0 for one that never pushes to 1 for a good controller written by hand.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, dense
from torch import Tensor, nn

from benchmarks.detection.case import cases

CARTS, LENGTH, MEMORY = 8, 40, 12000
REACH = 0.15


class Rail:
    """Carts (N, 3): place, speed and mark; a push is between -1 and 1."""

    def __init__(self, count: int, seed: int) -> None:
        self.draw = torch.Generator().manual_seed(seed)
        self.count, self.time = count, 0

    def reset(self) -> Tensor:
        place, mark = (2 * torch.rand(2, self.count, generator=self.draw) - 1).unbind()
        self.state, self.time = torch.stack([place, torch.zeros(self.count), mark], 1), 0
        return self.state

    def step(self, push: Tensor) -> tuple[Tensor, Tensor, bool]:
        place, speed, mark = self.state.unbind(1)
        speed = 0.9 * speed + REACH * push[:, 0].clamp(-1, 1)
        place = (place + REACH * speed).clamp(-2, 2)
        self.state, self.time = torch.stack([place, speed, mark], 1), self.time + 1
        reward = -(place - mark).abs() - 0.05 * push[:, 0] ** 2
        return self.state, reward, self.time >= LENGTH


class Agent(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.actor = dense((3, width, width, 1))
        self.critics = nn.ModuleList(dense((4, width, width, 1)) for _ in range(2))

    def act(self, state: Tensor) -> Tensor:
        push: Tensor = self.actor(state).tanh()
        return push

    def values(self, state: Tensor, push: Tensor) -> list[Tensor]:
        return [critic(torch.cat([state, push], 1)) for critic in self.critics]


def drive(act: Any, seed: int) -> float:
    """The mean return."""
    rail = Rail(200, seed)
    state, total, over = rail.reset(), 0.0, False
    with torch.no_grad():
        while not over:
            state, reward, over = rail.step(act(state))
            total += reward.mean().item()
    return total


def by_hand(state: Tensor) -> Tensor:
    return (4 * (state[:, 2:] - state[:, :1]) - 1.6 * state[:, 1:2]).clamp(-1, 1)


def train(
    seed: int, hook: Any, steps: int = 2000, rate: float = 2e-3, batch: int = 64, tau: float = 0.02,
    discount: float = 0.95, noise: float = 0.3, delay: int = 2, critics: int = 2, width: int = 32,
    unit: float = 1.0, huber: bool = False, every: int = 500, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    agent = Agent(width)
    hook.torch(agent)
    target = copy.deepcopy(agent).requires_grad_(False)
    actor_step = torch.optim.Adam(agent.actor.parameters(), rate / 2)
    critic_step = torch.optim.Adam(agent.critics.parameters(), rate)
    size, filled = MEMORY // CARTS, 0
    memory = [torch.zeros(size, CARTS, width) for width in (3, 1, 1, 3)]
    rail = Rail(CARTS, seed + 8700)
    state = rail.reset()
    for step in range(steps + 50):
        with torch.no_grad():
            push = 2 * torch.rand(CARTS, 1) - 1
            if step >= 50:
                push = (agent.act(state) + noise * torch.randn(CARTS, 1)).clamp(-1, 1)
        after, reward, over = rail.step(push)
        if fault == "costs as rewards":
            reward = -reward
        if fault == "state kept by reference":  # what is stored is already the state that follows
            state = after
        for part, value in zip(memory, (state, push, reward[:, None] * unit, after), strict=True):
            part[filled % size] = value
        filled += 1
        state = rail.reset() if over else after
        if step < 50:
            continue
        rows = torch.randint(min(filled, size), (batch,)), torch.randint(CARTS, (batch,))
        seen, done, gained, then = (part[rows] for part in memory)
        if fault == "rewards without their dimension":
            gained = gained[:, 0]
        with torch.no_grad():
            shake = (0.2 * torch.randn(batch, 1)).clamp(-0.5, 0.5)
            answer = (target.act(then) + shake).clamp(-1, 1)
            later = torch.stack(target.values(then, answer)[:critics]).amin(0)
            wanted = gained + discount * later
        criterion = F.smooth_l1_loss if huber else F.mse_loss
        found = agent.values(seen, done)[:critics]
        critic_loss = torch.stack([criterion(of, wanted) for of in found]).sum()
        critic_step.zero_grad()
        critic_loss.backward()
        critic_step.step()
        if step % delay == 0:
            worth = agent.values(seen, agent.act(seen))[0].mean()
            actor_loss = worth if fault == "actor descends its value" else -worth
            actor_step.zero_grad()
            actor_loss.backward()
            actor_step.step()
            with torch.no_grad():
                for slow, fast in zip(target.parameters(), agent.parameters(), strict=True):
                    slow.lerp_(fast, tau)
        if every and step % every == every - 1:
            drive(agent.act, seed + 8701)
    mine, idle = drive(agent.act, 8702), drive(lambda state: torch.zeros(len(state), 1), 8702)
    return (mine - idle) / (drive(by_hand, 8702) - idle)


CASES = cases(
    "cart td3",
    train,
    {
        "plain": {},
        "one critic, no delay": {"critics": 1, "delay": 1},
        "rewards ten times smaller": {"unit": 0.1},
        "Huber loss, no evaluation": {"huber": True, "every": 0},
        "a lot of noise": {"noise": 0.8},
        "a target that follows slowly": {"tau": 0.008, "steps": 3000},
    },
    {
        "costs as rewards": ("no-skill worse", {"fault": "costs as rewards"}),
        "rewards without their dimension": (
            "broadcast no-skill",
            {"fault": "rewards without their dimension"},
        ),
        "actor descends its value": (
            "worse no-skill saturated",
            {"fault": "actor descends its value"},
        ),
        "state kept by reference": ("no-skill", {"fault": "state kept by reference"}),
        "rate x 300": ("fast saturated dead worse no-skill", {"rate": 0.6}),
    },
)
