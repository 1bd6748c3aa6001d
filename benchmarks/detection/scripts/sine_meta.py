"""Model-agnostic meta learning of sine waves: second order, with fast weights for each task.

Each task is a wave of its own height and phase, with ten points to adapt to and ten to be judged
by. The gradient goes through the adaptation. The skill is the share of the variance of new tasks
that is explained after one step of adaptation.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin, factor, optimizer_of

SHOTS = 10


def tasks(count: int, draw: torch.Generator, noise: float = 0.0) -> tuple[Tensor, Tensor]:
    """x and y (count, 2 * SHOTS, 1); the second half of each is to judge by."""
    height = 1 + 3 * torch.rand(count, 1, 1, generator=draw)
    phase = math.pi * torch.rand(count, 1, 1, generator=draw)
    x = 10 * torch.rand(count, 2 * SHOTS, 1, generator=draw) - 5
    y = height * (x + phase).sin()
    return x, y + noise * torch.randn(y.shape, generator=draw)


class Waves(nn.Module):
    """A perceptron that may be given weights for each task."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.weights = nn.ParameterList()
        for inputs, units in pairwise((1, *sizes, 1)):
            self.weights.append(torch.randn(inputs, units) * inputs**-0.5)
            self.weights.append(torch.zeros(1, units))
        nn.init.normal_(self.weights[0], std=0.5)
        nn.init.normal_(self.weights[1])

    def copies(self, count: int) -> list[Tensor]:
        return [weight.expand(count, *weight.shape) for weight in self.weights]

    def forward(self, x: Tensor, weights: list[Tensor]) -> Tensor:
        for layer in range(0, len(weights), 2):
            x = torch.baddbmm(weights[layer + 1], x, weights[layer])
            x = x.tanh() if layer + 2 < len(weights) else x
        return x


def adapted(
    model: Waves, x: Tensor, y: Tensor, inner: float, times: int, first_order: bool = False
) -> list[Tensor]:
    weights = model.copies(len(x))
    for _ in range(times):
        error = F.mse_loss(model(x, weights), y, reduction="none").mean((1, 2)).sum()
        slopes = torch.autograd.grad(error, weights, create_graph=not first_order)
        weights = [w - inner * slope for w, slope in zip(weights, slopes, strict=True)]
    return weights


def train(
    seed: int, hook: Any, rate: float = 3e-3, steps: int = 2500, batch: int = 16,
    sizes: tuple[int, ...] = (40, 40), inner: float = 0.05, times: int = 1, noise: float = 0.0,
    optimizer: str = "adam", schedule: str = "cosine", first_order: bool = False,
    clip: float = 0.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    model = Waves(sizes)
    hook.torch(model)
    stepper = optimizer_of(optimizer, model.parameters(), rate)
    falls = torch.optim.lr_scheduler.LambdaLR(stepper, lambda s: factor(schedule, s, steps))
    draw = torch.Generator().manual_seed(seed + 66)
    held = tasks(50, torch.Generator().manual_seed(seed + 67))
    for step in range(steps):
        if fault == "seed set in the sampler":
            draw.manual_seed(seed)
        x, y = tasks(batch, draw, noise)
        x_judge, y_judge = x[:, SHOTS:], y[:, SHOTS:]
        x, y = x[:, :SHOTS], y[:, :SHOTS]
        if fault == "judged by other tasks":
            x_judge, y_judge = (part[:, SHOTS:] for part in tasks(batch, draw, noise))
        weights = adapted(model, x, y, inner, times, first_order)
        if fault == "weights copied by value":
            weights = [weight.detach().requires_grad_() for weight in weights]
        if fault == "judged before adaptation":
            weights = model.copies(batch)
        error = F.mse_loss(model(x_judge, weights), y_judge)
        stepper.zero_grad()
        error.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        stepper.step()
        falls.step()
        if step % 250 == 249:
            model.eval()
            x, y = held
            weights = adapted(model, x[:, :SHOTS], y[:, :SHOTS], inner, times, first_order=True)
            with torch.no_grad():
                F.mse_loss(model(x[:, SHOTS:], weights), y[:, SHOTS:])
            model.train()
    x, y = tasks(400, torch.Generator().manual_seed(seed + 68))
    weights = adapted(model, x[:, :SHOTS], y[:, :SHOTS], inner, times, first_order=True)
    with torch.no_grad():
        error = F.mse_loss(model(x[:, SHOTS:], weights), y[:, SHOTS:])
    return 1 - float(error / y[:, SHOTS:].var())


CASES = cases(
    "sine meta",
    train,
    {
        "plain": {},
        "three inner steps": {"times": 3, "inner": 0.02, "steps": 2000},
        "measured with noise": {"noise": 0.3},
        "four tasks, clipped": {"batch": 4, "clip": 5.0, "steps": 3000},
        "three layers, warm-up": {"sizes": (40, 40, 40), "schedule": "warmup"},
    },
    {
        "weights copied by value": (
            "no-gradient unbound no-skill",
            {"fault": "weights copied by value"},
        ),
        "judged before adaptation": ("no-skill", {"fault": "judged before adaptation"}),
        "judged by other tasks": ("no-skill", {"fault": "judged by other tasks"}),
        "seed set in the sampler": ("overfit", {"fault": "seed set in the sampler", "batch": 4}),
        "inner rate too high": ("fast no-skill worse not-finite", {"inner": 2.0}),
    },
)
