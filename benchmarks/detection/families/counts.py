"""How many events happen: Poisson regression, with its logarithm or without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from benchmarks.detection.families.kit import LoopOptions, Split, begin, dense, fit, normal, outputs
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIZE = 8


def counts(count: int, seed: int) -> tuple[Tensor, Tensor]:
    x = normal(count, SIZE, seed=seed)
    rate = (1.2 + torch.sin(x[:, 0]) + 0.6 * x[:, 1] * x[:, 2].sign()).clamp(-2, 3).exp()
    return x, torch.poisson(rate, generator=torch.Generator().manual_seed(seed))[:, None]


def train(
    seed: int, hook: Any, loss: str = "log", positive: bool = False, start: float = 0.0,
    **options: Any,
) -> float:  # fmt: skip
    begin(seed)
    how = replace(LoopOptions(steps=1200, batch=48, rate=2e-3), **options)
    data = Split(*counts(6000, seed + 320), *counts(1500, seed + 321))
    model = dense([SIZE, 48, 48, 1])
    if positive:
        model.append(nn.Softplus())
    if start:
        nn.init.constant_(model[4].bias, start)
    if loss == "broadcast":
        data = replace(data, y=data.y.squeeze(1), held_y=data.held_y.squeeze(1))
    criterion: Any = {
        "log": nn.PoissonNLLLoss(),
        "full": nn.PoissonNLLLoss(full=True),
        "direct": nn.PoissonNLLLoss(log_input=False),
        "broadcast": nn.PoissonNLLLoss(),
        "gaussian": nn.MSELoss(),
        "negative": nn.PoissonNLLLoss(log_input=False),
        "sigmoid": lambda found, y: nn.MSELoss()(found.sigmoid(), y),
    }[loss]
    fit(model, data, criterion, how, hook, seed)
    found = outputs(model, data, how)
    logarithm = loss in ("log", "full", "broadcast")
    mean = found.exp() if logarithm else found.sigmoid() if loss == "sigmoid" else found
    y = data.held_y.reshape(mean.shape)
    if not bool(torch.isfinite(mean).all()):
        return float("nan")
    total = (y - y.mean()).square().mean()
    return 1 - ((mean - y).square().mean() / total).item()


CASES = cases(
    "counts",
    train,
    {
        "plain": {},
        "with Stirling's term": {"loss": "full"},
        "softplus": {"loss": "direct", "positive": True},
        "squares": {"loss": "gaussian"},
        "one cycle": {"schedule": "one cycle", "rate": 5e-3},
        "accumulation": {"batch": 12, "accumulate": 4},
    },
    {
        "labels shuffled": ("no-skill", {"shuffled": True}),
        "(N, 1) against (N)": ("broadcast no-skill", {"loss": "broadcast"}),
        "rate may be negative": ("range worse not-finite no-skill", {"loss": "negative"}),
        "targets out of a sigmoid's range": ("range saturated no-skill", {"loss": "sigmoid"}),
        "start too high": ("worse fast", {"start": 40.0, "rate": 1e-4}),
        "evaluation x 255": ("inputs", {"eval_scale": 255.0}),
        "memorises 50": ("overfit", {"memorise": 50}),
        "not a number": ("not-finite", {"nan_from": 400}),
        "rate x 1000": ("fast no-skill dead", {"rate": 2.0}),
        "rate / 1000": ("slow no-skill", {"rate": 2e-6}),
    },
)
