"""What a shop's visitors will look at, from what they looked at: factors by the BPR loss."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn

from benchmarks.detection.case import cases

USERS, ITEMS, SEEN, KEPT = 300, 200, 20, 5


def visits(seed: int) -> tuple[Any, Any]:
    """Items that each user saw, (USERS, SEEN), and saw later, (USERS, KEPT)."""
    draw = np.random.default_rng(seed)
    tastes, kinds = draw.normal(size=(USERS, 4)), draw.normal(size=(ITEMS, 4))
    likes = 1.6 * tastes @ kinds.T + 0.5 * draw.normal(size=ITEMS)
    first = np.argsort(-(likes + draw.gumbel(size=likes.shape)), axis=1)[:, : SEEN + KEPT]
    first = draw.permuted(first, axis=1)
    return first[:, :SEEN], first[:, SEEN:]


class Factors(nn.Module):
    def __init__(self, size: int, std: float, bias: bool, sparse: bool) -> None:
        super().__init__()
        self.users = nn.Embedding(USERS, size, sparse=sparse)
        self.items = nn.Embedding(ITEMS, size, sparse=sparse)
        self.bias = nn.Embedding(ITEMS, 1, sparse=sparse) if bias else None
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, 0.0, std)
        if self.bias is not None:
            nn.init.zeros_(self.bias.weight)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        score = (self.users(user) * self.items(item)).sum(-1)
        return score + self.bias(item).squeeze(-1) if self.bias is not None else score


def area(scores: Any, seen: Any, later: Any) -> float:
    """Mean AUC over users of what they saw later, among what they had not seen."""
    areas = []
    for row, old, new in zip(scores, seen, later, strict=True):
        rest = np.setdiff1d(np.arange(ITEMS), np.concatenate([old, new]))
        above = row[new][:, None] - row[rest][None]
        areas.append((above > 0).mean() + 0.5 * (above == 0).mean())
    return float(np.mean(areas))


def sample(draw: Any, seen: Any, batch: int, negatives: int, how: str) -> tuple[Tensor, ...]:
    u = draw.integers(USERS, size=batch)
    i = seen[u, draw.integers(seen.shape[1], size=batch)]
    if how == "own":
        j = seen[u, draw.integers(seen.shape[1], size=(negatives, batch))]
    else:
        j = draw.integers(ITEMS, size=(negatives, batch))
    return torch.from_numpy(u), torch.from_numpy(i), torch.from_numpy(j)


def loss_of(kind: str, positive: Tensor, negative: Tensor) -> Tensor:
    """Of scores (B,) and (N, B)."""
    if kind == "pointwise":
        return F.softplus(-positive).mean() + F.softplus(negative).mean()
    if kind == "positives alone":
        return F.softplus(-positive).mean()
    if kind == "softmax of one":
        both = torch.stack([positive, negative[0]], 1)[:, :, None]
        return -(both.softmax(2)[:, 0, 0] - both.softmax(2)[:, 1, 0]).sigmoid().log().mean()
    if kind == "swapped":
        return -F.logsigmoid(negative - positive).mean()
    return -F.logsigmoid(positive - negative).mean()


def train(
    seed: int, hook: Any, rate: float = 5e-3, steps: int = 2000, batch: int = 128,
    optimizer: str = "adam", loss: str = "bpr", negatives: int = 1, sampler: str = "uniform",
    l2: float = 1e-2, std: float = 0.1, size: int = 16, bias: bool = False,
    factor: float = 1.0, noise: float = 0.0, schedule: str = "", evaluate: int = 200,
    ema: bool = False, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    draw = np.random.default_rng(seed)
    seen, later = visits(seed + 740)
    known = seen[:, :1] if fault == "one visit each" else seen
    if noise:
        known = np.where(draw.random(known.shape) < noise, draw.integers(ITEMS, size=known.shape),
                         known)  # fmt: skip
    model = Factors(size, std, bias, optimizer == "sparse adam")
    parameters = list(model.parameters())
    if fault == "bias alone is trained":
        parameters = [p for name, p in model.named_parameters() if "bias" in name]
    opt: Any = {
        "adam": torch.optim.Adam, "adagrad": torch.optim.Adagrad,
        "sparse adam": torch.optim.SparseAdam, "rmsprop": torch.optim.RMSprop,
    }[optimizer](parameters, lr=rate)  # fmt: skip
    plan: Any = None
    if schedule == "cosine":
        plan = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)
    elif schedule == "falls when the area rises":
        plan = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, "min", 0.1, patience=0)
    everyone, everything = torch.arange(USERS)[:, None], torch.arange(ITEMS)[None]
    renamed = torch.from_numpy(draw.permutation(ITEMS))
    average = [p.detach().clone() for p in model.parameters()]

    def evaluation(final: bool = False) -> float:
        model.eval()
        with torch.no_grad():
            items = renamed[everything] if fault == "items numbered again" else everything
            scores = model(everyone, items).numpy()
        model.train()
        if final and not np.isfinite(scores).all():
            return math.nan
        return area(scores, seen, later)

    hook.torch(model)
    model.train()
    for step in range(steps):
        u, i, j = sample(draw, known, batch, negatives, sampler)
        if fault == "users in one bucket":
            u = u // 1000
        positive = model(u, i)
        negative = torch.stack([model(u, row) for row in j])
        value = loss_of(loss, positive, negative)
        if l2:
            norms = [model.users(u), model.items(i), model.items(j[0])]
            value = value + l2 * sum((part**2).sum(1).mean() for part in norms)
        if fault != "no zero_grad":
            opt.zero_grad()
        (value * factor).backward()
        opt.step()
        if plan and schedule != "falls when the area rises":
            plan.step()
        if ema:
            for kept, p in zip(average, model.parameters(), strict=True):
                kept.lerp_(p.detach(), 0.01)
        if step % evaluate == evaluate - 1:
            reached = evaluation()
            if schedule == "falls when the area rises":
                plan.step(reached)
    if ema:
        for kept, p in zip(average, model.parameters(), strict=True):
            p.data.copy_(kept)
    popular = np.tile(np.bincount(seen.reshape(-1), minlength=ITEMS), (USERS, 1))
    base = area(popular, seen, later)
    return (evaluation(final=True) - base) / (1 - base)


CASES = cases(
    "implicit feedback",
    train,
    {
        "plain": {},
        "pointwise": {"loss": "pointwise", "bias": True, "l2": 2e-2},
        "four negatives": {"negatives": 4, "steps": 1500},
        "adagrad": {"optimizer": "adagrad", "rate": 0.1},
        "sparse adam": {"optimizer": "sparse adam"},
        "batch of 512": {"batch": 512, "steps": 1200, "rate": 1e-2},
        "batch of 16": {"batch": 16, "steps": 2500, "rate": 4e-3},
        "loss times 10000": {"factor": 1e4},
        "visits with noise": {"noise": 0.02},
        "cosine": {"schedule": "cosine", "rate": 1e-2},
        "ema": {"ema": True},
        "rmsprop": {"optimizer": "rmsprop", "rate": 2e-3},
        "wider factors": {"size": 32},
        "bias of items": {"bias": True},
    },
    {
        "seen and not seen swapped": ("worse no-skill", {"loss": "swapped"}),
        "negatives are the user's own": ("no-skill", {"sampler": "own"}),
        "positives alone": ("collapse imbalance no-skill", {"loss": "positives alone", "l2": 0.0}),
        "softmax of one": ("softmax-axis no-gradient no-skill", {"loss": "softmax of one"}),
        "items numbered again": ("inputs", {"fault": "items numbered again"}),
        "users in one bucket": ("inputs no-skill", {"fault": "users in one bucket"}),
        "one visit each": ("overfit", {"fault": "one visit each"}),
        "bias alone is trained": ("unbound", {"fault": "bias alone is trained", "bias": True}),
        "starts at zero": ("no-gradient dead collapse no-skill", {"std": 0.0}),
        "regularised x 100": ("collapse no-skill", {"l2": 1.0}),
        "no zero_grad": ("kept-gradients", {"fault": "no zero_grad"}),
        "falls when the area rises": (
            "schedule slow", {"schedule": "falls when the area rises", "evaluate": 50,
                              "rate": 2e-3}),
        "rate x 1000": ("fast no-skill", {"rate": 5.0}),
        "rate / 1000": ("slow no-skill", {"rate": 5e-6}),
    },
)  # fmt: skip
