"""Three quantiles of a number at once, by the pinball loss written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from benchmarks.detection.families.kit import LoopOptions, Split, begin, dense, fit, normal, outputs
from torch import Tensor, nn

from benchmarks.detection.case import cases

LEVELS = torch.tensor([0.1, 0.5, 0.9])


def samples(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """A number whose spread depends on the inputs."""
    x = normal(count, 8, seed=seed)
    middle = 2 * torch.sin(x[:, 0]) + x[:, 1] * x[:, 2]
    spread = 0.2 + 0.4 * torch.sigmoid(2 * x[:, 3])
    return x, (middle + spread * normal(count, seed=seed + 1))[:, None]


def pinball(found: Tensor, y: Tensor) -> Tensor:
    error = y - found
    return torch.maximum(LEVELS * error, (LEVELS - 1) * error).mean()


class PinballLoss(nn.Module):
    def forward(self, found: Tensor, y: Tensor) -> Tensor:
        return pinball(found, y)


def train(
    seed: int, hook: Any, loss: str = "", unit: float = 1.0, hot: float = 0.0, **options: Any
) -> float:
    begin(seed)
    how = replace(LoopOptions(steps=1500, rate=3e-3, batch=64), **options)
    (x, y), (held, held_y) = samples(6000, seed + 130), samples(1500, seed + 132)
    data = Split(x, y * unit, held, held_y * unit)
    model = dense([8, 48, 48, 3])
    if hot:
        nn.init.constant_(model[0].bias, hot)
    criterion: Any = {
        "": pinball,
        "module": PinballLoss(),
        "wrong sign": lambda found, y: -pinball(found, y).clamp(max=50),
        "broadcast": lambda found, y: pinball(found.reshape(-1, 1, 3), y),
        "detached": lambda found, y: pinball(found.detach() + model[4].bias, y),
    }[loss]
    fit(model, data, criterion, how, hook, seed)
    found = outputs(model, data, how)
    constant = data.held_y.flatten().quantile(LEVELS)
    return 1 - (pinball(found, data.held_y) / pinball(constant, data.held_y)).item()


CASES = cases(
    "quantile regression",
    train,
    {
        "plain": {},
        "a module of its own": {"loss": "module"},
        "targets x 10⁴": {"unit": 1e4, "rate": 1e-1, "steps": 2500},
        "clipped": {"clip": 0.1},
        "batch of four": {"batch": 4, "steps": 2500, "rate": 1e-3},
        "one cycle": {"schedule": "one cycle", "rate": 1e-2},
        "accumulation": {"batch": 16, "accumulate": 4},
    },
    {
        "labels shuffled": ("no-skill", {"shuffled": True}),
        "each against all": ("broadcast no-skill", {"loss": "broadcast"}),
        "wrong sign": ("worse no-skill", {"loss": "wrong sign"}),
        "head alone learns": ("unbound no-gradient no-skill", {"loss": "detached"}),
        "evaluation x 255": ("inputs", {"eval_scale": 255.0}),
        "memorises 50": ("overfit", {"memorise": 50}),
        "dead units": ("dead no-skill", {"hot": -40.0}),
        "rate x 1000": ("fast no-skill dead", {"rate": 3.0}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
        "rate jumps half way": ("fast no-skill dead", {"schedule": "jump"}),
        "not a number": ("not-finite", {"nan_from": 500}),
    },
)
