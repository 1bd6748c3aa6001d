"""Minutes of waiting at an airport's security, an hour ahead: causal dilated convolutions.

Each ten minutes the wait, the people who come, the open lanes, the roster an hour ahead and the
seats that leave in two hours are known; the network foretells the six next waits at every position
of a window. The skill is the share of the variance that the last position's forecast explains, on
later days.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, explained, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

WINDOW, AHEAD, DAY = 24, 6, 144


def record(days: int, seed: int) -> tuple[Tensor, Tensor]:
    """What is known as (T, 7), the wait first, and the wait itself."""
    draw = torch.Generator().manual_seed(seed)
    count = DAY * days + 24
    time = torch.arange(count) % DAY
    busy = torch.exp(-(((time - 48) / 14) ** 2)) + 0.9 * torch.exp(-(((time - 106) / 18) ** 2))
    flights = torch.poisson(0.25 + 1.1 * busy, generator=draw)
    seats = flights * (90 + 60 * torch.rand(count, generator=draw))
    profile = torch.tensor([0.05, 0.1, 0.2, 0.25, 0.2, 0.12, 0.08])  # 13 to 7 steps before
    coming = sum(share * seats.roll(-13 + k) for k, share in enumerate(profile))
    coming = coming * (1 + 0.12 * torch.randn(count, generator=draw)).clamp(min=0.3)
    lanes = (1 + 2.2 * busy + 0.7 * torch.rand(count // 6 + 1, generator=draw)
             .repeat_interleave(6)[:count]).round()  # fmt: skip
    queue, waits = 0.0, []
    for people, open_lanes in zip(coming.tolist(), lanes.tolist(), strict=True):
        queue = max(0.0, queue + people - 45 * open_lanes)
        waits.append(2 + 10 * queue / (45 * open_lanes))
    wait = torch.tensor(waits) + 0.3 * torch.randn(count, generator=draw)
    angle = 2 * math.pi * time / DAY
    known = [wait, coming, lanes, lanes.roll(-6), seats.roll(-13), angle.sin(), angle.cos()]
    return torch.stack(known, 1)[:-24], wait[:-24]


def windows(known: Tensor, wait: Tensor, fault: str = "") -> tuple[Tensor, Tensor]:
    """Inputs (N, WINDOW, 7), and the next waits (N, WINDOW, AHEAD) of every position."""
    inputs = known[:-AHEAD].unfold(0, WINDOW, 1).transpose(1, 2)
    if fault == "the last hour as the target":
        wait = torch.cat([wait[:1].expand(AHEAD), wait[:-AHEAD]])
    targets = wait[1:].unfold(0, AHEAD, 1).unfold(0, WINDOW, 1).transpose(1, 2)
    return inputs, targets


class Block(nn.Module):
    def __init__(self, width: int, dilation: int, dropout: float) -> None:
        super().__init__()
        self.past = 2 * dilation
        self.conv = nn.Conv1d(width, width, 3, dilation=dilation)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.conv(nn.functional.pad(x, (self.past, 0))).relu()
        return x + self.dropout(inner)


class QueueNet(nn.Module):
    def __init__(self, width: int, outputs: int, dropout: float, fault: str) -> None:
        super().__init__()
        self.enter = nn.Conv1d(7, width, 1)
        self.blocks = nn.Sequential(*(Block(width, 2**k, dropout) for k in range(3)))
        self.leave = nn.Conv1d(width, outputs, 1)
        if fault == "weights from a wide normal":
            for layer in self.modules():
                if isinstance(layer, nn.Conv1d):
                    nn.init.normal_(layer.weight, 0, 1)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.leave(self.blocks(self.enter(x.transpose(1, 2))).relu())
        return found.transpose(1, 2)


class Forecaster:
    """Scales, trains and foretells."""

    def __init__(self, net: QueueNet, known: Tensor, kind: str) -> None:
        self.net, self.kind = net, kind
        seen = known[known.isfinite().all(1)]
        self.mean, self.spread = seen.mean(0), seen.std(0)

    def scaled(self, known: Tensor) -> Tensor:
        return (known - self.mean) / self.spread

    def target(self, wait: Tensor) -> Tensor:
        return wait if self.kind == "minutes" else (wait - self.mean[0]) / self.spread[0]

    def loss(self, found: Tensor, wait: Tensor) -> Tensor:
        wanted = self.target(wait)
        if self.kind == "minutes":
            return 1000 * nn.functional.huber_loss(found, wanted, delta=5.0)
        if self.kind == "quantiles":
            away = wanted.unsqueeze(-1) - found.unflatten(-1, (AHEAD, 3))
            level = torch.tensor([0.1, 0.5, 0.9])
            return torch.maximum(level * away, (level - 1) * away).sum(-1).mean()
        return nn.functional.mse_loss(found, wanted)

    def minutes(self, found: Tensor) -> Tensor:
        if self.kind == "quantiles":
            found = found.unflatten(-1, (AHEAD, 3))[..., 1]
        return found if self.kind == "minutes" else found * self.spread[0] + self.mean[0]

    @torch.no_grad()
    def evaluate(self, inputs: Tensor, wait: Tensor) -> tuple[Tensor, float]:
        self.net.eval()
        found = self.net(inputs)[:, -1]
        error = self.loss(found, wait[:, -1]).item()
        self.net.train()
        return self.minutes(found), error


def train(
    seed: int, hook: Any, steps: int = 2000, rate: float = 3e-3, batch: int = 16, days: int = 60,
    optimizer: str = "adam", decay: float = 0.0, schedule: str = "constant", clip: float = 0.0,
    kind: str = "", dropout: float = 0.0, last_alone: bool = False, half: bool = False,
    evaluate: int = 200, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    known, wait = record(days, 23 * seed + 60)
    (held_known, held_wait), (test_known, test_wait) = (
        record(n, 23 * seed + 60 + n) for n in (6, 20)
    )
    if fault == "gaps in the record":  # the sensor at the gate was out for some minutes
        known[torch.rand(len(known)) < 0.002, 1] = math.nan
    net = QueueNet(16, 3 * AHEAD if kind == "quantiles" else AHEAD, dropout, fault)
    forecaster = Forecaster(net, known, kind)
    x, y = windows(forecaster.scaled(known), wait, fault)
    held_x, held_y = windows(forecaster.scaled(held_known), held_wait, fault)
    hook.torch(net)
    steering = optimizer_of(optimizer, net.parameters(), rate, decay)
    plan = scheduler_of(steering, schedule, steps)
    for step in range(1, steps + 1):
        rows = torch.randint(len(x), (batch,))
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            found = net(x[rows])
        wanted = y[rows]
        if last_alone:
            found, wanted = found[:, -1], wanted[:, -1]
        loss = forecaster.loss(found.float(), wanted)
        if fault != "gradients kept":
            steering.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        steering.step()
        plan.step()
        if evaluate and step % evaluate == 0:
            forecaster.evaluate(held_x[::4], held_y[::4])
    test_x, test_y = windows(forecaster.scaled(test_known), test_wait)
    found, _ = forecaster.evaluate(test_x, test_y)
    return explained(found, test_y[:, -1]) if bool(found.isfinite().all()) else math.nan


CASES = cases(
    "airport queues",
    train,
    {
        "plain": {},
        "thousandfold Huber loss in minutes, clipped": {"kind": "minutes", "clip": 1.0},
        "three quantiles, cosine": {"kind": "quantiles", "schedule": "cosine"},
        "the last position alone, large batches": {"last_alone": True, "batch": 48},
        "bfloat16, restarts": {"half": True, "schedule": "restarts", "rate": 5e-3},
        "momentum, dropout, one cycle": {
            "optimizer": "momentum", "rate": 2e-2, "dropout": 0.05, "schedule": "one cycle",
        },
        "two windows at a time, not evaluated, decay": {
            "batch": 2, "evaluate": 0, "optimizer": "adamw", "decay": 0.1, "rate": 1e-3,
            "steps": 3000, "schedule": "warmup",
        },
    },
    {
        "the last hour as the target": ("leak", {"fault": "the last hour as the target"}),
        "gaps in the record": ("not-finite", {"fault": "gaps in the record"}),
        "rate of 1e-6": ("slow no-skill", {"rate": 1e-6}),
        "gradients kept": (
            "kept-gradients fast", {"fault": "gradients kept", "optimizer": "momentum"},
        ),
        "weights from a wide normal": (
            "fast dead saturated no-skill", {"fault": "weights from a wide normal"},
        ),
        "one day": ("overfit", {"days": 1}),
    },
)  # fmt: skip
