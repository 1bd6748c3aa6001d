"""Points on a ring of eight spots, which a generator learns to draw."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from benchmarks.detection.kit import dense
from benchmarks.detection.task import Samples, Task

LATENT = 4


def ring(count: int, seed: int) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    angle = torch.randint(8, (count,), generator=draw) * (math.tau / 8)
    spots = torch.stack([angle.cos(), angle.sin()], 1)
    return 2 * spots + 0.1 * torch.randn(count, 2, generator=draw)


def likeness(drawn: Tensor, true: Tensor) -> float:
    """1 where what is drawn lies like what is true, by the energy distance; 0 as at one point."""
    apart = torch.cdist
    within = apart(true, true).mean()
    distance = 2 * apart(drawn, true).mean() - apart(drawn, drawn).mean() - within
    alone = 2 * apart(true.mean(0, keepdim=True), true).mean() - within
    return 1 - (distance / alone).item()


def samples(seed: int) -> Samples:
    x, held = ring(4000, seed + 320), ring(1000, seed + 321)
    return Samples(x, x, held, held)


def model() -> nn.Module:
    return nn.ModuleDict({
        "generator": dense([LATENT, 48, 48, 2]),
        "discriminator": dense([2, 48, 48, 1], nn.LeakyReLU),
    })  # fmt: skip


TASK = Task(
    frozenset(["adversarial"]),
    samples,
    model,
    nn.BCEWithLogitsLoss(),
    likeness,
    {"steps": 1200, "rate": 2e-3, "batch": 64},
)
