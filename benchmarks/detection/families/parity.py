"""The parity of three hidden bits: nothing is learned for long, then all; and lessons in order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from benchmarks.detection.families.kit import LoopOptions, Split, begin, dense, fit, outputs
from torch import Tensor, nn

from benchmarks.detection.case import cases

BITS = 14


def bits(count: int, wanted: int, seed: int, *, binary: bool = True) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randint(2, (count, BITS), generator=draw).float() * 2 - 1
    product = x[:, :wanted].prod(1)
    return x, ((product + 1) / 2)[:, None] if binary else product[:, None]


def train(
    seed: int, hook: Any, wanted: int = 3, loss: str = "logits", bias: float = 0.0,
    activation: type[nn.Module] = nn.ReLU, width: int = 96, **options: Any,
) -> float:  # fmt: skip
    begin(seed)
    how = replace(LoopOptions(steps=1500, batch=64, rate=3e-3, evaluate_every=250), **options)
    binary = loss not in ("squares", "hinge", "broadcast")
    data = Split(
        *bits(12_000, wanted, seed + 190, binary=binary),
        *bits(1000, wanted, seed + 191, binary=binary),
    )
    if loss == "broadcast":
        data = replace(data, y=data.y.squeeze(1), held_y=data.held_y.squeeze(1))
    model = dense([BITS, width, width, 1], activation)
    if bias:
        for layer in (model[0], model[2]):
            nn.init.constant_(layer.bias, bias)
    if loss == "sigmoid twice":
        model.append(nn.Sigmoid())
    criterion: Any = {
        "logits": nn.BCEWithLogitsLoss(),
        "sigmoid twice": nn.BCEWithLogitsLoss(),
        "squares": nn.MSELoss(),
        "broadcast": nn.MSELoss(),
        "hinge": lambda found, y: (1 - found * y).relu().mean(),
        "targets": lambda found, y: nn.MSELoss()(found.relu(), y * 2 - 3),
    }[loss]
    fit(model, data, criterion, how, hook, seed)
    found = outputs(model, data, how).flatten()
    if not bool(torch.isfinite(found).all()):
        return float("nan")
    edge = {"sigmoid twice": 0.5, "targets": 0.0}.get(loss, 0.0)
    right = ((found > edge) == (data.held_y.flatten() > (0.5 if binary else 0))).double()
    return 2 * right.mean().item() - 1


CASES = cases(
    "parity",
    train,
    {
        "plain": {},
        "squares": {"loss": "squares"},
        "hinge": {"loss": "hinge"},
        "long plateau": {"rate": 6e-4, "steps": 2500},
        "momentum": {"optimizer": "momentum", "rate": 5e-2, "steps": 2500},
        "two bits": {"wanted": 2},
        "labels with noise": {"noise": 0.1, "steps": 2000},
    },
    {
        "labels shuffled": ("no-skill overfit", {"shuffled": True}),
        "too hard": ("no-skill overfit", {"wanted": 12}),
        "(N, 1) against (N)": ("broadcast no-skill", {"loss": "broadcast"}),
        "targets out of a ReLU's range": ("range dead no-skill", {"loss": "targets"}),
        "memorises 60": ("overfit", {"memorise": 60}),
        "dead units": ("dead no-skill", {"bias": -20.0}),
        "saturated": ("saturated no-skill", {"train_scale": 300.0, "activation": nn.Tanh}),
        "optimizer of another model": ("unbound slow", {"other_model": True}),
        "rate x 1000": ("fast no-skill dead", {"rate": 3.0}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
        "rate ends early": ("slow schedule no-skill", {"schedule": "ends early"}),
        "gradients kept": (
            "kept-gradients worse fast",
            {"zero_grad": False, "optimizer": "sgd", "rate": 0.5},
        ),
    },
)
