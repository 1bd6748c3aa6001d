"""An actor and a critic walk to a goal on a small grid, many worlds at once."""

from __future__ import annotations

import math
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, optimizer_of, scheduler_of
from torch import Tensor, nn
from torch.distributions import Categorical

from benchmarks.detection.case import cases

SIDE, LIMIT = 5, 16
MOVES = torch.tensor([[0, 1], [0, -1], [1, 0], [-1, 0]])


class Grid:
    """``count`` worlds that start again by themselves. A goal gives 1, a step -0.04."""

    def __init__(self, count: int, seed: int) -> None:
        self.draw = torch.Generator().manual_seed(seed)
        self.at, self.goal = self._places(count), self._places(count)
        self.age = torch.zeros(count, dtype=torch.long)
        self._again(torch.ones(count, dtype=torch.bool))

    def _places(self, count: int) -> Tensor:
        return torch.randint(SIDE, (count, 2), generator=self.draw)

    def _again(self, done: Tensor) -> None:
        rows = done.nonzero()[:, 0]
        while len(rows):
            self.at[rows], self.goal[rows] = self._places(len(rows)), self._places(len(rows))
            rows = rows[(self.at[rows] == self.goal[rows]).all(1)]
        self.age[done] = 0

    def observe(self) -> Tensor:
        """(count, 6) between -1 and 1: the place, the goal, and the way to it."""
        at, goal = self.at / (SIDE - 1), self.goal / (SIDE - 1)
        return torch.cat([2 * at - 1, 2 * goal - 1, goal - at], 1)

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self.at = (self.at + MOVES[action]).clamp(0, SIDE - 1)
        self.age += 1
        there = (self.at == self.goal).all(1)
        reward = there.float() - 0.04
        done = there | (self.age >= LIMIT)
        self._again(done)
        return self.observe(), reward, done


