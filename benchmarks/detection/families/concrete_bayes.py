"""Strength of concrete from its mixture, by Bayes by backprop: each pass draws its weights.

The loss is the evidence lower bound, turned and written by hand. The skill is the share of variance
that the mean of twenty draws explains in a third set.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, explained
from torch import Tensor, nn

from benchmarks.detection.case import cases


class BayesLinear(nn.Module):
    """Each weight has a mean and a spread, and is drawn again in each pass."""

    def __init__(self, inputs: int, units: int, drawn: str, start: float) -> None:
        super().__init__()
        self.drawn = drawn
        self.mean = nn.Parameter(torch.randn(inputs + 1, units) / math.sqrt(inputs))
        self.rho = nn.Parameter(torch.full((inputs + 1, units), start))

    def spread(self) -> Tensor:
        return self.rho if self.drawn == "rho as spread" else F.softplus(self.rho)

    def forward(self, x: Tensor) -> Tensor:
        x, spread = F.pad(x, (0, 1), value=1.0), self.spread()
        if self.drawn == "activations":
            deviation = (x**2 @ spread**2 + 1e-10).sqrt()
            return x @ self.mean + deviation * torch.randn_like(deviation)
        if self.drawn == "sample":
            return x @ torch.distributions.Normal(self.mean, spread).sample()
        return x @ (self.mean + spread * torch.randn_like(spread))

    def divergence(self, prior: str) -> Tensor:
        spread = self.spread()
        if prior == "mixture":
            weight = self.mean + spread * torch.randn_like(spread)
            wide, narrow = (torch.distributions.Normal(0.0, s).log_prob(weight) for s in (1, 0.1))
            both = torch.logaddexp(wide, narrow) - math.log(2)
            return (torch.distributions.Normal(self.mean, spread).log_prob(weight) - both).sum()
        return (0.5 * (spread**2 + self.mean**2 - 1) - spread.log()).sum()


class Net(nn.Module):
    def __init__(self, drawn: str, start: float) -> None:
        super().__init__()
        sizes = [(8, 32), (32, 32), (32, 1)]
        self.layers = nn.ModuleList(BayesLinear(a, b, drawn, start) for a, b in sizes)
        self.log_noise = nn.Parameter(torch.tensor(-0.5))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)


def mixtures(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Parts of the mixture in kg, its age in days (N, 8), and the strength in MPa (N,)."""
    draw = torch.Generator().manual_seed(seed)
    low = torch.tensor([100.0, 0.0, 0.0, 120.0, 0.0, 800.0, 600.0, 1.0])
    high = torch.tensor([540.0, 350.0, 200.0, 240.0, 30.0, 1150.0, 990.0, 180.0])
    x = low + (high - low) * torch.rand(count, 8, generator=draw) ** 1.3
    binder = x[:, 0] + 0.7 * x[:, 1] + 0.5 * x[:, 2]
    ratio = x[:, 3] * (1 - 0.008 * x[:, 4]) / binder
    strength = 95 / 7 ** (1.1 * ratio) * (0.25 + 0.16 * (x[:, 7] + 1).log())
    return x, strength + 2 * torch.randn(count, generator=draw)


def train(
    seed: int, hook: Any, drawn: str = "weights", likelihood: str = "fixed", warmup: int = 0,
    prior: str = "normal", start: float = -4.0, draws: int = 1, rate: float = 5e-3,
    batch: int = 64, steps: int = 1500, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, y = mixtures(1200, seed + 9300)
    held_x, held_y = mixtures(300, seed + 9301)
    test_x, test_y = mixtures(1000, seed + 9302)
    mean, spread, centre, size = x.mean(0), x.std(0), y.mean(), y.std()
    x, held_x, test_x = ((part - mean) / spread for part in (x, held_x, test_x))
    y, held_y = (y - centre) / size, (held_y - centre) / size
    net = Net(drawn, start)
    hook.torch(net)
    updates = torch.optim.Adam(net.parameters(), lr=rate)

    def bound(inputs: Tensor, wanted: Tensor, share: float) -> Tensor:
        """Of the whole set, as an estimate from a part, per sample."""
        total = torch.zeros(())
        for _ in range(draws):
            found = net(inputs)
            found = found if fault == "column against row" else found.squeeze(1)
            noise = torch.tensor(math.log(0.15)) if likelihood == "fixed" else net.log_noise
            sign = -1 if likelihood == "logarithm turned" else 1
            total = total + ((wanted - found) ** 2 / (2 * noise.exp() ** 2) + sign * noise).mean()
        divergence = sum(layer.divergence(prior) for layer in net.layers)
        return total / draws + share * divergence / len(x)

    for step in range(steps):
        rows = torch.randint(len(x), (batch,))
        share = len(x) if fault == "divergence times samples" else min(1.0, step / max(warmup, 1))
        loss = bound(x[rows], y[rows], share)
        updates.zero_grad()
        loss.backward()
        updates.step()
        if step % 250 == 249:
            net.eval()
            with torch.no_grad():
                bound(held_x, held_y, share)
            net.train()
    net.eval()
    with torch.no_grad():
        found = torch.stack([net(test_x).squeeze(1) for _ in range(20)]).mean(0)
    return explained(found * size + centre, test_y)


CASES = cases(
    "concrete by Bayes",
    train,
    {
        "plain": {},
        "activations drawn instead": {"drawn": "activations"},
        "noise learned, loss below zero": {"likelihood": "learned"},
        "divergence comes slowly": {"warmup": 1000},
        "prior of two parts": {"prior": "mixture"},
        "three draws, few steps": {"draws": 3, "steps": 700, "rate": 1e-2},
    },
    {
        "divergence times samples": ("collapse no-skill", {"fault": "divergence times samples"}),
        "draws without gradient": ("no-gradient unbound no-skill", {"drawn": "sample"}),
        "spread without softplus": ("not-finite no-skill", {"drawn": "rho as spread"}),
        "column against row": ("broadcast no-skill", {"fault": "column against row"}),
        "logarithm turned": ("worse fast not-finite no-skill", {"likelihood": "logarithm turned"}),
    },
)  # fmt: skip
