"""Risks of loans by an additive network: a small network for each column, and the sum of all.

What each column adds to the risk is a curve that a bank's clerk can read. Of nine columns two say
nothing. The skill is that of the ranking (twice the area under the ROC curve, less one).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, ranking_skill, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

COLUMNS = 9


def loans(count: int, seed: int, easy: float = 1.0) -> tuple[Tensor, Tensor]:
    """Columns (N, COLUMNS) in their own units, and which loans went bad (a third)."""
    draw = torch.Generator().manual_seed(seed)
    z = torch.randn(count, COLUMNS, generator=draw)
    risk = (
        2.2 * (z[:, 0] ** 2 - 1)
        + 3.0 * (2 * z[:, 1]).sin()
        - 2.5 * (z[:, 2] > 0.3).float()
        + 2.0 * z[:, 3].abs()
        - 2.2 * z[:, 4]
        + 2.4 * torch.relu(z[:, 5] - 0.4)
        + 2.6 * (-2 * z[:, 6] ** 2).exp()
    )
    risk = risk - 2.6 + torch.randn(count, generator=draw).clamp(-4, 4) / easy
    unit = torch.tensor([12000.0, 900, 0.2, 5, 2500, 30, 1.5, 1, 60])
    middle = torch.tensor([42000.0, 2400, 0.4, 9, 9000, 80, 3.0, 0, 700])
    return z * unit + middle, (risk > 1.2).float()


class Curves(nn.Module):
    """All small networks at once, as products of stacked matrices."""

    def __init__(self, width: int, dropout: float, drop_columns: float, fault: str) -> None:
        super().__init__()
        self.drop_columns, self.fault = drop_columns, fault
        self.weight = nn.Parameter(torch.randn(COLUMNS, width))
        self.shift = nn.Parameter(torch.randn(COLUMNS, width))
        self.middle = nn.Parameter(torch.randn(COLUMNS, width, width) / width**0.5)
        self.middle_bias = nn.Parameter(torch.zeros(COLUMNS, width))
        self.last = nn.Parameter(torch.randn(COLUMNS, width) / width**0.5)
        self.bias = nn.Parameter(torch.zeros(()))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The risk (N,) before its sigmoid, and what each column adds (N, COLUMNS)."""
        h = torch.relu(x[..., None] * self.weight + self.shift)
        h = torch.einsum("ncw,cwv->ncv", h, self.middle) + self.middle_bias
        h = self.dropout(h.relu())
        each = (h * self.last).sum(2)
        if self.training and self.drop_columns:
            each = each * (torch.rand_like(each) > self.drop_columns) / (1 - self.drop_columns)
        if self.fault == "curves summed over loans":
            return each.sum(0).sum().expand(len(x)) + self.bias, each
        return each.sum(1) + self.bias, each


def batches(x: Tensor, y: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        for rows in torch.randperm(len(x)).split(size):
            yield x[rows], y[rows]


def error_of(risk: Tensor, each: Tensor, bad: Tensor, penalty: float, fault: str) -> Tensor:
    if fault == "logarithm of a sigmoid":
        share = risk.sigmoid()
        return -(bad * share.log() + (1 - bad) * (1 - share).log()).mean()
    loss = nn.functional.binary_cross_entropy_with_logits(risk, bad)
    return loss + penalty * (each**2).mean()


def train(
    seed: int, hook: Any, steps: int = 2500, batch: int = 64, rate: float = 5e-3, width: int = 16,
    dropout: float = 0.0, drop_columns: float = 0.0, penalty: float = 1e-3, count: int = 6000,
    schedule: str = "constant", optimizer: str = "adam", flipped: float = 0.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    (x, bad), (held, held_bad), (test, test_bad) = (
        loans(n, seed + 9300 + k) for k, n in enumerate((count, 800, 3000))
    )
    if fault == "gaps dropped from columns alone":  # and not the ends of the same loans
        x = x[torch.rand(count) > 0.03]
        bad = bad[: len(x)]
    middle, spread = x.mean(0), x.std(0)
    if fault == "columns in their own units":
        middle, spread = torch.zeros(COLUMNS), torch.ones(COLUMNS)
    x, test = (x - middle) / spread, (test - middle) / spread
    held = (held - middle) / spread
    if fault == "scaled again by the largest":
        held, test = held / held.abs().amax(0), test / test.abs().amax(0)
    if flipped:
        bad = torch.where(torch.rand(count) < flipped, 1 - bad, bad)
    model = Curves(width, dropout, drop_columns, fault)
    hook.torch(model)
    kind = torch.optim.RMSprop if optimizer == "rms" else torch.optim.Adam
    updates = kind(model.parameters(), lr=rate)
    scheduler = scheduler_of(updates, schedule, steps)
    source = batches(x, bad, batch)
    for step in range(steps):
        model.train()
        columns, wanted = next(source)
        updates.zero_grad()
        risk, each = model(columns)
        loss = error_of(risk, each, wanted, penalty, fault)
        loss.backward()
        updates.step()
        scheduler.step()
        if step % 250 == 249:
            model.eval()
            with torch.no_grad():
                risk, each = model(held)
                error_of(risk, each, held_bad, penalty, fault)
    model.eval()
    with torch.no_grad():
        return ranking_skill(model(test)[0].double(), test_bad.double())


CASES = cases(
    "loan curves",
    train,
    {
        "plain": {},
        "columns dropped at random": {"drop_columns": 0.1, "penalty": 0.01},
        "labels flipped, dropout": {"flipped": 0.05, "dropout": 0.1},
        "restarts, RMSprop": {"schedule": "restarts", "optimizer": "rms"},
        "batch of 1024": {"batch": 1024, "steps": 2000},
        "one cycle, high rate": {"schedule": "one cycle", "rate": 2e-2},
    },
    {
        "curves summed over loans": (
            "broadcast no-skill collapse",
            {"fault": "curves summed over loans"},
        ),
        "columns in their own units": (
            "inputs no-skill saturated dead worse",
            {"fault": "columns in their own units"},
        ),
        "logarithm of a sigmoid": ("not-finite", {"fault": "logarithm of a sigmoid"}),
        "gaps dropped from columns alone": (
            "no-skill overfit",
            {"fault": "gaps dropped from columns alone"},
        ),
        "scaled again by the largest": ("inputs overfit", {"fault": "scaled again by the largest"}),
    },
)