class ActorCritic(nn.Module):
    def __init__(self, width: int, shared: bool, activation: type[nn.Module], fault: str) -> None:
        super().__init__()
        self.shared = shared
        self.body = self._body(width, activation)
        self.value_body = nn.Identity() if shared else self._body(width, activation)
        self.actor, self.critic = nn.Linear(width, 4), nn.Linear(width, 1)
        if fault == "actor of a wide start":
            nn.init.normal_(self.actor.weight, std=60.0)
        self.fault = fault

    def _body(self, width: int, activation: type[nn.Module]) -> nn.Module:
        return nn.Sequential(
            nn.Linear(6, width), activation(), nn.Linear(width, width), activation()
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.body(x)
        scores = self.actor(h)
        if self.fault == "softmax twice":
            scores = scores.softmax(1)
        value = self.critic(h if self.shared else self.value_body(x))
        return scores, value[:, 0]


def returns_of(rewards: list[Tensor], dones: list[Tensor], last: Tensor, gamma: float) -> Tensor:
    found = []
    for reward, done in zip(reversed(rewards), reversed(dones), strict=True):
        last = reward + gamma * last * ~done
        found.append(last)
    return torch.stack(found[::-1])


def advantages_of(
    rewards: list[Tensor],
    dones: list[Tensor],
    values: Tensor,
    last: Tensor,
    gamma: float,
    by: float,
) -> Tensor:
    """Generalized advantage estimation (Schulman et al. 2016)."""
    found, total, after = [], torch.zeros_like(last), last
    for i in reversed(range(len(rewards))):
        error = rewards[i] + gamma * after * ~dones[i] - values[i]
        total = error + gamma * by * total * ~dones[i]
        found.append(total)
        after = values[i]
    return torch.stack(found[::-1])


def train(
    seed: int, hook: Any, updates: int = 400, rate: float = 3e-3, worlds: int = 32, length: int = 6,
    optimizer: str = "adam", schedule: str = "constant", gamma: float = 0.95, gae: float = 1.0,
    entropy: float = 0.01, entropy_to: float | None = None, value_weight: float = 0.5,
    width: int = 48, shared: bool = True, activation: type[nn.Module] = nn.Tanh,
    clip: float = 0.5, normalized: bool = False, reward_scale: float = 1.0, huber: bool = False,
    scale: float = 1.0, observation_noise: float = 0.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    grid = Grid(worlds, seed + 1000)
    model = ActorCritic(width, shared, activation, fault)
    hook.torch(model)
    chosen = list(model.parameters())
    if fault == "critic alone":
        chosen = list(model.critic.parameters())
    optim = optimizer_of(optimizer, chosen, rate)
    scheduler = scheduler_of(optim, schedule, updates)
    state = grid.observe()
    for update in range(updates):
        log_probs, values, rewards, dones, entropies = [], [], [], [], []
        for _ in range(length):
            scores, value = model(state + observation_noise * torch.randn_like(state))
            if not bool(torch.isfinite(scores).all()):
                return math.nan  # no action can be drawn
            policy = Categorical(logits=scores, validate_args=False)
            entropies.append(policy.entropy())
            action = policy.sample()
            taken = policy.sample() if fault == "another action is scored" else action
            log_probs.append(policy.log_prob(taken))
            values.append(value)
            state, reward, done = grid.step(action)
            rewards.append(reward * reward_scale)
            dones.append(done)
        with torch.no_grad():
            last = model(state)[1]
        if fault == "rewards one step late":
            rewards = [torch.zeros_like(rewards[0]), *rewards[:-1]]
        value = torch.stack(values)
        wanted = returns_of(rewards, dones, last, gamma)
        advantage = advantages_of(rewards, dones, value.detach(), last, gamma, gae)
        scored = torch.stack(log_probs)
        if fault == "returns in a column":
            wanted, value, scored = wanted.reshape(-1, 1), value.flatten(), scored.flatten()
            advantage = wanted - value.detach()
        if normalized:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        policy_loss = -(scored * advantage).mean()
        if fault == "sign of the policy":
            policy_loss = -policy_loss
        error = wanted - value
        value_loss = nn.functional.huber_loss(value, wanted) if huber else (error**2).mean()
        left = 1 - update / updates
        weight = entropy if entropy_to is None else entropy_to + (entropy - entropy_to) * left
        loss = policy_loss + value_weight * value_loss - weight * torch.stack(entropies).mean()
        optim.zero_grad()
        (loss * scale).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optim.step()
        scheduler.step()
    return skill(model)


def skill(model: ActorCritic) -> float:
    """Mean return of an episode: 0 as of random moves, 1 as of the shortest ways."""
    model.eval()
    grid = Grid(500, 12345)
    state, alive, total = grid.observe(), torch.ones(500), torch.zeros(500)
    draw = torch.Generator().manual_seed(1)
    for _ in range(LIMIT):
        with torch.no_grad():
            scores = model(state)[0]
        if not bool(torch.isfinite(scores).all()):
            return math.nan
        action = torch.multinomial(scores.softmax(1), 1, generator=draw)[:, 0]
        state, reward, done = grid.step(action)
        total += reward * alive
        alive = alive * ~done
    return (float(total.mean()) - RANDOM) / (BEST - RANDOM)


RANDOM, BEST = -0.24, 0.87

CASES = cases(
    "grid actor-critic",
    train,
    {
        "plain": {},
        "two bodies": {"shared": False},
        "ReLU": {"activation": nn.ReLU},
        "generalized advantages": {"gae": 0.9},
        "normalized advantages": {"normalized": True, "entropy": 0.005},
        "entropy goes down": {"entropy": 0.05, "entropy_to": 0.0},
        "rate goes down": {"schedule": "cosine", "rate": 5e-3},
        "momentum": {"optimizer": "momentum", "rate": 0.1, "updates": 900},
        "four worlds": {"worlds": 4, "updates": 800, "rate": 2e-3},
        "many worlds": {"worlds": 256, "updates": 350, "rate": 5e-3},
        "long rollouts": {"length": 16, "updates": 350, "rate": 5e-3},
        "Huber for values": {"huber": True},
        "rewards x 10": {"reward_scale": 10.0, "clip": 5.0, "entropy": 0.1, "value_weight": 0.05},
        "noise in what is seen": {"observation_noise": 0.05},
        "not clipped, 10,000 x loss": {"clip": 0.0, "scale": 1e4},
        "low discount": {"gamma": 0.85},
        "long": {"updates": 900},
    },
    {
        "sign of the policy": ("no-skill worse collapse", {"fault": "sign of the policy"}),
        "another action is scored": ("no-skill", {"fault": "another action is scored"}),
        "rewards one step late": ("no-skill", {"fault": "rewards one step late", "gae": 0.0}),
        "returns in a column": ("broadcast no-skill", {"fault": "returns in a column"}),
        "softmax twice": ("probabilities slow", {"fault": "softmax twice"}),
        "critic alone": ("unbound no-skill slow", {"fault": "critic alone"}),
        "entropy x 500": ("no-skill", {"entropy": 5.0}),
        "sign of the entropy": ("collapse no-skill", {"entropy": -1.0}),
        "actor of a wide start": (
            "saturated collapse slow", {"fault": "actor of a wide start", "rate": 3e-4},
        ),
        "rate of 1": ("fast collapse dead saturated not-finite no-skill", {"rate": 1.0}),
        "rate of 3e-6": ("slow no-skill", {"rate": 3e-6}),
        "rewards x 10,000, shared": (
            "range fast no-skill", {"reward_scale": 1e4, "clip": 0.0, "optimizer": "sgd"},
        ),
    },
)  # fmt: skip
