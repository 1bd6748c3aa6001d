"""A basket that catches falling apples: a deep Q network with a ring memory and a soft target.

Apples fall through a grid, straight or slanting, and come back from the walls. The reward is 1 for
an apple that was caught and -1 for one that was not. The skill is the share of apples that the
greedy basket catches, above that of a basket at random.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

WIDTH, HEIGHT, BASKETS = 7, 8, 16
SEEN = WIDTH * HEIGHT + WIDTH + 3


class Orchard:
    """Many baskets at once; each gets a new apple as soon as the last one is down."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.basket = torch.randint(WIDTH, (count,))
        self.x, self.drift = torch.randint(WIDTH, (count,)), torch.randint(-1, 2, (count,))
        self.y = torch.randint(3, (count,))

    def observe(self) -> Tensor:
        apple = F.one_hot(self.y * WIDTH + self.x, WIDTH * HEIGHT)
        return torch.cat(
            [apple, F.one_hot(self.basket, WIDTH), F.one_hot(self.drift + 1, 3)], 1
        ).float()

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What is seen then, rewards, and which apples are down."""
        self.basket = (self.basket + action - 1).clamp(0, WIDTH - 1)
        ahead = self.x + self.drift
        self.drift = torch.where((ahead < 0) | (ahead >= WIDTH), -self.drift, self.drift)
        self.x, self.y = self.x + self.drift, self.y + 1
        seen, down = self.observe(), self.y == HEIGHT - 1
        reward = torch.where(self.x == self.basket, 1.0, -1.0) * down
        self.x = torch.where(down, torch.randint(WIDTH, (self.count,)), self.x)
        self.drift = torch.where(down, torch.randint(-1, 2, (self.count,)), self.drift)
        self.y = torch.where(down, 0, self.y)
        return seen, reward, down


class Memory:
    """The last transitions, in tensors that are written round and round."""

    def __init__(self, size: int, late: bool) -> None:
        self.size, self.full, self.next, self.late = size, 0, 0, int(late)
        self.was, self.then = torch.zeros(size, SEEN), torch.zeros(size, SEEN)
        self.action = torch.zeros(size, dtype=torch.long)
        self.reward, self.down = torch.zeros(size), torch.zeros(size)

    def push(self, was: Tensor, action: Tensor, reward: Tensor, then: Tensor, down: Tensor) -> None:
        at = (self.next + torch.arange(len(was))) % self.size
        self.was[at], self.action[at], self.then[at] = was, action, then
        self.reward[(at + self.late * len(was)) % self.size] = reward
        self.down[at] = down.float()
        self.next = (self.next + len(was)) % self.size
        self.full = min(self.full + len(was), self.size)

    def sample(self, count: int) -> tuple[Tensor, ...]:
        rows = torch.randint(self.full, (count,))
        return tuple(p[rows] for p in (self.was, self.action, self.reward, self.then, self.down))


class QNet(nn.Module):
    def __init__(self, dueling: bool, fault: str) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(SEEN, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.advantage = nn.Linear(64, 3)
        self.state = nn.Linear(64, 1) if dueling else None
        self.fault = fault

    def forward(self, seen: Tensor) -> Tensor:
        h = self.body(seen)
        q: Tensor = self.advantage(h)
        if self.state is not None:
            q = self.state(h) + q - q.mean(1, keepdim=True)
        return q.relu() if self.fault == "ReLU at the end" else q


@torch.no_grad()
def caught(model: nn.Module, count: int = 1000) -> float:
    """The share of apples that the greedy basket catches."""
    model.eval()
    orchard, good, all_of_them = Orchard(count), 0, 0
    for _ in range(3 * HEIGHT):
        q = model(orchard.observe())
        if not bool(q.isfinite().all()):
            return math.nan
        _, reward, down = orchard.step(q.argmax(1))
        good, all_of_them = good + int((reward > 0).sum()), all_of_them + int(down.sum())
    model.train()
    return good / all_of_them


def train(
    seed: int, hook: Any, steps: int = 3000, rate: float = 2e-3, batch: int = 64,
    optimizer: str = "adam", schedule: str = "constant", loss: str = "huber", tau: float = 0.02,
    copied: int = 0, double: bool = False, dueling: bool = False, first: int = 20,
    curious: float = 0.0, rewards: float = 1.0, clip: float = 0.0, discount: float = 0.95,
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    orchard, memory = Orchard(BASKETS), Memory(10_000, fault == "rewards a row too late")
    policy = QNet(dueling, fault)
    target = copy.deepcopy(policy)
    opt = optimizer_of(optimizer, policy.parameters(), rate)
    scheduler = scheduler_of(opt, schedule, steps)
    hook.torch(policy)
    seen = orchard.observe()
    for step in range(-first, steps):
        epsilon = curious or max(0.05, 1 - 2 * max(step, 0) / steps)
        with torch.no_grad():
            greedy = policy(seen).argmax(1)
        action = torch.where(torch.rand(BASKETS) < epsilon, torch.randint(3, (BASKETS,)), greedy)
        then, reward, down = orchard.step(action)
        if fault == "state overwritten":  # the same tensor is kept for both
            seen.copy_(then)
        memory.push(seen, action, rewards * reward, then, down)
        seen = orchard.observe()
        if step < 0:
            continue
        was, did, gain, after, over = memory.sample(batch)
        with torch.no_grad():
            ahead = target(after)
            best = (policy(after) if double else ahead).argmax(1, keepdim=True)
            wanted = gain + discount * (1 - over) * ahead.gather(1, best).squeeze(1)
        q = policy(was).gather(1, did[:, None])
        if fault != "column against row":
            q = q.squeeze(1)
        error = F.smooth_l1_loss(q, wanted) if loss == "huber" else F.mse_loss(q, wanted)
        if fault != "gradients kept":
            opt.zero_grad()
        error.backward()
        if clip:
            nn.utils.clip_grad_norm_(policy.parameters(), clip)
        opt.step()
        scheduler.step()
        if copied and step % copied == 0:
            target.load_state_dict(policy.state_dict())
        elif not copied:
            with torch.no_grad():
                for old, new in zip(target.parameters(), policy.parameters(), strict=True):
                    old.lerp_(new, tau)
        if step % 500 == 499:
            caught(policy, 50)
    return (caught(policy) - 1 / WIDTH) / (1 - 1 / WIDTH)


CASES = cases(
    "catch apples",
    train,
    {
        "plain": {},
        "target copied now and then": {"copied": 40, "steps": 4000},
        "double, warm-up": {"double": True, "schedule": "warmup", "rate": 3e-3},
        "rewards threefold, clipped": {
            "rewards": 3.0, "clip": 10.0, "loss": "squares", "rate": 3e-3, "steps": 4000,
        },
        "late start, large batches": {"first": 400, "batch": 256, "steps": 2500},
        "dueling, squares, AdamW": {"dueling": True, "loss": "squares", "optimizer": "adamw"},
        "curious to the end": {"curious": 0.4},
    },
    {
        "column against row": ("broadcast no-skill collapse", {"fault": "column against row"}),
        "state overwritten": ("no-skill collapse", {"fault": "state overwritten"}),
        "rewards a row too late": ("no-skill", {"fault": "rewards a row too late"}),
        "gradients kept": ("kept-gradients fast worse", {"fault": "gradients kept"}),
        "ReLU at the end": ("range dead no-gradient no-skill", {"fault": "ReLU at the end"}),
        "target never renewed": ("no-skill slow", {"tau": 0.0}),
        "rate of 0.1": ("fast dead no-skill worse", {"rate": 0.1}),
    },
)  # fmt: skip
