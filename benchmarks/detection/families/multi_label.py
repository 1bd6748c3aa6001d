"""Which of eight rare labels a sample has; positives weigh more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import (
    LoopOptions,
    Split,
    begin,
    dense,
    fit,
    normal,
    outputs,
    ranking_skill,
)
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIZE, LABELS = 20, 8


def samples(count: int, seed: int) -> tuple[Tensor, Tensor]:
    x = normal(count, SIZE, seed=seed)
    hidden = torch.tanh(x @ normal(SIZE, 6, seed=51) / 3)
    chances = torch.sigmoid(12 * (hidden @ normal(6, LABELS, seed=52) / 2 - 0.9))
    return x, (
        torch.rand(count, LABELS, generator=torch.Generator().manual_seed(seed)) < chances
    ).float()


def focal(scores: Tensor, y: Tensor) -> Tensor:
    each = F.binary_cross_entropy_with_logits(scores, y, reduction="none")
    return ((1 - (-each).exp()) ** 2 * each).mean() * 10


def train(
    seed: int,
    hook: Any,
    loss: str = "weighted",
    off: bool = False,
    sigmoid: bool = False,
    dropout: float = 0.0,
    **options: Any,
) -> float:
    begin(seed)
    how = replace(LoopOptions(steps=1200, rate=2e-3, batch=48), **options)
    data = Split(*samples(6000, seed + 140), *samples(1200, seed + 141))
    if off:
        data = replace(data, y=torch.roll(data.y, 1, 1))
    weight = (1 - data.y.mean(0)) / data.y.mean(0)
    model = dense([SIZE, 64, 64, LABELS])
    if sigmoid:
        model.append(nn.Sigmoid())
    if dropout:
        model.insert(2, nn.Dropout(dropout))
    criterion: Any = {
        "weighted": nn.BCEWithLogitsLoss(pos_weight=weight),
        "plain": nn.BCEWithLogitsLoss(),
        "probabilities": nn.BCELoss(),
        "focal": focal,
        "soft": lambda s, y: F.multilabel_soft_margin_loss(s, y),
        "ones": lambda s, y: F.binary_cross_entropy_with_logits(s, torch.ones_like(y)),
        "softmax": lambda s, y: F.binary_cross_entropy_with_logits(s.softmax(0), y),
        "range": lambda s, y: nn.MSELoss()(s, 40 * y + 20),
    }[loss]
    fit(model, data, criterion, how, hook, seed)
    found = outputs(model, data, how)
    each = [ranking_skill(found[:, n], data.held_y[:, n]) for n in range(LABELS)]
    return sum(each) / LABELS


CASES = cases(
    "multi-label",
    train,
    {
        "plain": {},
        "no weights": {"loss": "plain"},
        "sigmoid and BCELoss": {"loss": "probabilities", "sigmoid": True},
        "focal": {"loss": "focal"},
        "dropout": {"dropout": 0.2},
        "batch of four": {"batch": 4, "steps": 2500, "rate": 5e-4},
        "momentum": {"optimizer": "momentum", "rate": 2e-2},
    },
    {
        "labels shuffled": ("no-skill", {"shuffled": True}),
        "columns off by one": ("overfit no-skill", {"off": True}),
        "every label one": ("no-skill imbalance collapse", {"loss": "ones"}),
        "softmax over the batch": ("softmax-axis probabilities", {"loss": "softmax"}),
        "targets out of a sigmoid's range": (
            "range saturated no-skill",
            {"loss": "range", "sigmoid": True, "rate": 1e-2},
        ),
        "sigmoid saturated": ("saturated no-skill inputs", {"train_scale": 1000.0, "sigmoid": True,
                                                        "loss": "probabilities", "rate": 1e-2}),
        "sorted": ("order worse no-skill", {"sorted": True, "optimizer": "sgd", "rate": 1.0}),
        "rate x 1000": ("fast no-skill dead", {"rate": 2.0}),
        "rate / 1000": ("slow no-skill", {"rate": 2e-6}),
        "memorises 40": ("overfit", {"memorise": 40}),
        "optimizer of another model": ("unbound slow", {"other_model": True}),
    },
)  # fmt: skip
