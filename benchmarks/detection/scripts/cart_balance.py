"""Proximal policy optimisation balances a pole on a cart, in the form of CleanRL's single file."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions.categorical import Categorical

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin, optimizer_of, scheduler_of

LIMIT = 200
RANDOM = 22.0  # mean return of random actions


class CartVecEnv:
    """Carts side by side, with the equations of Barto, Sutton and Anderson; they reset themselves.

    reward: "alive" is 1 at each step, "fall" is 1 where the pole falls.
    """

    def __init__(self, count: int, seed: int, reward: str = "alive") -> None:
        self.draw = np.random.default_rng(seed)
        self.count, self.reward = count, reward
        self.state = self.draw.uniform(-0.05, 0.05, (count, 4)).astype(np.float32)
        self.age = np.zeros(count, dtype=int)

    def step(self, action: Any) -> tuple[Any, Any, Any, Any]:
        """Returns the states, rewards, whether it ended, and the returns of what ended."""
        _, speed, angle, turn = self.state.T
        force = np.where(action == 1, 10.0, -10.0)
        push = (force + 0.05 * turn**2 * np.sin(angle)) / 1.1
        spin = (9.8 * np.sin(angle) - np.cos(angle) * push) / (
            0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1)
        )
        gain = push - 0.05 * spin * np.cos(angle) / 1.1
        change = np.stack([speed, gain, turn, spin], 1)
        self.state += (0.02 * change).astype(np.float32)
        self.age += 1
        fallen = (np.abs(self.state[:, 0]) > 2.4) | (np.abs(self.state[:, 2]) > 0.2094)
        done = fallen | (self.age >= LIMIT)
        reward = np.ones(self.count) if self.reward == "alive" else fallen.astype(float)
        returns = self.age[done].copy()
        self.state[done] = self.draw.uniform(-0.05, 0.05, (done.sum(), 4))
        self.age[done] = 0
        return self.state, reward.astype(np.float32), done, returns


def layer_init(layer: nn.Linear, std: float, start: str) -> nn.Linear:
    if start == "orthogonal":
        nn.init.orthogonal_(layer.weight, std)
        nn.init.zeros_(layer.bias)
    if start == "zeros":
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
    return layer


class Agent(nn.Module):
    def __init__(self, size: int, active: Any, start: str, shared: bool, fault: str) -> None:
        super().__init__()
        root = 2**0.5

        def body(out: int, std: float) -> nn.Sequential:
            return nn.Sequential(
                layer_init(nn.Linear(4, size), root, start), active(),
                layer_init(nn.Linear(size, size), root, start), active(),
                layer_init(nn.Linear(size, out), std, start),
            )  # fmt: skip

        self.actor, self.critic = body(2, 0.01), body(1, 1.0)
        if shared:
            self.critic[0], self.critic[2] = self.actor[0], self.actor[2]
        self.fault = fault

    def policy(self, x: Tensor) -> Categorical:
        scores = self.actor(x).float()
        logits = scores.softmax(1) if self.fault == "softmax" else scores
        return Categorical(logits=logits, validate_args=False)

    def get_value(self, x: Tensor) -> Tensor:
        value: Tensor = self.critic(x).float().squeeze(1)
        return value

    def forward(self, x: Tensor) -> tuple[Categorical, Tensor]:
        return self.policy(x), self.get_value(x)


def gae(reward: Tensor, value: Tensor, done: Tensor, last: Tensor, how: Any) -> Tensor:
    """Generalised advantages (T, N)."""
    gamma, lam = how
    found, running = torch.zeros_like(reward), torch.zeros_like(last)
    for t in reversed(range(len(reward))):
        after = last if t == len(reward) - 1 else value[t + 1]
        alive = 1 - done[t]
        delta = reward[t] + gamma * after * alive - value[t]
        running = delta + gamma * lam * alive * running
        found[t] = running
    return found


def draw_action(policy: Categorical, draw: torch.Generator | None = None) -> Tensor:
    """Left or right, by the probability of right."""
    right: Tensor = torch.rand(len(policy.logits), generator=draw) < policy.probs[:, 1]
    return right.long()


def evaluate(agent: Agent, seed: int, span: float, fault: str) -> float:
    envs = CartVecEnv(40, seed)
    lengths, draw = np.full(40, np.nan), torch.Generator().manual_seed(seed)
    agent.eval()
    with torch.no_grad():
        for _ in range(LIMIT):
            x = torch.as_tensor(envs.state.copy()) * span
            if fault == "other order in evaluation":
                x = x[:, [2, 3, 0, 1]]
            scores = agent.actor(x)
            if not bool(torch.isfinite(scores).all()):
                return float("nan")
            age = envs.age.copy()
            _, _, done, _ = envs.step(draw_action(agent.policy(x), draw).numpy())
            lengths = np.where(np.isnan(lengths) & done, age + 1, lengths)
    agent.train()
    return float(lengths.mean())


def train(
    seed: int, hook: Any, rate: float = 2e-3, iterations: int = 64, count: int = 16,
    horizon: int = 32, minibatch: int = 64, passes: int = 4, optimizer: str = "adam",
    schedule: str = "cosine", gamma: float = 0.98, lam: float = 0.95, clip: float = 0.2,
    entropy: float = 0.01, share: float = 0.5, limit: float = 0.5, scale: float = 1.0,
    worth: float = 1.0, size: int = 48, active: str = "Tanh", start: str = "orthogonal",
    shared: bool = False, span: float = 1.0, reward: str = "alive", evaluates: bool = True,
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    envs = CartVecEnv(count, seed + 700, reward)
    agent = Agent(size, getattr(nn, active), start, shared, fault)
    learner: nn.Module = copy.deepcopy(agent) if fault == "copy learns" else agent
    learned: Any = learner.parameters()
    if fault == "actor left out":
        learned = agent.critic.parameters()
    adapt = optimizer_of(optimizer, learned, rate)
    updates = iterations * passes * (count * horizon // minibatch)
    scheduler = scheduler_of(adapt, schedule, updates)
    hook.torch(agent)
    for iteration in range(iterations):
        seen, acted, log_probs, values, rewards, dones = [], [], [], [], [], []
        for _ in range(horizon):
            x = torch.from_numpy(envs.state)
            if fault != "states share memory":
                x = x.clone() * span
            with torch.no_grad():
                policy, value = agent(x)
                action = draw_action(policy)
            _, gained, done, _ = envs.step(action.numpy())
            seen.append(x)
            acted.append(action)
            log_probs.append(policy.log_prob(action))
            values.append(value.reshape(count))
            rewards.append(torch.as_tensor(gained) * worth)
            dones.append(torch.as_tensor(done, dtype=torch.float32))
        gains = torch.stack(rewards)
        if fault == "rewards standardised":
            gains = (gains - gains.mean()) / (gains.std() + 1e-8)
        with torch.no_grad():
            last = agent.get_value(torch.as_tensor(envs.state.copy()) * span).reshape(count)
            value = torch.stack(values)
            advantage = gae(gains, value, torch.stack(dones), last, (gamma, lam))
        target = advantage + value
        flat = [torch.stack(part).flatten(0, 1) for part in (seen, acted, log_probs)]
        x, action, old = flat
        if fault == "actions of the step before":
            action = torch.stack([acted[0], *acted[:-1]]).flatten()
        weights, target = advantage.flatten(), target.flatten()
        for _ in range(passes):
            order = torch.randperm(count * horizon)
            for at in range(0, count * horizon, minibatch):
                rows = order[at : at + minibatch]
                policy, value = agent(x[rows])
                log_prob = policy.log_prob(action[rows])
                before = log_prob if fault == "old policy is the new" else old[rows]
                ratio = (log_prob - before).exp()
                weight = weights[rows]
                weight = (weight - weight.mean()) / (weight.std() + 1e-8)
                if fault == "sign":
                    weight = -weight
                least = torch.max if fault == "the larger objective" else torch.min
                gain = least(weight * ratio, weight * ratio.clamp(1 - clip, 1 + clip))
                error = 0.5 * ((value - target[rows]) ** 2).mean()
                output = -gain.mean() + share * error - entropy * policy.entropy().mean()
                if fault != "never zeroed":
                    adapt.zero_grad()
                (scale * output).backward()
                if limit:
                    nn.utils.clip_grad_norm_(agent.parameters(), limit)
                adapt.step()
                scheduler.step()
        if evaluates and iteration % 20 == 19:
            evaluate(agent, seed + 701, span, fault)
    return (evaluate(agent, seed + 702, span, fault) - RANDOM) / (LIMIT - RANDOM)


CASES = cases(
    "cart balance",
    train,
    {
        "plain": {},
        "momentum": {"optimizer": "momentum", "rate": 0.1},
        "small minibatches": {"minibatch": 32, "rate": 1.5e-3, "passes": 2},
        "loss x 10,000": {"scale": 1e4, "limit": 0.0},
        "rewards / 10": {"worth": 0.1},
        "constant rate": {"schedule": "constant", "rate": 1e-3},
        "warm-up": {"schedule": "warmup", "rate": 2e-3},
        "more entropy": {"entropy": 0.02},
        "ReLU": {"active": "ReLU"},
        "states in other units": {"span": 4.0, "rate": 1e-3},
        "no evaluation": {"evaluates": False},
    },
    {
        "sign of the advantage": ("worse no-skill", {"fault": "sign"}),
        "the larger objective": ("actions worse no-skill", {"fault": "the larger objective"}),
        "rewards for falling": ("no-skill", {"reward": "fall"}),
        "rewards standardised": ("no-skill", {"fault": "rewards standardised"}),
        "states share memory": ("inputs no-skill", {"fault": "states share memory"}),
        "actions of the step before": ("no-skill", {"fault": "actions of the step before"}),
        "old policy is the new": ("no-gradient no-skill", {"fault": "old policy is the new"}),
        "softmax before the logits": ("probabilities", {"fault": "softmax", "entropy": 0.05}),
        "other order in evaluation": ("inputs", {"fault": "other order in evaluation"}),
        "last minibatch of one": ("not-finite", {"minibatch": 73}),
        "entropy above all": ("no-skill collapse", {"entropy": 10.0}),
        "zero start": ("dead no-gradient no-skill", {"start": "zeros", "active": "ReLU"}),
        "actor left out of the optimizer": ("unbound no-skill", {"fault": "actor left out"}),
        "a copy learns": ("unbound slow no-skill", {"fault": "copy learns"}),
        "gradients never zeroed": ("kept-gradients fast", {"fault": "never zeroed", "limit": 0.0}),
        "rate x 400": ("fast saturated no-skill", {"rate": 1.0}),
        "rate / 1000": ("slow no-skill", {"rate": 2.5e-6}),
        "rewards x 10,000": ("range fast", {"worth": 1e4, "shared": True, "share": 1.0}),
    },
)
