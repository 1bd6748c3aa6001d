"""A Gaussian process of a well's yield; Adam learns its length scales on the marginal likelihood.

Ten measures are known of each well, of which four matter, each at a scale of its own. The skill is
the share of variance that the posterior's mean explains in a second set; none is looked at before.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, explained, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

MEASURES = 10


def wells(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Measures in their units (N, 10), and the yield (N,)."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.rand(count, MEASURES, generator=draw, dtype=torch.float64) * 2 - 1
    y = torch.sin(4 * x[:, 0]) + 1.2 * x[:, 1] * x[:, 2] + torch.cos(3 * x[:, 3]) + 0.5 * x[:, 1]
    y = y + 0.1 * torch.randn(count, generator=draw, dtype=torch.float64)
    unit = torch.logspace(0, 4, MEASURES, dtype=torch.float64)
    return (x + 2) * unit, 350 + 80 * y


class Process(nn.Module):
    """The covariance of wells, with what is learned of it."""

    def __init__(self, kind: str, start: float, noise: float, positive: bool) -> None:
        super().__init__()
        self.kind, self.positive = kind, positive
        both = {"dtype": torch.float64}
        self.length = nn.Parameter(torch.full((MEASURES,), self.raw(start), **both))
        self.size = nn.Parameter(torch.tensor(self.raw(1.0), **both))
        self.noise = nn.Parameter(torch.tensor(self.raw(noise), **both))
        self.mean = nn.Parameter(torch.zeros((), **both))

    def raw(self, value: float) -> float:
        return math.log(value) if self.positive else value

    def value(self, raw: Tensor) -> Tensor:
        return raw.exp() if self.positive else raw

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        length = self.value(self.length)
        if self.kind == "numbers":  # made a plain tensor again, for the units' sake
            length = torch.tensor(length.tolist(), dtype=torch.float64)
        apart = (a / length)[:, None] - (b / length)[None]
        squares = apart.square().sum(-1)
        if self.kind == "rational":
            return self.value(self.size) / (1 + squares / 4) ** 2
        if self.kind == "Matern":
            far = (3 * squares + 1e-12).sqrt()
            return self.value(self.size) * (1 + far) * (-far).exp()
        return self.value(self.size) * (-squares / 2).exp()

    def factor(self, x: Tensor) -> Tensor:
        noise = self.value(self.noise) * torch.eye(len(x), dtype=torch.float64)
        return torch.linalg.cholesky(self(x, x) + noise)


def lost(process: Process, x: Tensor, y: Tensor, kind: str, per_well: bool) -> Tensor:
    """The marginal likelihood's logarithm, turned."""
    rest = y - process.mean
    if kind == "inverse":
        noise = process.value(process.noise) * torch.eye(len(x), dtype=torch.float64)
        inverse = torch.linalg.inv(process(x, x) + noise)
        return (rest @ inverse @ rest - torch.logdet(inverse)) / 2
    lower = process.factor(x)
    fit = rest @ torch.cholesky_solve(rest[:, None], lower).squeeze(1) / 2
    volume = lower.diagonal().log().sum()
    if kind == "variances alone":
        variance = process(x, x).diagonal() + process.value(process.noise)
        total = (rest**2 / variance + variance.log()).sum() / 2
    elif kind == "determinant turned":
        total = fit - volume
    else:
        total = fit + volume + len(x) * math.log(2 * math.pi) / 2
    return total / len(x) if per_well else total


def train(
    seed: int, hook: Any, kernel: str = "squares", loss: str = "cholesky", rate: float = 0.05,
    schedule: str = "constant", steps: int = 400, start: float = 1.0, noise: float = 0.1,
    positive: bool = True, per_well: bool = False, some: int = 0, scaled: bool = True,
) -> float:  # fmt: skip
    begin(seed)
    x, y = wells(140, seed + 10100)
    test_x, test_y = wells(600, seed + 10101)
    if scaled:
        mean, spread = x.mean(0), x.std(0)
        x, test_x = (x - mean) / spread, (test_x - mean) / spread
    centre, size = y.mean(), y.std()
    y = (y - centre) / size
    process = Process(kernel, start, noise, positive)
    hook.torch(process)
    optimizer = torch.optim.Adam(process.parameters(), lr=rate)
    scheduler = scheduler_of(optimizer, schedule, steps)
    for _ in range(steps):
        rows = torch.randperm(len(x))[:some] if some else torch.arange(len(x))
        value = lost(process, x[rows], y[rows], loss, per_well)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        scheduler.step()
    process.eval()
    with torch.no_grad():
        alpha = torch.cholesky_solve((y - process.mean)[:, None], process.factor(x))
        found = process.mean + (process(test_x, x) @ alpha).squeeze(1)
    return explained(found * size + centre, test_y)


CASES = cases(
    "marginal likelihood",
    train,
    {
        "plain": {},
        "likelihood per well": {"per_well": True},
        "determinant of the inverse": {"loss": "inverse"},
        "parts of the wells": {"some": 90, "rate": 0.03, "steps": 700},
        "long scales at first, one cycle": {"start": 6.0, "schedule": "one cycle", "rate": 0.15},
        "rational kernel": {"kernel": "rational"},
    },
    {
        "variances alone": ("no-gradient unbound no-skill", {"loss": "variances alone"}),
        "determinant turned": ("not-finite worse fast no-skill", {"loss": "determinant turned"}),
        "scales as numbers": ("no-gradient unbound no-skill", {"kernel": "numbers"}),
        "measures in their units": (
            "inputs no-gradient no-skill dead saturated", {"scaled": False},
        ),
        "noise below zero": ("not-finite fast", {"positive": False, "noise": 0.01}),
    },
)  # fmt: skip
