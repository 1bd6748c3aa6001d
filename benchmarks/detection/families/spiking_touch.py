"""What a robot's skin touches, by a spiking or a binary network with its own gradient.

Pulses of a few sensors come over eight moments; a neuron leaks, fires and is reset. The step's
gradient is replaced in an autograd function. The skill is the accuracy, above the most frequent.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, class_skill
from torch import Tensor, nn

from benchmarks.detection.case import cases

SENSORS, MOMENTS, OBJECTS = 20, 8, 6


def touches(count: int, seed: int, graded: bool = False) -> tuple[Tensor, Tensor]:
    """Pulses (N, MOMENTS, SENSORS), 0 or 1 or else a pressure, and the object."""
    fixed = torch.Generator().manual_seed(55)
    centre = 0.6 * torch.randn(OBJECTS, MOMENTS, SENSORS, generator=fixed)
    centre = centre + 0.6 * torch.randn(OBJECTS, 1, SENSORS, generator=fixed)
    draw = torch.Generator().manual_seed(seed)
    kind = torch.randint(OBJECTS, (count,), generator=draw)
    late = torch.randint(2, (count,), generator=draw)
    course = torch.where(late[:, None, None] > 0, centre[kind].roll(1, 1), centre[kind])
    pressure = course + 1.2 * torch.randn(count, MOMENTS, SENSORS, generator=draw)
    return (pressure if graded else (pressure > 0.3).float()), kind


class Fire(torch.autograd.Function):
    """One where it is above zero; its gradient is that of a fast sigmoid."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.slope = slope
        return (x > 0).float()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return grads[0] / (1 + ctx.slope * x.abs()) ** 2, None


class Straight(torch.autograd.Function):
    """The sign; the gradient passes where the input is small."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0] * (ctx.saved_tensors[0].abs() <= 1)


class Spiking(nn.Module):
    def __init__(self, leak: str, reset: str, slope: float, threshold: float) -> None:
        super().__init__()
        self.reset, self.slope, self.threshold = reset, slope, threshold
        self.entry, self.out = nn.Linear(SENSORS, 64), nn.Linear(64, OBJECTS)
        start = torch.full((64,), 1.5)
        if leak == "learned":
            self.leak: Any = nn.Parameter(start)
        else:
            self.register_buffer("leak", start)
        self.register_buffer("rate", torch.zeros(64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Scores, and spikes of each neuron and moment."""
        charge = x.new_zeros(len(x), 64)
        total = x.new_zeros(len(x), OBJECTS)
        fired = []
        for current in self.entry(x).unbind(1):
            charge = self.leak.sigmoid() * charge + current
            above = charge - self.threshold
            spike = Fire.apply(above, self.slope)
            if self.reset == "to zero":
                charge = charge * (1 - spike.detach())
            else:
                charge = charge - self.threshold * spike
            total = 0.9 * total + self.out(spike)
            fired.append(spike)
        spikes = torch.stack(fired, 1)
        self.rate = self.rate.lerp(spikes.detach().mean((0, 1)), 0.05)
        return total, spikes


class Binary(nn.Module):
    """Weights and states of -1 and 1, between batch norms."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (MOMENTS * SENSORS, 96, 96)
        self.weights = nn.ParameterList(
            nn.Parameter(torch.randn(after, before) * 0.1) for before, after in pairwise(sizes)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(96) for _ in range(2))
        self.out = nn.Linear(96, OBJECTS)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = x.flatten(1)
        for weight, norm in zip(self.weights, self.norms, strict=True):
            h = Straight.apply(norm(F.linear(h, Straight.apply(weight))))
        return self.out(h), h


def train(
    seed: int, hook: Any, model: str = "spiking", leak: str = "fixed", reset: str = "subtract",
    slope: float = 2.0, threshold: float = 1.0, loss: str = "", rate: float = 2e-3,
    updates: int = 2000, batch: int = 32, quiet: float = 0.0, graded: bool = False,
    optimizer: str = "adam", short: bool = False, out_later: int = 0, count: int = 3000,
) -> float:  # fmt: skip
    begin(seed)
    x, y = touches(count, seed + 800, graded)
    held, test = touches(300, seed + 801, graded), touches(1500, seed + 802, graded)
    net: Any = Binary() if model == "binary" else Spiking(leak, reset, slope, threshold)
    hook.torch(net)
    if optimizer == "adamax":
        steps: Any = torch.optim.Adamax(net.parameters(), 2 * rate)
    elif optimizer == "two":
        steps = torch.optim.RMSprop(
            [{"params": net.entry.parameters()}, {"params": net.out.parameters(), "lr": rate / 4}],
            rate,
        )
    else:
        steps = torch.optim.Adam(net.parameters(), rate)
    plan = torch.optim.lr_scheduler.MultiStepLR(steps, [updates // 2, updates * 3 // 4], 0.3)
    if out_later:
        net.out.requires_grad_(False)
    for update in range(updates):
        if update == out_later:
            net.out.requires_grad_(True)
        rows = torch.randint(count, (batch,))
        part, wanted = x[rows], y[rows]
        if short and update % 3 == 0:
            part = part[:, : int(torch.randint(5, MOMENTS + 1, ()))]
        scores, spikes = net(part)
        if loss == "margins":
            error = F.multi_margin_loss(scores, wanted)
        elif loss == "squared":
            error = (scores - F.one_hot(wanted, OBJECTS)).square().sum()
        else:
            error = F.cross_entropy(scores, wanted)
        if quiet:
            error = error + quiet * (spikes.mean((0, 1)) - 0.15).square().sum()
        steps.zero_grad()
        error.backward()
        steps.step()
        plan.step()
        if model == "binary":
            with torch.no_grad():
                for weight in net.weights:
                    weight.clamp_(-1, 1)
        if update % 200 == 199:
            net.eval()
            with torch.no_grad():
                F.cross_entropy(net(held[0])[0], held[1])
                if short:
                    F.cross_entropy(net(held[0][:, :6])[0], held[1])
            net.train()
    net.eval()
    with torch.no_grad():
        return class_skill(net(test[0])[0], test[1])


CASES = cases(
    "spiking touch",
    train,
    {
        "plain": {},
        "leaks learned, reset to zero": {"leak": "learned", "reset": "to zero"},
        "binary weights": {"model": "binary", "rate": 5e-3},
        "quiet neurons": {"quiet": 0.3},
        "margins": {"loss": "margins", "rate": 3e-3},
        "squares summed, Adamax": {"loss": "squared", "optimizer": "adamax", "rate": 1e-3},
        "pressures instead of pulses": {"graded": True},
        "touches of changing length": {"short": True},
        "output trained later": {"out_later": 500},
        "two rates of RMSprop": {"optimizer": "two"},
    },
    {},
)
