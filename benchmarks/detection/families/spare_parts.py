"""How many spare parts are asked for next week: a GRU with negative binomial counts (DeepAR).

Many short series of counts with seasons of their own level and turn; each step says the mean and
the spread of the next count. The skill is the explained variance of scaled counts in later weeks.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, explained, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

SERIES, WEEKS, WINDOW, SEASON = 160, 140, 12, 13


def demand(seed: int) -> tuple[Tensor, Tensor]:
    """Counts (SERIES, WEEKS), and what is known of each week (SERIES, WEEKS, 4)."""
    draw = torch.Generator().manual_seed(seed)
    level = (2.5 + 0.8 * torch.randn(SERIES, 1, generator=draw)).exp()
    turn = 2 * math.pi * torch.rand(SERIES, 1, generator=draw)
    week = torch.arange(WEEKS).float()
    offer = (torch.rand(SERIES, WEEKS, generator=draw) < 0.12).float()
    depth = 0.7 + 0.25 * torch.rand(SERIES, 1, generator=draw)
    mean = level * (depth * (2 * math.pi * week / SEASON + turn).sin() + 1.1 * offer).exp()
    gamma = torch.distributions.Gamma(torch.tensor(20.0), 20 / mean)
    torch.manual_seed(seed)
    counts = torch.poisson(gamma.sample(), generator=draw)
    angle = 2 * math.pi * week / SEASON
    known = [angle.sin().expand(SERIES, -1), angle.cos().expand(SERIES, -1), offer]
    return counts, torch.stack([*known, (week / WEEKS).expand(SERIES, -1)], 2)


def negative_binomial(mean: Tensor, spread: Tensor, counts: Tensor) -> Tensor:
    """The negative logarithm of the likelihood; the variance is mean + spread * mean**2."""
    size = 1 / spread
    likely = torch.lgamma(counts + size) - torch.lgamma(size) - torch.lgamma(counts + 1)
    likely = likely + size * torch.log(size / (size + mean))
    return -(likely + counts * torch.log(mean / (size + mean)))


class Forecaster(nn.Module):
    def __init__(self, units: int, kind: str, dropout: float, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.recurrent = (nn.LSTM if kind == "lstm" else nn.GRU)(5, units, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.mean, self.spread = nn.Linear(units, 1), nn.Linear(units, 1)

    def forward(self, last: Tensor, known: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """The mean and spread of each next week, from the counts before and what is known of it."""
        if self.fault != "counts not scaled":
            last = last / scale
        h = self.dropout(self.recurrent(torch.cat([last[..., None], known], 2))[0])
        raw, spread = self.mean(h)[..., 0], F.softplus(self.spread(h)[..., 0]) + 1e-4
        if self.fault == "linear mean":
            return raw * scale, spread
        mean = F.softplus(raw) if self.fault == "counts not scaled" else F.softplus(raw) * scale
        return mean + 1e-6, spread


def loss_of(mean: Tensor, spread: Tensor, counts: Tensor, scale: Tensor, how: str) -> Tensor:
    if how == "Poisson":
        return F.poisson_nll_loss(mean, counts, log_input=False)
    if how == "rate taken for its logarithm":
        return F.poisson_nll_loss(mean, counts)
    each = negative_binomial(mean, spread, counts)
    return (each * scale.sqrt()).mean() if how == "large series count more" else each.mean()


def train(
    seed: int, hook: Any, steps: int = 2000, batch: int = 32, rate: float = 5e-3, units: int = 20,
    kind: str = "gru", how: str = "", dropout: float = 0.0, schedule: str = "constant",
    clip: float = 10.0, times: float = 1.0, evaluated: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    counts, known = demand(seed + 9000)
    torch.manual_seed(seed)
    scale = counts[:, :90].mean(1, keepdim=True) + 1
    if fault == "scales of other series":
        scale = scale.roll(1, 0)
    model = Forecaster(units, kind, dropout, fault)
    hook.torch(model)
    optimizer = torch.optim.Adam(model.parameters(), rate)
    scheduler = scheduler_of(optimizer, schedule, steps)
    late = 0 if fault == "the same week as input" else 1

    def windows(rows: Tensor, starts: Tensor, ahead: int) -> tuple[Tensor, ...]:
        weeks = starts[:, None] + torch.arange(WINDOW)
        before, these = counts[rows[:, None], weeks - ahead], known[rows[:, None], weeks]
        return before, these, scale[rows], counts[rows[:, None], weeks]

    all_rows = torch.arange(SERIES)
    for step in range(steps):
        rows = torch.randint(SERIES, (batch,))
        last, these, size, wanted = windows(rows, torch.randint(1, 75, (batch,)), late)
        if fault == "windows of other series":
            wanted = wanted[torch.randperm(batch)]
        mean, spread = model(last, these, size)
        loss = loss_of(mean, spread, wanted, size, how) * times
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip * times)
        optimizer.step()
        scheduler.step()
        if evaluated and step % 400 == 399:
            model.eval()
            with torch.no_grad():
                last, these, size, wanted = windows(all_rows, torch.full((SERIES,), 92), late)
                mean, spread = model(last, these, size)
                loss_of(mean, spread, wanted, size, how)
            model.train()
    model.eval()
    with torch.no_grad():
        last, these, size, wanted = windows(all_rows, torch.full((SERIES,), WEEKS - WINDOW), 1)
        found = model(last, these, size)[0]
        if how == "rate taken for its logarithm":
            found = found.exp()
    level = counts[:, :90].mean(1, keepdim=True) + 1
    return explained((found / level)[:, 4:].double(), (wanted / level)[:, 4:].double())


CASES = cases(
    "spare parts",
    train,
    {
        "plain": {},
        "LSTM, warm-up": {"kind": "lstm", "schedule": "warmup", "rate": 1e-2},
        "Poisson": {"how": "Poisson"},
        "large series count more": {"how": "large series count more"},
        "dropout, loss x 10000": {"dropout": 0.1, "times": 1e4},
        "batch of 8, no evaluation": {"batch": 8, "rate": 3e-3, "evaluated": False},
    },
    {
        "the same week as input": ("leak", {"fault": "the same week as input"}),
        "linear mean": ("not-finite range", {"fault": "linear mean"}),
        "windows of other series": ("no-skill overfit", {"fault": "windows of other series"}),
        "counts not scaled": ("inputs slow saturated", {"fault": "counts not scaled"}),
        "rate taken for its logarithm": (
            "not-finite range no-skill worse saturated",
            {"how": "rate taken for its logarithm"},
        ),
    },
)
