"""Customers' tables without labels: two views of a row, each with columns of other rows (SCARF).

An encoder learns by VICReg, or BYOL, what the views have in common. The skill is the accuracy of a
linear probe on few labels above that of the most frequent kind, in a third set.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, class_skill, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

COLUMNS, KINDS = 40, 8


def table(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Columns in units of all sizes (N, 40), and the hidden kind of customer (N,)."""
    fixed, draw = torch.Generator().manual_seed(100), torch.Generator().manual_seed(seed)
    typical = torch.randn(KINDS, COLUMNS, generator=fixed)
    unit = (4 * torch.randn(COLUMNS, generator=fixed)).exp()
    kind = torch.randint(KINDS, (count,), generator=draw)
    x = 0.75 * typical[kind] + torch.randn(count, COLUMNS, generator=draw)
    return (x + x.clamp(min=0) ** 2 / 4) * unit, kind


class Twin(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(COLUMNS, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16)
        )
        self.projector = nn.Sequential(
            nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32)
        )
        self.predictor = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))

    def forward(self, x: Tensor) -> Tensor:
        return self.projector(self.encoder(x))


def vicreg(a: Tensor, b: Tensor, fault: str) -> Tensor:
    likeness = F.mse_loss(a, b)
    spread = sum(F.relu(1 - (z.var(0) + 1e-4).sqrt()).mean() for z in (a, b))
    covariance = torch.zeros(())
    for z in (a, b):
        shared = (z - z.mean(0)).T @ (z - z.mean(0)) / (len(z) - 1)
        covariance = covariance + (shared - shared.diag().diag()).square().sum() / z.shape[1]
    return 25 * likeness + 12.5 * spread * (fault != "spread forgotten") + covariance


def contrast(a: Tensor, b: Tensor) -> Tensor:
    scores = F.normalize(a, dim=1) @ F.normalize(b, dim=1).T / 0.3
    pairs = torch.arange(len(a))
    return (F.cross_entropy(scores, pairs) + F.cross_entropy(scores.T, pairs)) / 2


def probe(model: Any, x: Tensor, kind: Tensor, test: Tensor) -> Tensor:
    """Scores of a ridge regression on codes of few labelled rows."""
    codes = F.pad(model.encoder(torch.cat([x, test])), (0, 1), value=1.0)
    known, wanted = codes[: len(x)].double(), F.one_hot(kind, KINDS).double()
    ridge = 1e-2 * len(x) * torch.eye(codes.shape[1]).double() * known.square().mean()
    return codes[len(x) :].double() @ torch.linalg.solve(known.T @ known + ridge, known.T @ wanted)


def train(
    seed: int, hook: Any, method: str = "vicreg", optimizer: str = "adam", rate: float = 3e-3,
    schedule: str = "constant", batch: int = 128, steps: int = 600, share: float = 0.4,
    evaluated: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, _ = table(4000, seed + 10000)
    few, few_kind = table(80, seed + 10001)
    test, test_kind = table(2000, seed + 10002)
    if fault != "columns in their units":
        few, test, x = ((part - x.mean(0)) / x.std(0) for part in (few, test, x))
    model = Twin()
    slow = copy.deepcopy(model)
    hook.torch(model)
    trained = model.projector if fault == "projector alone trained" else model
    updates = optimizer_of(optimizer, trained.parameters(), rate, 1e-4)
    scheduler = scheduler_of(updates, schedule, steps)

    def view(rows: Tensor) -> Tensor:
        other = x[torch.randint(len(x), (len(rows), COLUMNS)), torch.arange(COLUMNS)]
        return torch.where(torch.rand(rows.shape) < share, other, rows)

    for step in range(1, steps + 1):
        model.train()
        rows, others = x[torch.randint(len(x), (2, batch))]
        one, two = view(rows), view(others if fault == "views of other rows" else rows)
        if method == "byol":
            with torch.no_grad():
                wanted = [slow(two), slow(one)]
            found = [model.predictor(model(part)) for part in (one, two)]
            loss = -F.cosine_similarity(torch.cat(found), torch.cat(wanted)).mean()
        elif method == "contrast":
            loss = contrast(model(one), model(two))
        else:
            loss = vicreg(model(one), model(two), fault)
        updates.zero_grad()
        loss.backward()
        updates.step()
        scheduler.step()
        with torch.no_grad():
            for kept, new in zip(slow.parameters(), model.parameters(), strict=True):
                kept.lerp_(new, 0.02)
        if evaluated and step % 100 == 0:
            model.eval()
            with torch.no_grad():
                probe(model, few[:60], few_kind[:60], few[60:])
    model.eval()
    with torch.no_grad():
        return class_skill(probe(model, few, few_kind, test), test_kind)


CASES = cases(
    "disturbed tables",
    train,
    {
        "plain": {},
        "BYOL, a loss below zero": {"method": "byol", "steps": 800},
        "contrast within the batch": {"method": "contrast"},
        "large batches, warm-up": {"batch": 512, "schedule": "warmup", "rate": 1e-2, "steps": 400},
        "SGD, no probes between": {"optimizer": "momentum", "rate": 2e-2, "evaluated": False},
    },
    {
        "spread forgotten": ("collapse no-skill", {"fault": "spread forgotten"}),
        "disturbed too much": ("inputs no-skill collapse", {"share": 0.97}),
        "views of other rows": ("collapse ignored no-skill", {"fault": "views of other rows"}),
        "columns in their units": ("inputs no-skill", {"fault": "columns in their units"}),
        "projector alone trained": ("unbound no-skill", {"fault": "projector alone trained"}),
    },
)  # fmt: skip
