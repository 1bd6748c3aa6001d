"""Three water tanks in a row, one pump: an ensemble learns how levels change, and plans with it.

Plans are drawn at random and refined. The skill is how near the last level is held to what is
wanted, where 1 is a plan by the tanks' own laws, and 0 the best constant setting of the pump.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, dense, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

LENGTH, FORWARD, PLANS = 40, 16, 64


def tanks(level: Tensor, pump: Tensor) -> Tensor:
    """Levels in centimetres a moment later."""
    out = 1.3 * level.clamp(min=0).sqrt() * torch.tensor([1.0, 0.9, 0.8])
    flows_in = torch.cat([14 * pump**1.5, out[:, :2]], 1)
    return (level + 0.8 * (flows_in - out)).clamp(0, 120)


def planned(law: Any, level: Tensor, wanted: Tensor) -> Tensor:
    """The first step of the best plan for each of N runs."""
    draw, count = torch.Generator().manual_seed(1), len(level)
    middle, spread = torch.full((count, 1, FORWARD // 4), 0.5), 0.4
    for _ in range(3):
        plan = middle + spread * torch.randn(count, PLANS, FORWARD // 4, generator=draw)
        plan, spread = plan.clamp(0, 1), spread / 2
        now, cost = level.repeat_interleave(PLANS, 0), torch.zeros(count * PLANS)
        for moment in range(FORWARD):
            now = law(now, plan[:, :, moment // 4].reshape(-1, 1))
            cost = cost + (now[:, 2] - wanted.repeat_interleave(PLANS)).abs()
        best = cost.nan_to_num(1e9).view(count, PLANS).topk(8, largest=False).indices
        middle = plan.gather(1, best[:, :, None].expand(-1, -1, FORWARD // 4)).mean(1, True)
    return middle[:, 0, :1]


def held_levels(act: Any, seed: int) -> float:
    """How far the last level is from what is wanted."""
    draw, far = torch.Generator().manual_seed(seed), 0.0
    level = 20 + 60 * torch.rand(12, 3, generator=draw)
    for moment in range(LENGTH):
        if moment % 20 == 0:
            wanted = 25 + 75 * torch.rand(12, generator=draw)
        level = tanks(level, act(level, wanted))
        far += (level[:, 2] - wanted).abs().mean().item() if moment % 20 >= 10 else 0.0
    return far


class Ensemble(nn.Module):
    def __init__(self, members: int) -> None:
        super().__init__()
        self.nets = nn.ModuleList(dense([4, 48, 48, 6], nn.SiLU) for _ in range(members))

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([net(x) for net in self.nets])


def records(count: int, seed: int, steady: bool) -> tuple[Tensor, Tensor]:
    """Levels (LENGTH + 1, count, 3) and settings of the pump (LENGTH, count, 1)."""
    draw = torch.Generator().manual_seed(seed)
    levels, pumps = [20 + 80 * torch.rand(count, 3, generator=draw)], []
    for moment in range(LENGTH):
        if moment % 4 == 0:
            pump = torch.rand(count, 1, generator=draw)
        pumps.append(0.5 + 0.01 * pump if steady else pump)
        levels.append(tanks(levels[-1], pumps[-1]) + 0.1 * torch.randn(count, 3, generator=draw))
    return torch.stack(levels), torch.stack(pumps)


def train(
    seed: int, hook: Any, loss: str = "squares", members: int = 3, rate: float = 3e-3,
    schedule: str = "constant", batch: int = 128, steps: int = 800, runs: int = 60,
    scaled: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    levels, pumps = records(runs, seed + 9900, fault == "pump always alike")
    if fault == "pump of later moments":
        levels, pumps = levels[:-4], pumps[4:]
    now, later = levels[:-1], levels[1:]
    if fault == "across the ends of runs":  # runs of four moments, one after another in a buffer
        ends = torch.arange(len(now)) % 4 == 3
        later = torch.where(ends[:, None, None], now.roll(1, 1).flip(0), later)
    x, y = torch.cat([now, pumps], 2).flatten(0, 1), (later - now).flatten(0, 1)
    mean, spread, size = x.mean(0), x.std(0), y.std(0) if scaled else torch.full((3,), 1e4)
    x, y = (x - mean) / spread, y / size
    held, rest = torch.randperm(len(x)).split([300, len(x) - 300])
    model = Ensemble(members)
    hook.torch(model)
    trained = Ensemble(members) if fault == "an earlier optimizer" else model
    optimizer = torch.optim.Adam(trained.parameters(), rate)
    scheduler = scheduler_of(optimizer, schedule, steps)

    def error(rows: Tensor) -> Tensor:
        change, doubt = model(x[rows]).chunk(2, -1)
        doubt = doubt.clamp(-4, 2) if loss == "likelihood" else 0 * doubt
        return (0.5 * ((y[rows] - change) / doubt.exp()) ** 2 + doubt).mean((1, 2)).sum()

    for step in range(1, steps + 1):
        optimizer.zero_grad()
        error(rest[torch.randint(len(rest), (batch,))]).backward()
        optimizer.step()
        scheduler.step()
        if step % 200 == 0:
            model.eval()
            with torch.no_grad():
                error(held)
            model.train()

    def learned(level: Tensor, pump: Tensor) -> Tensor:
        inputs = (torch.cat([level, pump], 1) - mean) / spread
        return (level + model(inputs)[..., :3].mean(0) * size).clamp(0, 120)

    model.eval()
    with torch.no_grad():
        own = held_levels(lambda level, wanted: planned(learned, level, wanted), seed + 9901)
        best = held_levels(lambda level, wanted: planned(tanks, level, wanted), seed + 9901)
    fixed = torch.linspace(0, 1, 11)[:, None, None].expand(-1, 12, 1)
    none = min(held_levels(lambda *_, pump=pump: pump, seed + 9901) for pump in fixed)
    return (none - own) / (none - best) if math.isfinite(own) else math.nan


CASES = cases(
    "tank planning",
    train,
    {
        "plain": {},
        "a likelihood, below zero": {"loss": "likelihood", "steps": 1000},
        "one member": {"members": 1},
        "restarts": {"schedule": "restarts", "rate": 1e-2},
        "few records": {"runs": 20},
        "tiny batches": {"batch": 16, "rate": 1e-3, "steps": 1200},
    },
    {
        "pump of later moments": ("inputs no-skill", {"fault": "pump of later moments"}),
        "across the ends of runs": ("inputs no-skill", {"fault": "across the ends of runs"}),
        "pump always alike": ("inputs overfit imbalance", {"fault": "pump always alike"}),
        "changes of a ten-thousandth": ("slow inputs no-skill", {"scaled": False}),
        "an earlier optimizer": ("unbound no-skill", {"fault": "an earlier optimizer"}),
    },
)  # fmt: skip
