"""Fraud among card payments, of which three in a hundred are: a focal loss written by hand.

Amount, hour, distance, payments and refusals in the last hour, the card's age and the kind of shop
are given. The skill is the average precision in a third set, above that of chance.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, dense
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from benchmarks.detection.case import cases

SHOPS = 20


def payments(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Numbers (N, 6), the kind of shop (N,), and whether it was fraud (N,)."""
    draw = torch.Generator().manual_seed(seed)
    normal = torch.randn(count, 6, generator=draw)
    amount, hour = (3.2 + 1.1 * normal[:, 0]).exp(), torch.rand(count, generator=draw) * 24
    far, age = (2.0 + 1.4 * normal[:, 1]).exp(), (5.5 + normal[:, 3]).exp()
    often = torch.poisson((0.7 * normal[:, 2]).exp(), generator=draw)
    refused = torch.poisson((0.8 * normal[:, 4] - 1).exp(), generator=draw)
    shop = torch.randint(SHOPS, (count,), generator=draw)
    score = normal[:, 0] * (1.5 + 1.5 * (hour < 6) + 1.6 * (shop < 4)) + 1.3 * normal[:, 1]
    score = score + 0.8 * often * (normal[:, 3] < 0) - 1.0 * normal[:, 3] + 0.9 * refused
    fraud = (score + 0.5 * torch.randn(count, generator=draw) > 5.3).float()
    return torch.stack([amount, hour, far, often, age, refused], 1), shop, fraud


class Scorer(nn.Module):
    def __init__(self, inputs: int, outputs: str, prior: bool) -> None:
        super().__init__()
        self.outputs, self.shops = outputs, nn.Embedding(SHOPS, 4)
        self.layers = dense([inputs + 4, 64, 32, 1])
        if prior:
            nn.init.constant_(self.layers[-1].bias, -math.log(0.97 / 0.03))

    def forward(self, x: Tensor, shop: Tensor) -> Tensor:
        score = self.layers(torch.cat([x, self.shops(shop)], 1))
        return (score.softmax(1) if self.outputs == "softmax" else score).squeeze(1)


def focal_loss(score: Tensor, y: Tensor, gamma: float, alpha: float, kind: str) -> Tensor:
    if kind == "logarithm":
        p = torch.sigmoid(score)
        loss = alpha * y * (1 - p) ** gamma * p.log()
        return -(loss + (1 - alpha) * (1 - y) * p**gamma * (1 - p).log()).mean()
    if kind == "cross-entropy":
        return F.binary_cross_entropy_with_logits(score, y, pos_weight=torch.tensor(10.0))
    entropy = F.binary_cross_entropy_with_logits(score, y, reduction="none")
    loss = (alpha * y + (1 - alpha) * (1 - y)) * (1 - torch.exp(-entropy)) ** gamma * entropy
    return loss.sum() if kind == "sum" else loss.mean()


def logarithms(x: Tensor) -> Tensor:
    return torch.cat([x[:, :1].log(), x[:, 1:2], (x[:, 2:] + 1).log()], 1)


def prepared(x: Tensor, y: Tensor, known: bool, fault: str, mean: Tensor, std: Tensor) -> Tensor:
    """The numbers of a part; ``known`` where the complaints have come in already."""
    if fault == "as they are":
        return x
    logs = logarithms(x)
    logs = logs if fault == "not scaled when used" and not known else (logs - mean) / std
    if fault == "complaints":
        drawn = torch.rand(len(y)) < 0.02
        return torch.cat([logs, (y if known else drawn.float())[:, None]], 1)
    return logs


def train(
    seed: int, hook: Any, gamma: float = 2.0, alpha: float = 0.75, loss: str = "mean",
    batch: int = 128, epochs: int = 8, rate: float = 3e-3, prior: bool = False,
    balanced: bool = False, outputs: str = "", fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, shop, y = payments(12000, seed + 9200)
    held_x, held_shop, held_y = payments(3000, seed + 9201)
    test_x, test_shop, test_y = payments(12000, seed + 9202)
    mean, std = logarithms(x).mean(0), logarithms(x).std(0)
    x = prepared(x, y, True, fault, mean, std)
    held_x = prepared(held_x, held_y, fault == "complaints", fault, mean, std)
    test_x = prepared(test_x, test_y, False, fault, mean, std)
    sampler = WeightedRandomSampler((1 + 9 * y).tolist(), len(y)) if balanced else None
    if fault == "a weight for each class":  # where the sampler wants one for each payment
        sampler = WeightedRandomSampler([1.0, 10.0], len(y))
    loader = DataLoader(TensorDataset(x, shop, y), batch, sampler is None, sampler=sampler)
    model = Scorer(x.shape[1], outputs, prior)
    hook.torch(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(epochs):
        model.train()
        for numbers, kind, label in loader:
            error = focal_loss(model(numbers, kind), label, gamma, alpha, loss)
            optimizer.zero_grad()
            error.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            focal_loss(model(held_x, held_shop), held_y, gamma, alpha, loss)
    model.eval()
    with torch.no_grad():
        score = model(test_x, test_shop)
    if not bool(torch.isfinite(score).all()):
        return math.nan
    mixed = torch.randperm(len(score))  # ties are broken by chance
    hits = test_y[mixed][score[mixed].argsort(descending=True)]
    precision = hits.cumsum(0) / torch.arange(1, len(hits) + 1)
    share, found = test_y.mean().item(), (precision * hits).sum().item() / hits.sum().item()
    return float((found - share) / (1 - share))


CASES = cases(
    "payment fraud",
    train,
    {
        "plain": {},
        "begins with the share of fraud": {"prior": True},
        "gamma of five": {"gamma": 5.0},
        "sum over the batch": {"loss": "sum", "rate": 2e-3},
        "fraud drawn more often": {"balanced": True, "alpha": 0.5},
        "weighted cross-entropy": {"loss": "cross-entropy", "batch": 512, "epochs": 16},
    },
    {
        "softmax of one output": ("probabilities softmax-axis no-skill", {"outputs": "softmax"}),
        "logarithm of zero": ("not-finite inputs", {"loss": "logarithm", "fault": "as they are"}),
        "complaints as a column": ("leak", {"fault": "complaints"}),
        "not scaled when used": ("inputs overfit", {"fault": "not scaled when used"}),
        "a weight for each class": (
            "overfit imbalance collapse no-skill", {"fault": "a weight for each class"},
        ),
    },
)  # fmt: skip
