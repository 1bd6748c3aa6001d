"""REINFORCE: a policy walks on a line towards a goal that it sees; acting is without gradients."""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.detection.families.kit import begin, dense, optimizer_of, scheduler_of
from torch import Tensor

from benchmarks.detection.case import cases

WALKERS, PATIENCE = 32, 8


def observe(at: Tensor, goal: Tensor) -> Tensor:
    return torch.stack([at[:, 0], at[:, 1], goal[:, 0], goal[:, 1]], 1) / 3


MOVES = torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1], [0, 0]])


def walk(policy: Any, count: int, act: Any) -> tuple[Tensor, Tensor, Tensor]:
    """What was seen and done, and the rewards: how much nearer each move came."""
    at, goal = torch.randint(-3, 4, (2, count, 2)).float()
    seen, done, rewards = [], [], []
    for _ in range(PATIENCE):
        view = observe(at, goal)
        with torch.no_grad():
            move = act(policy(view))
        before = (at - goal).abs().sum(1)
        at = at + MOVES[move]
        rewards.append(before - (at - goal).abs().sum(1) - 0.05 * (move != 4))
        seen.append(view)
        done.append(move)
    return torch.stack(seen), torch.stack(done), torch.stack(rewards)


def sampled(scores: Tensor) -> Tensor:
    if not bool(torch.isfinite(scores).all()):
        return torch.zeros(len(scores), dtype=torch.long)
    return torch.distributions.Categorical(logits=scores).sample()


def value(policy: Any) -> float:
    """What the policy earns at its best guess, as a share of what can be earned."""
    torch.manual_seed(97)
    policy.eval()
    with torch.no_grad():
        _, _, rewards = walk(policy, 500, lambda scores: scores.argmax(1))
    torch.manual_seed(97)
    at, goal = torch.randint(-3, 4, (2, 500, 2)).float()
    most = 0.95 * (at - goal).abs().sum(1).clamp(max=PATIENCE).mean().item()
    return rewards.sum(0).mean().item() / most


def train(
    seed: int,
    hook: Any,
    rate: float = 3e-3,
    steps: int = 500,
    discount: float = 0.5,
    entropy: float = 0.01,
    schedule: str = "constant",
    baseline: bool = True,
    normalised: bool = False,
    fault: str = "",
) -> float:
    begin(seed)
    policy = dense([4, 48, 5])
    watched = dense([4, 48, 5])
    optimizer = optimizer_of("adam", (watched if fault == "other" else policy).parameters(), rate)
    scheduler = scheduler_of(optimizer, schedule, steps)
    hook.torch(policy)
    for _ in range(steps):
        seen, done, rewards = walk(policy, WALKERS, sampled)
        back = torch.zeros(WALKERS)
        returns = torch.zeros_like(rewards)
        for step in reversed(range(PATIENCE)):
            back = rewards[step] + discount * back
            returns[step] = back
        advantage = returns - returns.mean() if baseline else returns
        if normalised:
            advantage = advantage / (advantage.std() + 1e-6)
        if fault == "rewards of others":
            advantage = advantage.flatten()[torch.randperm(advantage.numel())].view_as(advantage)
        if fault == "no rewards":
            advantage = torch.zeros_like(advantage)
        policy.train()
        chances = policy(seen.flatten(0, 1)).log_softmax(1)
        taken = chances.gather(1, done.flatten()[:, None]).squeeze(1)
        sign = 1 if fault == "wrong sign" else -1
        spread = -(chances.exp() * chances).sum(1).mean()
        weight = -20.0 if fault == "greedy" else entropy
        loss = sign * (taken * advantage.flatten()).mean() - weight * spread
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    return value(policy)


CASES = cases(
    "policy gradient",
    train,
    {
        "plain": {},
        "no baseline": {"baseline": False, "steps": 700},
        "advantages normalised": {"normalised": True},
        "warm-up": {"schedule": "warmup", "rate": 5e-3},
        "more entropy": {"entropy": 0.05},
    },
    {
        "rewards of others": ("no-skill", {"fault": "rewards of others"}),
        "wrong sign": ("no-skill worse collapse", {"fault": "wrong sign"}),
        "no rewards": ("no-gradient slow no-skill", {"fault": "no rewards"}),
        "one action from the start": ("collapse", {"fault": "greedy", "rate": 3e-2}),
        "optimizer of another model": ("unbound slow", {"fault": "other"}),
        "rate x 1000": ("fast collapse dead", {"rate": 3.0}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
    },
)
