"""A house that is heated or not, by deep Q-learning: comfort and the price of power."""

from __future__ import annotations

import copy
import random
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin, dense

HOURS = 24


def step(state: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
    """(N, 2) temperature above what is wanted and hour, in units of a day; the reward."""
    temperature, hour = state.unbind(1)
    outside = -1.0 + 0.5 * torch.sin(6.28 * hour)
    temperature = temperature + 0.2 * (outside - temperature) + 0.5 * action.float()
    price = 0.1 + 0.1 * ((hour * HOURS) % 24 > 12).float()
    reward = -(temperature**2) - price * action.float()
    return torch.stack([temperature, (hour + 1 / HOURS) % 1.0], 1), reward


def mean_return(policy: Any, seed: int) -> float:
    draw = torch.Generator().manual_seed(seed)
    state = torch.stack([torch.randn(64, generator=draw), torch.rand(64, generator=draw)], 1)
    total = torch.zeros(64)
    for _ in range(HOURS):
        state, reward = step(state, policy(state))
        total += reward
    return total.mean().item()


def train(seed: int, hook: Any, rate: float = 2e-3, steps: int = 900, renew: int = 50,
          soft: bool = False, huber: bool = True, fault: str = "") -> float:  # fmt: skip
    begin(seed)
    random.seed(seed)
    model = dense([2, 48, 48, 2])
    target = copy.deepcopy(model)
    hook.torch(model)
    trained = target if fault == "optimizer of the target" else model
    optimizer = torch.optim.Adam(trained.parameters(), rate)
    memory: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    state = torch.stack([torch.randn(8), torch.rand(8)], 1)
    for number in range(steps):
        with torch.no_grad():
            best = model(state).argmax(1)
        curious = torch.rand(8) < max(0.1, 1 - 2 * number / steps)
        action = torch.where(curious, torch.randint(2, (8,)), best)
        after, reward = step(state, action)
        memory.append((state, action, reward, after))
        state = torch.stack([torch.randn(8), torch.rand(8)], 1) if number % 24 == 0 else after
        was, did, got, then = (
            torch.cat(part) for part in zip(*random.choices(memory, k=8), strict=True)
        )
        if fault == "rewards are costs":
            got = -got
        with torch.no_grad():
            later = target(then).max(1).values
        wanted = got + (1.05 if fault == "no discount" else 0.9) * later
        found = model(was).gather(1, did[:, None]).squeeze(1)
        loss = (nn.functional.smooth_l1_loss if huber else nn.functional.mse_loss)(found, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if soft:
            for slow, fast in zip(target.parameters(), model.parameters(), strict=True):
                slow.data.lerp_(fast.data, 0.02)
        elif number % renew == 0:
            target.load_state_dict(model.state_dict())

    def greedy(seen: Tensor) -> Tensor:
        with torch.no_grad():
            return model(seen).argmax(1)

    by_hand = mean_return(lambda seen: (seen[:, 0] < 0).long(), seed + 4800)
    never = mean_return(lambda seen: torch.zeros(len(seen)), seed + 4800)
    return (mean_return(greedy, seed + 4800) - never) / (by_hand - never)


CASES = cases(
    "thermostat",
    train,
    {
        "plain": {},
        "squared errors": {"huber": False},
        "target follows": {"soft": True},
        "target renewed seldom": {"renew": 100, "steps": 1200},
    },
    {
        "rewards are costs": ("no-skill", {"fault": "rewards are costs"}),
        "optimizer of the target": ("unbound no-skill", {"fault": "optimizer of the target"}),
        "rate of 1e-6": ("slow no-skill", {"rate": 1e-6}),
        "no discount": ("worse fast", {"fault": "no discount", "renew": 1, "rate": 1e-2}),
        "rate of 1": ("fast dead worse no-skill collapse", {"rate": 1.0}),
    },
)  # fmt: skip
