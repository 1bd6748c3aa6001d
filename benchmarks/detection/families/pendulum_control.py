"""An actor and a critic (DDPG) learn from a replay buffer to hold a pendulum upright."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, dense
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.detection.case import cases

Array = NDArray[np.float64]
EPISODE, TORQUE = 50, 2.0


class Pendulums:
    """Some pendulums at once; an episode has fifty steps of 0.1 s."""

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.draw = count, np.random.default_rng(seed)
        self.reset()

    def reset(self) -> Array:
        self.theta = self.draw.uniform(-np.pi, np.pi, self.count)
        self.speed = self.draw.uniform(-1, 1, self.count)
        self.time = 0
        return self.observe()

    def observe(self) -> Array:
        return np.stack([np.cos(self.theta), np.sin(self.theta), self.speed / 4], 1)

    def step(self, torque: Array) -> tuple[Array, Array, bool]:
        u = np.clip(torque, -TORQUE, TORQUE)
        angle = (self.theta + np.pi) % (2 * np.pi) - np.pi
        cost = angle**2 + 0.1 * self.speed**2 + 0.01 * u**2
        faster = self.speed + (2.0 * np.sin(self.theta) + 3.0 * u) * 0.1
        self.speed = np.clip(faster, -6, 6)
        self.theta = self.theta + self.speed * 0.1
        self.time += 1
        return self.observe(), -cost, self.time >= EPISODE


class Replay:
    """The last transitions, in arrays that were laid out before."""

    def __init__(self, capacity: int, seed: int) -> None:
        self.capacity, self.size, self.at = capacity, 0, 0
        self.rows = np.zeros((capacity, 9), np.float32)
        self.draw = np.random.default_rng(seed)

    def push(self, *columns: Array) -> None:
        rows = np.concatenate([c.reshape(len(columns[0]), -1) for c in columns], 1)
        places = (self.at + np.arange(len(rows))) % self.capacity
        self.rows[places] = rows
        self.at = (self.at + len(rows)) % self.capacity
        self.size = min(self.size + len(rows), self.capacity)

    def sample(self, batch: int) -> list[Tensor]:
        rows = torch.from_numpy(self.rows[self.draw.integers(0, self.size, batch)])
        return list(rows.split([3, 1, 1, 3, 1], 1))


class Agent(nn.Module):
    def __init__(self, width: int, activation: type[nn.Module], critics: int) -> None:
        super().__init__()
        self.actor = nn.Sequential(*dense([3, width, width, 1], activation), nn.Tanh())
        self.critics = nn.ModuleList(
            dense([4, width, width, 1], activation) for _ in range(critics)
        )

    def act(self, observation: Tensor) -> Tensor:
        action: Tensor = self.actor(observation)
        return action

    def values(self, observation: Tensor, action: Tensor) -> list[Tensor]:
        return [critic(torch.cat([observation, action], 1)) for critic in self.critics]


def mean_return(policy: Any, seed: int) -> float:
    """The mean of rewards in 200 episodes, without exploration."""
    pendulums = Pendulums(200, seed)
    observation, done, rewards = pendulums.observe(), False, []
    while not done:
        observation, reward, done = pendulums.step(policy(observation))
        rewards.append(reward.mean())
    return float(np.mean(rewards))


def by_hand(observation: Array) -> Array:
    """A controller that is close to the best."""
    angle, speed = np.arctan2(observation[:, 1], observation[:, 0]), observation[:, 2] * 4
    return -3.0 * angle - 1.2 * speed


def train(
    seed: int, hook: Any, updates: int = 500, batch: int = 64, actor_rate: float = 1e-3,
    critic_rate: float = 2e-3, gamma: float = 0.95, tau: float = 0.02, copied_every: int = 0,
    noise: float = 0.2, reward_scale: float = 0.1, capacity: int = 20000, first: int = 1000,
    critics: int = 1, delay: int = 1, loss: str = "mse", width: int = 48, clip: float = 0.0,
    activation: type[nn.Module] = nn.ReLU, schedule: str = "",
    extra: str = "", fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    env = Pendulums(8, seed + 1)
    replay = Replay(capacity, seed + 2)
    agent = Agent(width, activation, critics)
    if fault == "saturated start":
        nn.init.normal_(agent.actor[-2].weight, std=5.0)
        nn.init.constant_(agent.actor[-2].bias, 20.0)
    target = copy.deepcopy(agent)
    adam = torch.optim.Adam
    actor_optimizer = adam(agent.actor.parameters(), actor_rate)
    critic_optimizer = adam(agent.critics.parameters(), critic_rate)
    schedulers = [
        torch.optim.lr_scheduler.LambdaLR(o, lambda n: factor(schedule, n / updates))
        for o in (actor_optimizer, critic_optimizer)
    ]
    criterion: Any = {"mse": F.mse_loss, "huber": F.smooth_l1_loss}[loss]
    scale = np.array([200.0, 200.0, 200.0]) if fault == "degrees times 200" else 1.0
    explore = np.random.default_rng(seed + 3)

    @torch.no_grad()
    def greedy(observation: Array) -> Array:
        found = agent.act(torch.as_tensor(observation * scale, dtype=torch.float32))
        return np.asarray(found[:, 0], dtype=np.float64) * TORQUE

    hook.torch(agent)
    observation = env.reset() * scale
    done_updates = frames = 0
    while done_updates < updates:
        with torch.no_grad():
            action = agent.act(torch.as_tensor(observation, dtype=torch.float32))[:, 0].numpy()
        if frames < first:
            action = explore.uniform(-1, 1, env.count)
        action = np.clip(action + noise * explore.standard_normal(env.count), -1, 1)
        following, reward, done = env.step(action * TORQUE)
        following = following * scale
        if fault == "reward as cost":
            reward = -reward
        before = following if fault == "observation overwritten" else observation
        live = np.full(env.count, 0.0 if fault == "mask inverted" else 1.0)
        replay.push(before, action, reward * reward_scale, following, live)
        observation = env.reset() * scale if done else following
        frames += env.count
        if frames < min(first, capacity):
            continue

        o, a, r, then, alive = replay.sample(batch)
        with torch.no_grad():
            next_action = target.act(then)
            if extra == "smoothed targets":
                next_action = (next_action + 0.1 * torch.randn_like(next_action)).clamp(-1, 1)
            later = torch.stack(target.values(then, next_action)).min(0).values
            wanted = r + gamma * alive * later
        if fault == "reward flat":
            wanted = r[:, 0] + gamma * later
        with torch.autocast("cpu", torch.bfloat16, enabled=extra == "bfloat16"):
            found = agent.values(o, a)
        critic_loss = sum((criterion(q.float(), wanted) for q in found), torch.zeros(()))
        if fault != "no zero_grad":
            critic_optimizer.zero_grad()
        critic_loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(agent.critics.parameters(), clip)
        critic_optimizer.step()

        if done_updates % delay == 0 and done_updates >= (300 if extra == "critic first" else 0):
            chosen = agent.act(o)
            if fault == "action detached":
                chosen = chosen.detach()
            actor_loss = -agent.values(o, chosen)[0].mean()
            if fault == "actor descends":
                actor_loss = -actor_loss
            if fault != "no zero_grad":
                actor_optimizer.zero_grad()
            actor_loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(agent.actor.parameters(), clip)
            actor_optimizer.step()
        with torch.no_grad():
            pairs = zip(target.parameters(), agent.parameters(), strict=True)
            if copied_every and done_updates % copied_every == 0:
                target.load_state_dict(agent.state_dict())
            elif not copied_every and fault == "target copied back":
                for old, new in pairs:
                    new.lerp_(old, 0.5)
            elif not copied_every:
                for old, new in pairs:
                    old.lerp_(new, tau)
        for scheduler in schedulers:
            scheduler.step()
        done_updates += 1

    worst, best = (mean_return(p, seed + 9) for p in (lambda o: np.zeros(len(o)), by_hand))
    if not all(bool(p.isfinite().all()) for p in agent.parameters()):
        return math.nan
    return (mean_return(greedy, seed + 9) - worst) / (best - worst)


def factor(schedule: str, done: float) -> float:
    if schedule == "linear":
        return 1 - 0.9 * done
    if schedule == "warm-up":
        return min(1.0, done * 10 + 1e-3)
    if schedule == "stepped each update":
        return float(0.1 ** (done * 100))
    return 1.0


CASES = cases(
    "pendulum control",
    train,
    {
        "plain": {"updates": 2000},
        "two critics": {"critics": 2, "extra": "smoothed targets", "updates": 1000},
        "huber": {"loss": "huber", "updates": 2400},
        "targets copied": {"copied_every": 30, "updates": 1000},
        "batch of 16": {"batch": 16},
        "batch of 512": {"batch": 512, "updates": 400},
        "tanh": {"activation": nn.Tanh},
        "clipping": {"clip": 0.5},
        "linear decay": {"schedule": "linear"},
        "warm-up": {"schedule": "warm-up", "updates": 1000},
        "critic first": {"extra": "critic first", "updates": 1000},
        "bfloat16": {"extra": "bfloat16"},
    },
    {
        "reward as cost": ("no-skill worse", {"fault": "reward as cost"}),
        "actor descends": ("no-skill worse saturated", {"fault": "actor descends"}),
        "action detached": ("no-gradient unbound no-skill", {"fault": "action detached"}),
        "reward flat": ("broadcast no-skill", {"fault": "reward flat"}),
        "observation overwritten": ("inputs no-skill leak", {"fault": "observation overwritten"}),
        "mask inverted": ("no-skill", {"fault": "mask inverted"}),
        "target copied back": ("slow no-skill", {"fault": "target copied back"}),
        "saturated start": ("saturated dead no-gradient", {"fault": "saturated start"}),
        "inputs x 200": ("inputs saturated", {"fault": "degrees times 200"}),
        "no zero_grad": ("kept-gradients no-skill worse", {"fault": "no zero_grad"}),
        "rate of 0.3": ("fast no-skill dead saturated", {"actor_rate": 0.3, "critic_rate": 0.3}),
        "rate of 1e-6": ("slow no-skill", {"actor_rate": 1e-6, "critic_rate": 1e-6}),
        "rate stepped each update": ("slow schedule", {"schedule": "stepped each update"}),
    },
)
