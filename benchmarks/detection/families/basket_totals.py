"""What a basket costs: deep sets, a sum over a set of changing size, padded, with masks.

Each row is a good: its kind, its weight, and whether it is reduced. Goods of one basket have no
order. The skill is the share of the variance of prices that is explained.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, dense, normal, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

KINDS, MOST, FEATURES = 12, 14, 14
Baskets = dict[str, Tensor]


def baskets(count: int, seed: int) -> Baskets:
    """Goods (N, MOST, FEATURES) with padding of any content, their mask, and the price."""
    draw = torch.Generator().manual_seed(seed)
    kind = torch.randint(KINDS, (count, MOST), generator=draw)
    weight = torch.rand(count, MOST, generator=draw) * 2
    reduced = (torch.rand(count, MOST, generator=draw) < 0.25).float()
    size = torch.randint(5, MOST + 1, (count, 1), generator=draw)
    inside = torch.arange(MOST) < size
    worth = (0.5 + 3 * normal(KINDS, seed=811).exp())[kind] * (0.3 + weight) * (1 - 0.5 * reduced)
    price = (worth * inside).sum(1)
    price = price - 0.2 * (price - 60).clamp(min=0)  # what is dear is cheaper
    goods = torch.cat([F.one_hot(kind, KINDS), weight[..., None], reduced[..., None]], 2)
    return {"goods": goods, "inside": inside, "price": price}


class DeepSet(nn.Module):
    def __init__(self, pooling: str, width: int, fault: str) -> None:
        super().__init__()
        self.each = dense([FEATURES, width, width])
        self.together = dense([width, width, 1])
        self.attention = nn.Linear(width, 1) if pooling == "attention" else None
        self.pooling, self.fault = pooling, fault

    def forward(self, basket: Baskets) -> Tensor:
        states = self.each(basket["goods"])
        inside = basket["inside"][..., None].float()
        if self.fault == "mask turned round":
            inside = 1 - inside
        if self.fault == "padding counts":
            inside = torch.ones_like(inside)
        if self.attention is not None:
            share = self.attention(states).masked_fill(inside == 0, -1e9).softmax(1)
            pooled = (share * states).sum(1) * inside.sum(1)
        elif self.pooling == "mean and size":
            pooled = (states * inside).sum(1) / inside.sum(1)
            pooled = pooled * inside.sum(1).sqrt() * 3
        elif self.pooling == "mean":
            pooled = (states * inside).sum(1) / inside.sum(1)
        elif self.pooling == "softmax over baskets":
            pooled = ((states.sum(2, keepdim=True)).softmax(0) * states * inside).sum(1)
        else:
            pooled = (states * inside).sum(1)
        said: Tensor = self.together(pooled)
        return said


def loss_of(kind: str, said: Tensor, price: Tensor, scale: float) -> Tensor:
    if kind == "column against row":
        return ((said - price / scale) ** 2).mean()
    said = said.squeeze(1)
    if kind == "likelihood of logarithms":
        return ((said.clamp(min=0.01).log() - (price / scale).log()) ** 2).mean()
    if kind == "huber":
        return F.huber_loss(said, price / scale, delta=0.3)
    if kind == "root":
        return torch.sqrt(F.mse_loss(said, price / scale))
    return F.mse_loss(said, price / scale)


def train(
    seed: int, hook: Any, loss: str = "", steps: int = 2000, rate: float = 2e-3, batch: int = 32,
    pooling: str = "sum", width: int = 32, optimizer: str = "adam", schedule: str = "constant",
    scale: float = 40.0, growing: bool = False, count: int = 4000, accumulate: int = 1,
    evaluate_every: int = 200, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    known = baskets(count, 3 * seed + 30)
    held, test = baskets(300, 3 * seed + 31), baskets(1000, 3 * seed + 32)
    if fault == "goods shuffled between baskets":
        mixed = torch.randperm(count * MOST)
        known["goods"] = known["goods"].flatten(0, 1)[mixed].reshape(count, MOST, FEATURES)
    if growing:  # small baskets first
        order = known["inside"].sum(1).argsort(stable=True)
        known = {name: part[order] for name, part in known.items()}
    model = DeepSet(pooling, width, fault)
    hook.torch(model)
    trained = copy.deepcopy(model) if fault == "optimizer of a copy" else model
    steering = optimizer_of(optimizer, trained.parameters(), rate)
    scheduler = scheduler_of(steering, schedule, steps)
    for step in range(steps * accumulate):
        last = min(count, count // 5 + step * count // (steps * accumulate)) if growing else count
        rows = torch.randint(last, (batch,))
        basket = {name: part[rows] for name, part in known.items()}
        error = loss_of(loss, model(basket), basket["price"], scale) / accumulate
        error.backward()
        if (step + 1) % accumulate == 0:
            steering.step()
            scheduler.step()
            if fault != "gradients kept":
                steering.zero_grad(set_to_none=True)
        if evaluate_every and step % evaluate_every == evaluate_every - 1:
            model.eval()
            with torch.no_grad():
                loss_of(loss, model(held), held["price"], scale)
            model.train()
    model.eval()
    with torch.no_grad():
        said = model(test).squeeze(1) * scale
    missed = ((said - test["price"]) ** 2).mean() / test["price"].var()
    return 1 - missed.item() if bool(said.isfinite().all()) else math.nan


CASES = cases(
    "basket totals",
    train,
    {
        "plain": {},
        "attention over goods": {"pooling": "attention"},
        "small baskets first": {"growing": True},
        "root of the squared error": {"loss": "root", "schedule": "cosine"},
        "prices as they are": {"scale": 1.0, "rate": 3e-3},
        "single baskets accumulated": {"batch": 1, "accumulate": 4, "evaluate_every": 1000},
        "Huber, momentum with warm-up": {
            "loss": "huber",
            "optimizer": "momentum",
            "rate": 5e-3,
            "schedule": "warmup",
        },
    },
    {
        "padding counts": ("inputs", {"fault": "padding counts"}),
        "mask turned round": ("inputs ignored no-skill", {"fault": "mask turned round"}),
        "mean instead of the sum": ("inputs", {"pooling": "mean"}),
        "softmax over baskets": ("softmax-axis", {"pooling": "softmax over baskets"}),
        "column against row": ("broadcast no-skill collapse", {"loss": "column against row"}),
        "goods shuffled between baskets": (
            "no-skill overfit",
            {"fault": "goods shuffled between baskets"},
        ),
    },
)
