"""A model trained on one task learns another: all of it, or its head alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import (
    LoopOptions,
    Split,
    begin,
    class_skill,
    fit,
    normal,
    outputs,
)
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIZE, KINDS = 20, 6


def samples(count: int, task: int, seed: int) -> tuple[Tensor, Tensor]:
    """Classes by directions in a hidden space that both tasks share."""
    x = normal(count, SIZE, seed=seed)
    hidden = torch.tanh(x @ normal(SIZE, 5, seed=7))
    return x, (hidden @ normal(5, KINDS, seed=8 + task)).argmax(1)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(SIZE, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(64, 64), nn.ReLU(),
        )  # fmt: skip
        self.head = nn.Linear(64, KINDS)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.body(x))
        return scores


def pretrained(seed: int, steps: int = 400) -> Network:
    model = Network()
    x, y = samples(4000, 0, seed)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(steps):
        rows = torch.randint(len(x), (64,))
        optimizer.zero_grad()
        F.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
    return model


def train(
    seed: int,
    hook: Any,
    freeze: bool = False,
    new_head: bool = True,
    loss: str = "",
    head_bias: float = 0.0,
    **options: Any,
) -> float:
    begin(seed)
    how = replace(LoopOptions(steps=800, batch=32, rate=1e-3), **options)
    model = pretrained(seed)
    if freeze:
        model.body.requires_grad_(False)
    if new_head:
        model.head = nn.Linear(64, KINDS)
    if head_bias:
        nn.init.constant_(model.body[4].bias, head_bias)
    data = Split(*samples(4000, 1, seed + 50), *samples(1000, 1, seed + 51))
    criterion: Any = {
        "": nn.CrossEntropyLoss(),
        "smooth": nn.CrossEntropyLoss(label_smoothing=0.1),
        "probabilities": lambda scores, y: F.nll_loss(scores.softmax(1), y),
        "detached": lambda scores, y: F.cross_entropy(
            model.head(scores.detach() @ model.head.weight.detach()), y
        ),
    }[loss]
    fit(model, data, criterion, how, hook, seed)
    return class_skill(outputs(model, data, how), data.held_y)


CASES = cases(
    "fine-tuning",
    train,
    {
        "plain": {},
        "small rate": {"rate": 5e-4, "steps": 2000},
        "old head": {"new_head": False},
        "smooth labels": {"loss": "smooth"},
        "labels with noise": {"noise": 0.05, "steps": 1200},
        "accumulation": {"batch": 8, "accumulate": 4, "steps": 1000},
    },
    {
        "shuffled labels": ("no-skill overfit", {"shuffled": True}),
        "body in no optimizer": ("unbound", {"only": "head"}),
        "probabilities into NLL": ("probabilities", {"loss": "probabilities", "rate": 3e-5}),
        "rate x 1000": ("fast no-skill dead", {"rate": 1.0}),
        "rate / 1000": ("slow no-skill", {"rate": 1e-6}),
        "optimizer of another model": ("unbound slow", {"other_model": True}),
        "memorises 50": ("overfit", {"memorise": 50, "steps": 1500}),
        "dead units": ("dead no-skill", {"head_bias": -50.0, "rate": 1e-5}),
        "gradients kept": ("kept-gradients", {"zero_grad": False, "optimizer": "sgd", "rate": 0.1}),
    },
)
