"""Two classes of which one is rare; weights, a sampler, or nothing against it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from benchmarks.detection.families.kit import (
    LoopOptions,
    Split,
    balanced_skill,
    begin,
    dense,
    fit,
    normal,
    outputs,
)
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIZE = 14


def samples(count: int, share: float, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    y = (torch.rand(count, generator=draw) < share).long()
    x = torch.randn(count, SIZE, generator=draw)
    turned = torch.where(y > 0, 1.0, -1.0)
    x[:, 1] = x[:, 0].sign() * turned * x[:, 1].abs()
    return x + 0.9 * turned[:, None] * (normal(SIZE, seed=101) > 0.8), y


def train(
    seed: int, hook: Any, loss: str = "weights", share: float = 0.05, dropout: float = 0.0,
    **options: Any,
) -> float:  # fmt: skip
    begin(seed)
    how = replace(LoopOptions(steps=1200, batch=64, rate=2e-3), **options)
    data = Split(*samples(8000, share, seed + 330), *samples(3000, share, seed + 331))
    if loss == "sampler":
        weight = torch.where(data.y > 0, 1 / share, 1 / (1 - share))
        rows = torch.multinomial(weight, 8000, replacement=True)
        data = replace(data, x=data.x[rows], y=data.y[rows])
    model = dense([SIZE, 48, 48, 2])
    if dropout:
        model.insert(2, nn.Dropout(dropout))
    weights = torch.tensor([1.0, (1 - share) / share])
    criterion: Any = {
        "weights": nn.CrossEntropyLoss(weight=weights),
        "sampler": nn.CrossEntropyLoss(),
        "none": nn.CrossEntropyLoss(),
        "upside down": nn.CrossEntropyLoss(weight=weights.flip(0)),
        "margins": nn.MultiMarginLoss(weight=weights),
        "logarithm": nn.NLLLoss(weight=weights),
    }[loss]
    if loss == "logarithm":
        model.append(nn.LogSoftmax(1))
    fit(model, data, criterion, how, hook, seed)
    return balanced_skill(outputs(model, data, how), data.held_y)


CASES = cases(
    "imbalanced",
    train,
    {
        "plain": {},
        "sampler": {"loss": "sampler"},
        "log-probabilities": {"loss": "logarithm"},
        "margins": {"loss": "margins"},
        "dropout": {"dropout": 0.1},
        "momentum": {"optimizer": "momentum", "rate": 2e-2},
    },
    {
        "labels shuffled": ("no-skill overfit", {"shuffled": True}),
        "very rare": ("imbalance collapse no-skill overfit", {"loss": "none", "share": 0.004}),
        "weights upside down": ("imbalance collapse no-skill", {"loss": "upside down"}),
        "sorted": (
            "order worse imbalance",
            {"sorted": True, "loss": "none", "optimizer": "sgd", "rate": 0.3},
        ),
        "evaluation x 255": ("inputs", {"eval_scale": 255.0}),
        "eval mode while training": ("mode", {"eval_mode": True, "dropout": 0.5}),
        "memorises 50": ("overfit", {"memorise": 50}),
        "optimizer of another model": ("unbound slow", {"other_model": True}),
        "rate x 1000": ("fast no-skill dead", {"rate": 2.0}),
        "rate / 1000": ("slow no-skill", {"rate": 2e-6}),
    },
    certain=("eval mode while training",),
)
