"""REINFORCE: a policy acts without gradients, then learns from what its actions brought."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.detection.kit import scheduler_of
from benchmarks.detection.loop import Loop, batches, optimizer_of
from benchmarks.detection.run_hook import RunHook
from benchmarks.detection.task import Training

DISCOUNT, ENTROPY = 0.8, 0.01


def train(t: Training, hook: RunHook) -> float:
    world = t.world
    optimizer = optimizer_of(t, t.model)
    scheduler = scheduler_of(optimizer, t.schedule, t.steps)
    hook.torch(t.model)
    t.model.train()
    for state, _ in batches(t):
        seen, actions, rewards = [], [], []
        for _ in range(world.PATIENCE):
            view = world.observe(state)
            with torch.no_grad():
                action = torch.distributions.Categorical(logits=t.model(view)).sample()
            state, reward = world.move(state, action)
            seen.append(view)
            actions.append(action)
            rewards.append(reward)
        advantage = advantages(torch.stack(rewards), t.slip)
        policy = torch.distributions.Categorical(logits=t.model(torch.stack(seen)))
        if t.slip == "actions drawn again":
            actions = [policy.sample()]
        chances = policy.log_prob(torch.stack(actions).reshape(advantage.shape))
        if t.slip == "log-probabilities detached":
            chances = chances.detach()
        gain = (chances * advantage).mean()
        loss = gain if t.slip == "gain minimised" else -gain
        loss = loss - ENTROPY * policy.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    t.model.eval()
    state, earned = t.samples.held_x, torch.zeros(len(t.samples.held_x))
    with torch.no_grad():
        for _ in range(world.PATIENCE):
            state, reward = world.move(state, t.model(world.observe(state)).argmax(1))
            earned = earned + reward
    return t.skill(earned, t.samples.held_y)


def advantages(rewards: Tensor, slip: str) -> Tensor:
    """Discounted returns (T, N) beside the mean of those at the same time."""
    if slip == "rewards are zero":
        rewards = torch.zeros_like(rewards)
    found, later = torch.zeros_like(rewards), torch.zeros_like(rewards[0])
    for time in reversed(range(len(rewards))):
        later = rewards[time] + DISCOUNT * later
        found[time] = later
    found = found - found.mean(1, keepdim=True)
    if slip == "rewards of other walkers":
        found = found[:, torch.randperm(found.shape[1])]
    return found / (found.std() + 1e-6)


LOOP = Loop(
    train,
    needs=frozenset(["episodes"]),
    without=frozenset(),
    parts=frozenset(["settings", "optimizer", "episodes"]),
)
