"""An inverse problem: how well a rod conducts at each place, found from measured temperatures.

One network gives the temperature, a second the conductivity; the loss holds measurements, the ends
and the heat equation (k u')' + f = 0 inside. The rod's conductivity changes along it. The skill is
the share of the variance of the logarithm of conductivity that is explained.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, dense, explained, factor
from torch import Tensor, nn

from benchmarks.detection.case import cases

HEAT = 10.0


def rod(seed: int, count: int = 2000) -> tuple[Tensor, Tensor, Tensor]:
    """Places, temperatures and conductivities: of k u' = c - HEAT x, summed finely."""
    draw = torch.Generator().manual_seed(seed)
    shift, height = torch.rand(2, generator=draw).tolist()
    x = torch.linspace(0, 1, count, dtype=torch.float64)
    k = (0.3 + (0.6 + 0.3 * height) * (2 * math.pi * (0.9 * x + 0.3 * shift)).sin()).exp()
    middle = (k[1:] + k[:-1]) / 2
    between = (x[1:] + x[:-1]) / 2
    whole = (HEAT * between / middle).sum() / (1 / middle).sum()
    slope = (whole - HEAT * between) / middle
    u = torch.cat([torch.zeros(1), (slope / (count - 1)).cumsum(0)])
    return x.float()[:, None], u.float()[:, None], k.float()[:, None]


class Rod(nn.Module):
    def __init__(self, width: int, activation: type[nn.Module], scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.temperature = dense((1, width, width, 1), activation)
        self.conductivity = dense((1, width, 1), activation)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        seen = x * self.scale
        return self.temperature(seen), self.conductivity(seen).exp()


def slope_of(value: Tensor, x: Tensor, kept: bool = True) -> Tensor:
    return torch.autograd.grad(value.sum(), x, create_graph=kept, retain_graph=True)[0]


def train(
    seed: int, hook: Any, rate: float = 5e-3, steps: int = 2200, width: int = 24, points: int = 48,
    activation: type[nn.Module] = nn.Tanh, noise: float = 0.002, sensors: int = 60,
    schedule: str = "cosine", fixed_points: bool = False, weight: float = 100.0,
    measured_first: int = 0, scale: float = 1.0, times: float = 1.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, u, k = rod(seed)
    at = torch.linspace(0, len(x) - 1, sensors).long()
    sensor, measured = x[at], u[at] + noise * torch.randn(sensors, 1)
    model = Rod(width, activation, scale)
    hook.torch(model)
    trained = model.temperature if fault == "only temperature trains" else model
    optimizer = torch.optim.Adam(trained.parameters(), lr=rate)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: factor(schedule, s, steps))
    ends, grid = torch.tensor([[0.0], [1.0]]), torch.linspace(0, 1, points)[:, None]
    for step in range(steps):
        optimizer.zero_grad()
        place = (grid if fixed_points else torch.rand(points, 1)).clone().requires_grad_()
        temperature, conductivity = model(place)
        first = slope_of(temperature, place)
        flux = conductivity * first
        second = slope_of(flux, place, kept=fault != "derivative without a graph")
        residual = (second + HEAT) / HEAT
        equation = residual.square().mean()
        found = model(sensor)[0]
        wanted = measured.squeeze(1) if fault == "measurements broadcast" else measured
        data = (found - wanted).square().mean() + model(ends)[0].square().mean()
        share = 0.0 if step < measured_first else 1.0
        loss = (weight * data + share * equation) * times
        loss.backward()
        optimizer.step()
        scheduler.step()
    with torch.no_grad():
        return explained(model(x)[1].log(), k.log())


CASES = cases(
    "found conductivity",
    train,
    {
        "plain": {},
        "fixed points, constant rate": {"fixed_points": True, "schedule": "constant", "rate": 3e-3},
        "twelve points, warm-up": {"points": 12, "schedule": "warmup"},
        "measurements first": {"measured_first": 600, "steps": 2800},
        "loss x 10000": {"times": 1e4},
    },
    {
        "relu": ("no-skill no-gradient dead", {"activation": nn.ReLU}),
        "derivative without a graph": (
            "no-gradient no-skill",
            {"fault": "derivative without a graph"},
        ),
        "measurements broadcast": ("broadcast no-skill", {"fault": "measurements broadcast"}),
        "only temperature trains": ("unbound no-skill", {"fault": "only temperature trains"}),
        "places in millimetres": ("inputs saturated no-skill", {"scale": 1000.0}),
    },
)
