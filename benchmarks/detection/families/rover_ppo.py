"""A rover learns to drive to its goals by proximal policy optimisation (PPO).

Many rovers drive at once; each sees where its goal lies, its speed and its turning, and chooses
throttle and steering. A goal that is reached gives way to another. The skill is the return of the
learned policy without noise, from that of a rover that stands still to that of one steered by hand.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, dense, optimizer_of
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.detection.case import cases

Array = NDArray[np.float64]
EPISODE = 64
STEERING = np.array([[1, -1], [1, -0.4], [1, 0], [1, 0.4], [1, 1], [-0.5, 0], [0.1, 1], [0.1, -1]])


class Rovers:
    """Some rovers at once. An episode has sixty-four steps of 0.2 s."""

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.draw = count, np.random.default_rng(seed)
        self.reset()

    def reset(self) -> Array:
        self.place = np.zeros((self.count, 2))
        self.heading = self.draw.uniform(-np.pi, np.pi, self.count)
        self.speed, self.turning = np.zeros(self.count), np.zeros(self.count)
        self.goal = self.place + self.draw.uniform(-3, 3, (self.count, 2))
        self.time = 0
        return self.observe()

    def observe(self) -> Array:
        ahead, aside = (self.goal - self.place).T
        cos, sin = np.cos(self.heading), np.sin(self.heading)
        seen = [(cos * ahead + sin * aside) / 2, (cos * aside - sin * ahead) / 2]
        return np.stack([*seen, self.speed, self.turning], 1)

    def step(self, action: Array) -> tuple[Array, Array, bool]:
        throttle, steering = np.clip(action, -1, 1).T
        before = np.linalg.norm(self.goal - self.place, axis=1)
        self.speed += 0.4 * (throttle - self.speed)
        self.turning += 0.5 * (2 * steering - self.turning)
        self.heading = self.heading + 0.2 * self.turning
        way = np.stack([np.cos(self.heading), np.sin(self.heading)], 1)
        self.place = self.place + 0.2 * self.speed[:, None] * way
        after = np.linalg.norm(self.goal - self.place, axis=1)
        reached = after < 0.4
        others = self.place + self.draw.uniform(-3, 3, (self.count, 2))
        self.goal = np.where(reached[:, None], others, self.goal)
        self.time += 1
        reward = before - after + reached - 0.01 * (throttle**2 + steering**2)
        return self.observe(), reward, self.time >= EPISODE


def by_hand(seen: Array) -> Array:
    angle = np.arctan2(seen[:, 1], seen[:, 0])
    return np.stack([np.cos(angle).clip(0.1), (2 * angle).clip(-1, 1)], 1)


def mean_return(policy: Any, seed: int) -> float:
    rovers = Rovers(128, seed)
    seen, total, done = rovers.observe(), 0.0, False
    while not done:
        seen, reward, done = rovers.step(policy(seen))
        total += float(reward.mean())
    return total


class Policy(nn.Module):
    """What to do, and what it is worth."""

    def __init__(
        self, kind: str, shared: bool, width: int, activation: type[nn.Module], spread: float,
        start: float,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kind, sizes = kind, [4, width, width]
        self.actor = nn.Sequential(*dense(sizes, activation), activation())
        self.critic = self.actor if shared else copy.deepcopy(self.actor)
        self.action = nn.Linear(width, len(STEERING) if kind == "choices" else 2)
        self.worth = nn.Linear(width, 1)
        self.spread = nn.Parameter(torch.full((2,), spread))
        nn.init.normal_(self.action.weight, std=start)

    def forward(self, seen: Tensor) -> tuple[Any, Tensor]:
        action = self.action(self.actor(seen)).float()
        worth = self.worth(self.critic(seen)).float()
        if self.kind == "choices":
            return torch.distributions.Categorical(logits=action), worth
        return torch.distributions.Normal(action, self.spread.clamp(-5, 3).exp()), worth


def advantages(
    rewards: Tensor, worth: Tensor, ends: list[bool], discount: float, share: float, fault: str
) -> Tensor:
    """Generalised estimates (T, N) of rewards (T, N); ``worth`` has a row more."""
    found = torch.zeros_like(rewards)
    sum_of_rest = torch.zeros_like(rewards[0])
    times = range(len(rewards))
    for t in times if fault == "estimates from the front" else reversed(times):
        on = 1.0 - float(ends[t])
        surprise = rewards[t] + discount * on * worth[t + 1] - worth[t]
        sum_of_rest = surprise + discount * share * on * sum_of_rest
        found[t] = sum_of_rest
    return found


def train(
    seed: int, hook: Any, kind: str = "continuous", rate: float = 2e-3, rounds: int = 32,
    passes: int = 4, parts: int = 4, rovers: int = 32, length: int = 32, optimizer: str = "adam",
    schedule: str = "constant", objective: str = "clipped", width: int = 48, shared: bool = False,
    activation: type[nn.Module] = nn.Tanh, discount: float = 0.95, share: float = 0.9,
    entropy: float = 0.002, clip: float = 0.5, value_share: float = 0.5,
    spread: float = -0.5, start: float = 0.01, reward_scale: float = 1.0,
    scale: float = 1.0, later_scale: float = 1.0, times: float = 1.0,
    normalised: bool = True, average: float = 0.0, decay: float = 0.0,
    bfloat16: bool = False, evaluated: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    world = Rovers(rovers, seed + 6400)
    net: Any = Policy(kind, shared, width, activation, spread, start)
    hook.torch(net)
    bound: Any = {"the critic alone": net.critic, "a copy": copy.deepcopy(net)}.get(fault, net)
    steps: Any = optimizer_of(optimizer, bound.parameters(), rate, decay)
    planned = torch.optim.lr_scheduler.LambdaLR(steps, lambda n: factor(schedule, n / rounds))
    acting, averaged = copy.deepcopy(net), copy.deepcopy(net)

    def observed(seen: Array) -> Tensor:
        return torch.from_numpy(seen).float() * scale

    def chances(policy: Any, action: Tensor) -> Any:
        if kind == "choices":
            return policy.log_prob(action[:, 0])
        return policy.log_prob(action).sum(-1)

    def greedy(model: Any) -> Any:
        def policy(seen: Array) -> Any:
            with torch.no_grad():
                found = model(observed(seen) * later_scale)[0]
            chosen = found.probs.argmax(-1) if kind == "choices" else found.mean
            return STEERING[chosen.numpy()] if kind == "choices" else chosen.double().numpy()

        return policy

    def surrogate(new: Tensor, old: Tensor, advantage: Tensor) -> Tensor:
        if fault == "ratio of itself":
            old = new
        if fault == "shapes that broadcast":
            new, old = new[:, None], old[:, None]
        change = new - old
        ratio = change.clamp(max=20).exp()
        if objective == "penalty":
            return -(ratio * advantage).mean() + 2 * (ratio - 1 - change).mean()
        if objective == "plain gradient":
            return -(new * advantage).mean()
        lesser = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        return lesser.mean() if fault == "sign of the objective" else -lesser.mean()

    seen = world.observe()
    for number in range(rounds):
        rows: list[list[Tensor]] = []
        rewards, ends = [], []
        buffer = np.zeros_like(seen)
        for _ in range(length):
            buffer[:] = seen
            again = fault == "observations overwritten"
            x = torch.from_numpy(buffer) if again else observed(seen)
            with torch.no_grad():
                policy, worth = (acting if fault == "policy of the start acts" else net)(x.float())
            action = policy.sample().reshape(rovers, -1)
            moved = STEERING[action[:, 0]] if kind == "choices" else action.double().numpy()
            rows.append([x, action, chances(policy, action), worth.squeeze(1)])
            seen, reward, done = world.step(moved)
            rewards.append(torch.from_numpy(reward).float() * reward_scale)
            ends.append(done)
            if done:
                seen = world.reset()
        with torch.no_grad():
            after = net(observed(seen))[1].squeeze(1)
        x, action, old, worth = (torch.stack(of) for of in zip(*rows, strict=True))
        gained = torch.stack(rewards)
        gained = -gained if fault == "reward as a cost" else gained
        found = advantages(gained, torch.cat([worth, after[None]]), ends, discount, share, fault)
        returns = found + worth
        if fault == "rovers before times":
            found, returns = found.T, returns.T
        flat_x, flat_action = x.float().flatten(0, 1), action.flatten(0, 1)
        flat_old, flat_found, flat_returns = old.flatten(), found.flatten(), returns.flatten()
        for _ in range(passes):
            for chosen in torch.randperm(len(flat_old)).chunk(parts):
                with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                    policy, worth = net(flat_x[chosen])
                worth, advantage = worth.squeeze(1), flat_found[chosen]
                if normalised:
                    spread_of = 0.0 if fault == "spread of zero" else advantage.std()
                    advantage = (advantage - advantage.mean()) / (spread_of + 1e-8)
                new = chances(policy, flat_action[chosen])
                new = new.detach() if fault == "chances detached" else new
                wrong = F.mse_loss(worth, flat_returns[chosen])
                loss = surrogate(new, flat_old[chosen], advantage) + value_share * wrong
                loss = (loss - entropy * policy.entropy().mean()) * times
                if fault != "gradients kept":
                    steps.zero_grad()
                loss.backward()
                if clip:
                    nn.utils.clip_grad_norm_(net.parameters(), clip)
                steps.step()
                if schedule == "stepped each update":
                    planned.step()
                if average:
                    for slow, fast in zip(averaged.parameters(), net.parameters(), strict=True):
                        slow.data.lerp_(fast.data, 1 - average)
        planned.step()
        if evaluated and number % 10 == 9:
            net.eval()
            mean_return(greedy(net), seed + 6500)
            net.train()
    final = averaged if average else net
    if not all(bool(p.isfinite().all()) for p in final.parameters()):
        return math.nan
    still, good = (mean_return(p, seed + 6600) for p in (lambda s: 0 * s[:, :2], by_hand))
    return (mean_return(greedy(final), seed + 6600) - still) / (good - still)


def factor(schedule: str, done: float) -> float:
    if schedule == "falls":
        return max(0.0, 1 - done) + 0.01
    if schedule == "stepped each update":
        return float(0.05 ** (done * 5))
    return 1.0


MOMENTUM: dict[str, Any] = {"optimizer": "momentum", "rate": 0.2}
UNCLIPPED: dict[str, Any] = {**MOMENTUM, "clip": 0.0}

CASES = cases(
    "rover ppo",
    train,
    {
        "plain": {},
        "choices": {"kind": "choices", "entropy": 0.01},
        "one body for both": {"shared": True},
        "penalty for the change": {"objective": "penalty", "rounds": 45},
        "plain gradient": {
            "objective": "plain gradient", "passes": 1, "rounds": 100, "rate": 2e-3,
        },
        "parts of 64": {"parts": 16, "passes": 2, "rounds": 45},
        "whole rounds": {"parts": 1, "passes": 10, "rate": 3e-3, "rounds": 50},
        "many rovers": {"rovers": 128, "length": 16, "rounds": 32},
        "falling rate": {"schedule": "falls", "rate": 3e-3, "rounds": 50},
        "SGD with momentum": {**MOMENTUM, "rounds": 70},
        "ReLU, wide": {"activation": nn.ReLU, "width": 96},
        "nearly whole returns": {"share": 0.97, "rounds": 45},
        "short sight": {"discount": 0.8},
        "advantages as they are": {"normalised": False, "rounds": 40},
        "rewards x 10": {"reward_scale": 10.0, "value_share": 0.01},
        "loss x 10000": {"times": 1e4},
        "bfloat16": {"bfloat16": True},
        "average of weights": {"average": 0.98},
        "no evaluation": {"evaluated": False},
    },
    {
        "reward as a cost": ("no-skill worse", {"fault": "reward as a cost"}),
        "sign of the objective": ("no-skill worse fast", {"fault": "sign of the objective"}),
        "ratio of itself": ("no-gradient no-skill", {"fault": "ratio of itself"}),
        "chances detached": ("no-gradient unbound no-skill", {"fault": "chances detached"}),
        "shapes that broadcast": ("broadcast no-skill", {"fault": "shapes that broadcast"}),
        "spread of zero": ("fast not-finite", {**UNCLIPPED, "fault": "spread of zero"}),
        "rovers before times": ("no-skill", {"fault": "rovers before times"}),
        "observations overwritten": ("inputs no-skill", {"fault": "observations overwritten"}),
        "policy of the start acts": ("no-skill slow", {"fault": "policy of the start acts"}),
        "estimates from the front": ("no-skill", {"fault": "estimates from the front"}),
        "the critic alone": ("unbound no-skill", {"fault": "the critic alone"}),
        "optimizer of a copy": ("unbound no-skill", {"fault": "a copy"}),
        "sees otherwise later": ("inputs", {"scale": 0.05, "later_scale": 20.0}),
        "starts too large": ("saturated no-skill", {"start": 1000.0}),
        "rewards x 10000": ("range no-skill", {"reward_scale": 1e4, "shared": True}),
        "gradients kept": ("kept-gradients fast", {**UNCLIPPED, "fault": "gradients kept"}),
        "stepped each update": ("schedule slow", {"schedule": "stepped each update"}),
        "decay of one": ("no-skill collapse", {"decay": 1.0}),
        "rate x 1000": ("fast no-skill saturated", {"rate": 2.0, "clip": 0.0}),
        "rate / 1000": ("slow no-skill", {"rate": 2e-6}),
    },
)  # fmt: skip
