"""A ferry steers across a river with a current to its dock: REINFORCE with a learned baseline.

Many crossings are steered at once; acting is a part of the update, and the gradient flows through
the logarithm of what was chosen. The skill is the share of the way from the best constant rudder
to no miss at all.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, dense, optimizer_of, scheduler_of
from torch import Tensor, nn
from torch.distributions import Categorical

from benchmarks.detection.case import cases

STROKES, RUDDERS = 8, 3


class River:
    """The ferry comes nearer to the other shore with each stroke, and the current pushes it."""

    def __init__(self, ferries: int, draw: torch.Generator) -> None:
        self.at = torch.rand(ferries, generator=draw) * 2 - 1
        self.dock = torch.rand(ferries, generator=draw) * 2 - 1
        self.current = torch.rand(ferries, generator=draw) * 0.3 - 0.15
        self.stroke, self.draw = 0, draw

    def seen(self) -> Tensor:
        left = torch.full_like(self.at, 1 - self.stroke / STROKES)
        parts = (self.at, self.dock, self.current * 4, left)
        return torch.stack(parts, 1)

    def steer(self, rudder: Tensor) -> Tensor:
        """A small price for each turn of the rudder; the distance to the dock counts all along."""
        wind = 0.03 * torch.randn(len(self.at), generator=self.draw)
        self.at = self.at + 0.3 * (rudder - 1.0) + self.current + wind
        self.stroke += 1
        miss = (self.at - self.dock).abs()
        return -miss - 0.02 * (rudder != 1).float()


def crossing(policy: nn.Module, river: River, greedy: bool = False) -> tuple[Tensor, ...]:
    """What was seen, chosen and earned, each (strokes, ferries, ...)."""
    seen, chosen, earned = [], [], []
    for _ in range(STROKES):
        state = river.seen()
        with torch.no_grad():
            logits = policy(state)
        rudder = logits.argmax(1) if greedy else Categorical(logits=logits).sample()
        seen.append(state)
        chosen.append(rudder)
        earned.append(river.steer(rudder))
    return torch.stack(seen), torch.stack(chosen), torch.stack(earned)


def to_go(earned: Tensor, discount: float) -> Tensor:
    total, out = torch.zeros(earned.shape[1]), []
    for stroke in range(STROKES - 1, -1, -1):
        total = earned[stroke] + discount * total
        out.append(total)
    return torch.stack(out[::-1])


def mean_return(policy: nn.Module, seed: int) -> float:
    river = River(500, torch.Generator().manual_seed(seed))
    return crossing(policy, river, greedy=True)[2].sum(0).mean().item()


def constant_return(seed: int) -> float:
    """The best rudder that never changes."""
    found = []
    for rudder in range(RUDDERS):
        river = River(500, torch.Generator().manual_seed(seed))
        earned = [river.steer(torch.full((500,), rudder)) for _ in range(STROKES)]
        found.append(torch.stack(earned).sum(0).mean().item())
    return max(found)


def train(
    seed: int, hook: Any, updates: int = 1000, ferries: int = 64, rate: float = 3e-3,
    value_rate: float = 3e-3, discount: float = 0.7, entropy: float = 0.01, optimizer: str = "adam",
    schedule: str = "constant", clip: float = 0.0, baseline: str = "network", scale: float = 1.0,
    activation: type[nn.Module] = nn.Tanh, normalised: bool = False, evaluate_every: int = 100,
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    policy, value = dense([4, 32, 32, RUDDERS], activation), dense([4, 32, 1], activation)
    hook.torch(policy)
    trained = value if fault == "the baseline's parameters twice" else policy
    steering = optimizer_of(optimizer, trained.parameters(), rate)
    critic = torch.optim.Adam(value.parameters(), value_rate)
    scheduler = scheduler_of(steering, schedule, updates)
    draw = torch.Generator().manual_seed(seed + 7)
    for update in range(updates):
        seen, chosen, earned = crossing(policy, River(ferries, draw))
        gains = to_go(earned, discount)
        expected = value(seen).squeeze(-1)
        advantage = gains - expected.detach() if baseline == "network" else gains - gains.mean()
        if normalised:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        law = Categorical(logits=policy(seen))
        if fault == "chosen once more":  # the actions that were taken are not those of the loss
            chosen = law.sample()
        said = law.log_prob(chosen)
        if fault == "probability detached":
            said = said.detach()
        loss = -(said * advantage).mean() - entropy * law.entropy().mean()
        if fault == "sign of the gain":
            loss = (said * advantage).mean() - entropy * law.entropy().mean()
        steering.zero_grad()
        (loss * scale).backward()
        if clip:
            nn.utils.clip_grad_norm_(policy.parameters(), clip)
        steering.step()
        scheduler.step()
        critic.zero_grad()
        nn.functional.mse_loss(expected, gains).backward()
        critic.step()
        if evaluate_every and (update + 1) % evaluate_every == 0:
            policy.eval()
            mean_return(policy, seed + 99)
            policy.train()
    least, got = constant_return(seed + 98), mean_return(policy, seed + 98)
    finite = all(bool(p.isfinite().all()) for p in policy.parameters())
    return (got - least) / (BEST - least) if finite else math.nan


BEST = -1.3
"""What a ferry pays that goes straight to its dock, and stays there."""

CASES = cases(
    "ferry crossing",
    train,
    {
        "plain": {},
        "the batch's mean as a baseline": {"baseline": "mean", "ferries": 128},
        "normalised advantages": {"normalised": True, "entropy": 0.03},
        "gain times 1000, no evaluation": {"scale": 1e3, "evaluate_every": 0},
        "clipped, cosine": {"clip": 0.5, "schedule": "cosine"},
        "few ferries, more updates": {"ferries": 16, "updates": 2000, "rate": 2e-3},
        "momentum, ReLU": {"optimizer": "momentum", "rate": 0.1, "activation": nn.ReLU},
    },
    {
        "sign of the gain": ("no-skill worse", {"fault": "sign of the gain"}),
        "chosen once more": ("no-skill", {"fault": "chosen once more"}),
        "probability detached": ("no-gradient no-skill", {"fault": "probability detached"}),
        "rate of 1": ("fast no-skill saturated dead", {"rate": 1.0}),
        "the baseline's parameters twice": (
            "unbound no-skill", {"fault": "the baseline's parameters twice"}
        ),
        "no entropy, a rate of 1e-6": ("slow no-skill", {"rate": 1e-6, "entropy": 0.0}),
    },
)  # fmt: skip
