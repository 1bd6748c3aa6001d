"""Draws, perceptrons, optimizers, and schedules that trainings of the benchmark share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn


def begin(seed: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def integers(high: int, *shape: int, seed: int) -> Tensor:
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(seed))


def dense(sizes: Sequence[int], activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Return a perceptron, without an activation after its last layer."""
    layers: list[nn.Module] = []
    for inputs, units in pairwise(sizes):
        layers += [nn.Linear(inputs, units), activation()]
    return nn.Sequential(*layers[:-1])


def optimizer_of(
    kind: str, parameters: Iterable[nn.Parameter], rate: float, decay: float = 0.0
) -> Any:
    if kind == "momentum":
        return torch.optim.SGD(parameters, rate, momentum=0.9, weight_decay=decay)
    kinds = {
        "sgd": torch.optim.SGD,
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
        "rmsprop": torch.optim.RMSprop,
    }
    return kinds[kind](parameters, rate, weight_decay=decay)


def scheduler_of(optimizer: Any, kind: str, steps: int) -> Any:
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: factor(kind, step, steps))


def factor(kind: str, step: int, steps: int) -> float:
    """Return the learning rate at a step, as a share of the highest."""
    done = step / steps
    if kind == "warmup":
        return min(1.0, (step + 1) / (0.1 * steps)) * (1 - 0.9 * done)
    if kind == "cosine":
        return 0.5 * (1 + math.cos(math.pi * done)) + 1e-3
    if kind == "restarts":
        return 0.5 * (1 + math.cos(math.pi * (4 * done % 1))) + 1e-3
    if kind == "one cycle":
        return 4 * done + 1e-3 if done < 0.25 else (1 - done) / 0.75 + 1e-3
    if kind == "endless warmup":
        return 1e-4 * done
    if kind == "jump":
        return 1.0 if done < 0.5 else 1000.0
    if kind == "decay per update":
        return float(0.9**step)
    return 1.0
