"""How far a price will move tomorrow: a recurrent network gives the logarithm of the variance.

Volatility wanders slowly; a day is known by its return and by its range between high and low. The
loss is the negative likelihood of the next return, below zero as returns are small. The skill is
the share of the variance of the true log volatility that is explained.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, explained, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

PAST = 12
USUAL = math.log(0.012**2)


def market(days: int, seed: int) -> dict[str, Tensor]:
    """The log variance, returns, ranges and prices of one share."""
    draw = torch.Generator().manual_seed(seed)
    pushes = 0.3 * torch.randn(days, generator=draw)
    state, states = 0.0, []
    for push in pushes.tolist():
        state = 0.95 * state + push
        states.append(state)
    log_variance = USUAL + torch.tensor(states)
    size = (log_variance / 2).exp()
    returns = size * torch.randn(days, generator=draw)
    spread = returns.abs() + size * (0.6 + 0.4 * torch.rand(days, generator=draw))
    price = 100 * returns.cumsum(0).exp()
    return {"log variance": log_variance, "return": returns, "range": spread, "price": price}


def windows(of: dict[str, Tensor], fault: str, apart: bool = False) -> tuple[Tensor, Tensor]:
    """(N, PAST, 2), and the days (N,) to be said something of."""
    unit = 1.0 if fault == "decimals in evaluation" and apart else 100.0
    columns = torch.stack([unit * of["return"], unit * of["range"]], 1)
    if fault == "today's window" and not apart:  # ends with the day that is to be predicted
        columns = columns.roll(-1, 0)
    if fault == "prices":
        columns = of["price"][:, None].expand(-1, 2)
    days = torch.arange(PAST, len(columns) - 1)
    return columns[days[:, None] + torch.arange(-PAST, 0)], days


class Volatility(nn.Module):
    def __init__(self, kind: str, first: bool, start: float) -> None:
        super().__init__()
        recurrent = nn.LSTM if kind == "lstm" else nn.GRU
        self.recurrent = recurrent(2, 16, batch_first=first)
        self.head = nn.Linear(16, 1)
        nn.init.constant_(self.head.bias, start)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.recurrent(x)[0][:, -1])
        return out


def negative_likelihood(kind: str, out: Tensor, found: Tensor) -> Tensor:
    if kind == "shapes":
        return (out + found**2 / out.exp()).mean() / 2
    out = out.squeeze(1)
    if kind == "sign":
        return (out - found**2 / out.exp()).mean() / 2
    if kind == "variance itself":
        return (out.log() + found**2 / out).mean() / 2
    if kind == "heavy tails":
        freedom = 12.0
        scaled = found**2 / (out.exp() * (freedom - 2))
        return (out / 2 + (freedom + 1) / 2 * scaled.log1p()).mean()
    if kind == "quasi-likelihood":
        ratio = (found**2 + 1e-12) / out.exp()
        return (ratio - ratio.log() - 1).mean()
    return (out + found**2 / out.exp()).mean() / 2


def batches(count: int, size: int, steps: int, ordered: bool, seed: int) -> Iterator[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    for step in range(steps):
        start = step * size % (count - size)
        chosen = torch.arange(start, start + size)
        yield chosen if ordered else torch.randint(count, (size,), generator=draw)


def train(
    seed: int, hook: Any, loss: str = "", kind: str = "gru", steps: int = 2000, batch: int = 64,
    rate: float = 2e-3, optimizer: str = "adam", schedule: str = "constant", days: int = 6000,
    unit: float = 1.0, ordered: bool = False, clip: float = 0.0, start: float = USUAL,
    evaluate_every: int = 250, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    known, later, last = (market(n, seed + 34100 + at) for at, n in enumerate((days, 1000, 2500)))
    x, at = windows(known, fault)
    held_x, held_at = windows(later, fault)
    test_x, test_at = windows(last, fault, True)
    returns, held_returns = unit * known["return"][at], unit * later["return"][held_at]
    model = Volatility(kind, fault != "batch is not first", start)
    hook.torch(model)
    updates = optimizer_of(optimizer, model.parameters(), rate)
    scheduler = scheduler_of(updates, schedule, steps)
    for step, rows in enumerate(batches(len(x), batch, steps, ordered, seed)):
        if fault != "gradients kept":
            updates.zero_grad()
        negative_likelihood(loss, model(x[rows]), returns[rows]).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        updates.step()
        scheduler.step()
        if evaluate_every and (step + 1) % evaluate_every == 0:
            model.eval()
            with torch.no_grad():
                negative_likelihood(loss, model(held_x), held_returns)
            model.train()
    model.eval()
    with torch.no_grad():
        found = model(test_x)[:, 0] - 2 * math.log(unit)
    return explained(found, last["log variance"][test_at])


CASES = cases(
    "price volatility",
    train,
    {
        "plain": {},
        "LSTM": {"kind": "lstm", "rate": 3e-3},
        "returns in per cent": {"unit": 100.0, "start": 0.0},
        "heavy tails": {"loss": "heavy tails"},
        "quasi-likelihood": {"loss": "quasi-likelihood"},
        "momentum, clipped": {"optimizer": "momentum", "rate": 1e-2, "clip": 1.0},
        "windows in order of time": {"ordered": True},
        "restarts, not evaluated": {"schedule": "restarts", "rate": 5e-3, "evaluate_every": 0},
    },
    {
        "shapes of variances and returns": ("broadcast no-skill collapse", {"loss": "shapes"}),
        "today's window": ("leak inputs", {"fault": "today's window"}),
        "prices": ("inputs no-skill saturated", {"fault": "prices"}),
        "sign": ("worse fast not-finite no-skill", {"loss": "sign"}),
        "variance itself": ("range not-finite", {"loss": "variance itself"}),
        "decimals in evaluation": ("inputs overfit", {"fault": "decimals in evaluation"}),
    },
)
