"""Logistic regression and a small perceptron by L-BFGS, whose closure is called many times."""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.detection.families.kit import begin, class_skill, dense, normal, with_noise
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIZE, KINDS = 12, 4


def train(
    seed: int, hook: Any, rate: float = 0.5, steps: int = 120, inner: int = 5, count: int = 400,
    hidden: int = 16, search: str | None = None, penalty: float = 3e-3, noise: float = 0.0,
    fault: str = "", scale: float = 1.0,
) -> float:  # fmt: skip
    begin(seed)
    x, held = normal(count, SIZE, seed=seed + 310), normal(1000, SIZE, seed=seed + 311)
    mixing, kinds = normal(SIZE, 4, seed=91), normal(4, KINDS, seed=92)
    y, held_y = ((torch.tanh(p @ mixing / 3) @ kinds).argmax(1) for p in (x, held))
    y = with_noise(y, noise, seed) if noise else y
    if fault == "not a number":
        x[3, 3] = float("nan")
    model = dense([SIZE, hidden, KINDS], nn.Tanh) if hidden else dense([SIZE, KINDS])
    if fault == "zero start" and hidden:
        for p in model.parameters():
            nn.init.zeros_(p)
    other = dense([SIZE, hidden, KINDS], nn.Tanh)
    source = other if fault == "other model" else model
    optimizer = torch.optim.LBFGS(source.parameters(), rate, inner, line_search_fn=search)
    criterion = nn.CrossEntropyLoss()
    hook.torch(model)
    for step in range(steps):

        def closure() -> Tensor:
            if fault != "gradients kept":
                optimizer.zero_grad()
            scores = model(x * (255.0 if fault == "scaled training" else 1.0))
            loss = criterion(scores.softmax(1) if fault == "softmax" else scores, y)
            loss = loss + penalty * sum(p.square().sum() for p in model.parameters())
            loss.backward()
            return loss

        optimizer.step(closure)
        if step % 10 == 9:
            model.eval()
            with torch.no_grad():
                criterion(model(held * scale), held_y)
            model.train()
    with torch.no_grad():
        return class_skill(model(held * scale), held_y)


CASES = cases(
    "second order",
    train,
    {
        "plain": {"count": 1500},
        "line search": {"count": 1500, "search": "strong_wolfe"},
        "logistic": {"count": 1500, "hidden": 0},
        "many inner steps": {"count": 1500, "inner": 15, "steps": 60},
        "labels with noise": {"count": 3000, "noise": 0.1},
    },
    {
        "labels shuffled": ("no-skill overfit", {"noise": 1.0}),
        "no penalty, few samples": ("overfit", {"count": 40, "penalty": 0.0}),
        "gradients kept": ("kept-gradients worse fast", {"fault": "gradients kept"}),
        "zero start": ("dead no-skill no-gradient collapse", {"fault": "zero start", "penalty": 0}),
        "not a number": ("not-finite", {"fault": "not a number"}),
        "optimizer of another model": ("unbound slow", {"fault": "other model"}),
        "evaluation x 255": ("inputs", {"scale": 255.0, "hidden": 16, "count": 1500}),
        "rate / 1000": ("slow no-skill", {"rate": 5e-6, "penalty": 0.0}),
        "rate x 100": ("fast worse no-skill", {"rate": 50.0}),
    },
)
