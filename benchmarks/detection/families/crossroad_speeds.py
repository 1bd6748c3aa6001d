"""Speeds at the crossroads of a town: a network of messages along the roads, on streamed records.

Jams begin at some crossroads and wander against the traffic to their neighbours. A window has the
last six readings of each crossroads, and the next three are predicted; a detector that failed says
0, which the loss leaves out. The skill is the mean absolute error, beside that of each one's mean.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn

from benchmarks.detection.case import cases

PLACES, PAST, AHEAD = 14, 6, 3


def roads() -> Tensor:
    """(PLACES, PLACES): the share of each neighbour's jam that reaches a crossroads."""
    draw = torch.Generator().manual_seed(77)
    ring = torch.roll(torch.eye(PLACES), 1, 1)
    shortcut = (torch.rand(PLACES, PLACES, generator=draw) < 0.08).float()
    both = ring + shortcut * (1 - torch.eye(PLACES))
    return both / both.sum(1, keepdim=True)


def record(length: int, seed: int, gaps: float) -> Tensor:
    """(length, PLACES) kilometres an hour, 0 where a detector failed."""
    draw = torch.Generator().manual_seed(seed)
    begun = (torch.rand(length + 100, PLACES, generator=draw) < 0.02).float()
    begun = begun * (1 + torch.rand(length + 100, PLACES, generator=draw))
    jam, jams, graph = torch.zeros(PLACES), [], roads()
    for new in begun:
        jam = 0.35 * jam + 0.6 * graph @ jam + new
        jams.append(jam)
    limit = 40 + 20 * torch.rand(PLACES, generator=torch.Generator().manual_seed(78))
    speed = limit * (-0.9 * torch.stack(jams[100:])).exp()
    speed = (speed + 0.5 * torch.randn(speed.shape, generator=draw)).clamp(min=2)
    return speed * (torch.rand(speed.shape, generator=draw) >= gaps)


class Messages(nn.Module):
    """Layers of messages; the graph is that of the roads, or learned as well."""

    def __init__(self, learned: bool, width: int = 32) -> None:
        super().__init__()
        self.register_buffer("roads", roads())
        self.source = nn.Parameter(0.1 * torch.randn(PLACES, 8)) if learned else None
        self.target = nn.Parameter(0.1 * torch.randn(8, PLACES)) if learned else None
        self.place = nn.Parameter(0.1 * torch.randn(PLACES, 8))
        self.enter = nn.Linear(2 * PAST + 8, width)
        self.mix = nn.ModuleList(nn.Linear(3 * width, width) for _ in range(2))
        self.leave = nn.Linear(width, AHEAD)

    def forward(self, x: Tensor) -> Tensor:
        graph: Tensor = self.roads
        if self.source is not None:
            graph = (graph + F.relu(self.source @ self.target).softmax(1)) / 2
        h = F.relu(self.enter(torch.cat([x, self.place.expand(len(x), -1, -1)], -1)))
        for layer in self.mix:
            near = graph @ h
            h = h + F.relu(layer(torch.cat([h, near, graph @ near], -1)))
        return self.leave(h)


def masked(error: Tensor, speed: Tensor) -> Tensor:
    """The mean over readings that are there."""
    mask = (speed > 0).float()
    mask = mask / mask.mean()
    return (error * mask).mean()


def train(
    seed: int, hook: Any, learned: bool = False, error: str = "absolute", rate: float = 2e-3,
    steps: int = 2200, gaps: float = 0.05, unit: str = "scaled", schedule: str = "",
    order: str = "random", curriculum: bool = False, continued: bool = False, clip: float = 0.0,
    batch: int = 16, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    past = record(3000, seed + 100, gaps)
    later, last = record(600, 101, gaps), record(2500, 102, 0.05)
    mean, spread = past[past > 0].mean(), past[past > 0].std()

    def windows(series: Tensor, starts: Tensor, scaled: bool = True) -> tuple[Tensor, Tensor]:
        part = series[starts[:, None] + torch.arange(PAST + AHEAD)].transpose(1, 2)
        seen, there = part[..., :PAST], part[..., :PAST] > 0
        x = (seen - mean) / spread * there if scaled else seen
        return torch.cat([x, there.float()], -1), part[..., PAST:]

    net = Messages(learned)
    hook.torch(net)
    optimizer = torch.optim.Adam(net.parameters(), rate)
    scheduler: Any = None
    if schedule == "steps":
        marks = [steps // 2, 3 * steps // 4, 7 * steps // 8]
        scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, marks, 0.3)
    count = len(past) - PAST - AHEAD

    def loss_of(x: Tensor, speed: Tensor, horizons: int = AHEAD) -> Tensor:
        found = net(x)
        wanted = (speed - mean) / spread
        if unit == "kilometres":
            found, wanted = found * spread + mean, speed
        if error == "absolute":
            each = (found - wanted).abs()
        elif error == "squared":
            each = (found - wanted) ** 2
        else:
            each = F.huber_loss(found, wanted, reduction="none", delta=0.5)
        return masked(each[..., :horizons], speed[..., :horizons])

    for step in range(steps):
        starts = torch.randint(count, (batch,))
        if order == "stream":
            starts = (step * batch + torch.arange(batch)) % count
        horizons = min(AHEAD, 1 + 5 * step // steps) if curriculum else AHEAD
        loss = loss_of(*windows(past, starts), horizons)
        optimizer.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
        if scheduler:
            scheduler.step()
        if continued and step == steps // 2:
            saved = copy.deepcopy(net.state_dict())
            net.load_state_dict(saved)
            optimizer = torch.optim.Adam(net.parameters(), rate / 2)
        if step % 200 == 199:
            net.eval()
            with torch.no_grad():
                for part in torch.arange(len(later) - PAST - AHEAD).split(200):
                    loss_of(*windows(later, part, fault != "evaluated unscaled"))
            net.train()
    net.eval()
    x, speed = windows(last, torch.arange(len(last) - PAST - AHEAD), fault != "evaluated unscaled")
    with torch.no_grad():
        found = net(x) * spread + mean
    there = speed > 0
    guess = torch.stack([s[s > 0].median() for s in past.T])[:, None].expand_as(speed)
    return float(1 - (found - speed)[there].abs().mean() / (guess - speed)[there].abs().mean())


CASES = cases(
    "crossroad speeds",
    train,
    {
        "plain": {},
        "graph learned as well": {"learned": True},
        "in kilometres an hour": {"unit": "kilometres", "clip": 5.0},
        "horizons one by one": {"curriculum": True},
        "records as a stream": {"order": "stream"},
        "gaps in a seventh": {"gaps": 0.15},
        "Huber, rate in steps": {"error": "huber", "schedule": "steps", "rate": 4e-3},
        "continued": {"continued": True},
    },
    {
        "evaluated unscaled": ("inputs overfit", {"fault": "evaluated unscaled"}),
    },
)
