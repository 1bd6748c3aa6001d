"""The lights of a junction, switched by an actor and a critic that see how many cars wait.

Sixteen junctions of two roads run at once. More cars come by one road than by the other, and that
changes. A green road lets three cars pass at a time; after a switch nobody moves for two steps. The
skill is the waiting of other hours, from lights that switch by the clock to a rule by hand.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, dense, optimizer_of, scheduler_of
from torch import Tensor, nn
from torch.distributions import Categorical

from benchmarks.detection.case import cases

EPISODE, ROOM = 60, 30.0


class Junctions:
    """Some junctions at once: keep the light (0) or switch it (1)."""

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.draw = count, torch.Generator().manual_seed(seed)
        self.reset()

    def reset(self) -> Tensor:
        self.queues = torch.randint(0, 10, (self.count, 2), generator=self.draw).float()
        self.green = torch.randint(0, 2, (self.count,), generator=self.draw)
        self.since = torch.zeros(self.count)
        self.rates = self._rates()
        self.time = 0
        return self.observe()

    def _rates(self) -> Tensor:
        share = torch.rand(self.count, generator=self.draw)
        return 1.7 * torch.stack([share, 1 - share], 1)

    def observe(self) -> Tensor:
        """Cars before green and before red, and steps since the last switch: (N, 3)."""
        rows = torch.arange(self.count)
        waiting = (self.queues[rows, self.green], self.queues[rows, 1 - self.green])
        return torch.stack([*waiting, self.since], 1)

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, bool]:
        self.green = torch.where(action == 1, 1 - self.green, self.green)
        self.since = torch.where(action == 1, torch.zeros(self.count), self.since + 1)
        self.queues += torch.poisson(self.rates, generator=self.draw)
        rows = torch.arange(self.count)
        self.queues[rows, self.green] -= 3.0 * (self.since >= 2)
        self.queues = self.queues.clamp(0, ROOM)
        self.time += 1
        if self.time % 20 == 0:
            self.rates = self._rates()
        return self.observe(), -self.queues.sum(1), self.time >= EPISODE


def by_clock(seen: Tensor) -> Tensor:
    return (seen[:, 2] >= 8).long()


def by_hand(seen: Tensor) -> Tensor:
    return ((seen[:, 2] >= 2) & (seen[:, 1] > 3 * seen[:, 0] + 2)).long()


def waiting(policy: Any, seed: int, count: int = 300) -> float:
    junctions, total, done = Junctions(count, seed), 0.0, False
    seen = junctions.observe()
    while not done:
        seen, reward, done = junctions.step(policy(seen))
        total += float(reward.mean()) / EPISODE
    return total


class Operator(nn.Module):
    """Logits of both actions and how the hour will go."""

    def __init__(self, width: int, activation: type[nn.Module], shared: bool) -> None:
        super().__init__()
        self.body = nn.Sequential(*dense([3, width, width], activation), activation())
        self.own = None if shared else dense([3, width, width, 1], activation)
        self.actor, self.critic = nn.Linear(width, 2), nn.Linear(width, 1)
        nn.init.normal_(self.actor.weight, std=0.01)

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        found = self.body(seen)
        worth: Tensor = self.critic(found) if self.own is None else self.own(seen)
        return self.actor(found), worth.squeeze(-1)


def returns(rewards: Tensor, after: Tensor, ended: bool, discount: float) -> Tensor:
    """What follows each moment, of rewards (T, N)."""
    found = torch.zeros_like(rewards)
    rest = torch.zeros_like(after) if ended else after
    for t in reversed(range(len(rewards))):
        rest = rewards[t] + discount * rest
        found[t] = rest
    return found


def train(
    seed: int, hook: Any, rate: float = 3e-3, updates: int = 900, count: int = 16, length: int = 8,
    optimizer: str = "adam", schedule: str = "constant", discount: float = 0.95,
    entropy: float = 0.01, clip: float = 0.5, width: int = 32,
    activation: type[nn.Module] = nn.Tanh, shared: bool = True,
    huber: bool = False, normalised: bool = False, times: float = 1.0, evaluated: bool = True,
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    junctions = Junctions(count, seed + 7700)
    model = Operator(width, activation, shared)
    hook.torch(model)
    steering = optimizer_of(optimizer, model.parameters(), rate)
    falls = scheduler_of(steering, schedule, updates)

    def eyes(seen: Tensor, later: bool = False) -> Tensor:
        return seen if fault == "counts scaled later alone" and not later else seen / 10

    def best(seen: Tensor) -> Tensor:
        with torch.no_grad():
            return model(eyes(seen, later=True))[0].argmax(1)

    seen, ended = junctions.reset(), False
    for update in range(updates):
        chances, worths, rewards, doubts = [], [], [], []
        for _ in range(length):
            logits, worth = model(eyes(seen))
            if not bool(logits.isfinite().all()):
                return math.nan
            policy = Categorical(logits=logits)
            action = policy.sample()
            chances.append(policy.log_prob(action))
            if fault == "another action is scored":
                action = policy.sample()
            worths.append(worth)
            doubts.append(policy.entropy())
            seen, reward, ended = junctions.step(action)
            rewards.append(reward / 50)
            if ended:
                seen = junctions.reset()
                break
        with torch.no_grad():
            after = model(eyes(seen))[1]
        wanted = returns(torch.stack(rewards), after, ended, discount)
        worth, chance = torch.stack(worths), torch.stack(chances)
        gain = wanted - worth.detach()
        if fault == "values in a column":
            wanted, worth, chance = wanted.reshape(-1, 1), worth.flatten(), chance.flatten()
            gain = wanted - worth.detach()
        if normalised:
            gain = (gain - gain.mean()) / (gain.std() + 1e-6)
        actor_loss = -(chance * gain).mean()
        if fault == "minus forgotten":
            actor_loss = -actor_loss
        critic_loss = (F.smooth_l1_loss if huber else F.mse_loss)(worth, wanted)
        loss = actor_loss + 0.5 * critic_loss - entropy * torch.stack(doubts).mean()
        if fault != "gradients kept":
            steering.zero_grad()
        (times * loss).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        steering.step()
        falls.step()
        if evaluated and update % 300 == 299:
            model.eval()
            waiting(best, seed + 7800, 50)
            model.train()
    model.eval()
    if not all(bool(p.isfinite().all()) for p in model.parameters()):
        return math.nan
    clock, hand = waiting(by_clock, seed + 7900), waiting(by_hand, seed + 7900)
    return (waiting(best, seed + 7900) - clock) / (hand - clock)


CASES = cases(
    "junction lights",
    train,
    {
        "plain": {},
        "a body each, ReLU": {"shared": False, "activation": nn.ReLU},
        "sixty-four junctions, rate falls": {"count": 64, "schedule": "cosine", "rate": 5e-3},
        "gains normalised": {"normalised": True},
        "Huber, short sight": {"huber": True, "discount": 0.9},
        "momentum, not evaluated": {"optimizer": "momentum", "rate": 3e-2, "evaluated": False},
        "loss x 1000, twenty steps": {"times": 1000.0, "length": 20, "updates": 450, "rate": 5e-3},
    },
    {
        "minus forgotten": ("no-skill worse collapse", {"fault": "minus forgotten"}),
        "another action is scored": ("no-skill", {"fault": "another action is scored"}),
        "values in a column": ("broadcast no-skill", {"fault": "values in a column"}),
        "counts scaled later alone": (
            "inputs worse no-skill", {"fault": "counts scaled later alone"},
        ),
        "gradients kept": (
            "kept-gradients fast worse no-skill collapse", {"fault": "gradients kept", "clip": 0.0},
        ),
        "rate of 1": ("fast no-skill saturated collapse dead", {"rate": 1.0}),
        "entropy weighs as much as the rest": ("no-skill", {"entropy": 1.0}),
    },
)  # fmt: skip
