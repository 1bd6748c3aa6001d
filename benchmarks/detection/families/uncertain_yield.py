"""The yield of fields and how sure one may be of it: mean and variance, by an ensemble of networks.

Weather and soil decide the yield, and dry years make it more variable. The members of
the ensemble are trained one after the other. The skill is one less the negative log likelihood's
excess over the true one's, as a share of that of a normal distribution without inputs.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn

from benchmarks.detection.case import cases

COLUMNS = 6


def fields(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Inputs, yields in tonnes, and the true mean and deviation of each."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, COLUMNS, generator=draw)
    rain, warmth, soil, slope = x[:, :4].T
    mean = 5 + 2 * torch.sin(1.5 * rain) + warmth * soil - 0.5 * slope**2
    deviation = 0.15 + 0.6 * torch.sigmoid(-2 * rain - warmth)
    y = mean + deviation * torch.randn(count, generator=draw)
    return x, y, mean, deviation


class MeanAndVariance(nn.Module):
    def __init__(self, apart: bool, dropout: float, weight_norm: bool) -> None:
        super().__init__()
        wrap: Any = nn.utils.parametrizations.weight_norm if weight_norm else lambda layer: layer
        self.body = nn.Sequential(
            wrap(nn.Linear(COLUMNS, 64)), nn.SiLU(), nn.Dropout(dropout),
            wrap(nn.Linear(64, 64)), nn.SiLU(),
        )  # fmt: skip
        self.mean = nn.Linear(64, 1)
        self.spread = nn.Sequential(nn.Linear(COLUMNS if apart else 64, 32), nn.Tanh())
        self.leave = nn.Linear(32, 1)
        nn.init.zeros_(self.leave.weight)
        self.apart = apart

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.body(x)
        return self.mean(h).squeeze(1), self.leave(self.spread(x if self.apart else h)).squeeze(1)


def likelihood(mean: Tensor, raw: Tensor, y: Tensor, kind: str) -> Tensor:
    """The negative log likelihood; ``raw`` is a logarithm of the variance, or goes to softplus."""
    if kind == "by hand":
        return (0.5 * (raw + (y - mean) ** 2 * torch.exp(-raw))).mean()
    if kind == "no exponential":
        return (0.5 * (raw.clamp(min=1e-6).log() + (y - mean) ** 2 / raw.clamp(min=1e-6))).mean()
    variance = F.softplus(raw) + 1e-4
    if kind == "full":
        return F.gaussian_nll_loss(mean, y, variance, full=True, reduction="sum")
    if kind == "distribution":
        return -torch.distributions.Normal(mean, variance.sqrt()).log_prob(y).mean()
    if kind == "variance weighs":
        each = F.gaussian_nll_loss(mean, y, variance, reduction="none")
        return (each * variance.detach() ** 0.5).mean()
    return F.gaussian_nll_loss(mean, y, variance)


def train(
    seed: int, hook: Any, loss: str = "softplus", members: int = 2, steps: int = 1100,
    rate: float = 2e-3, apart: bool = False, dropout: float = 0.0, weight_norm: bool = False,
    warm: int = 0, decay: float = 0.0,
    count: int = 3000, average: float = 0.0, attack: float = 0.0, schedule: str = "",
    batch: int = 64, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, y, _, _ = fields(count, seed + 500)
    held_x, held_y, _, _ = fields(400, 501)
    test_x, test_y, true_mean, true_deviation = fields(3000, 502)
    middle, size = y.mean(), y.std()
    target = (y - middle) / size
    if fault == "yields in a column":
        target = target[:, None]
    found = []
    for member in range(members):
        torch.manual_seed(1000 * seed + member)
        net = MeanAndVariance(apart, dropout, weight_norm)
        hook.torch(net)
        optimizer = torch.optim.AdamW(net.parameters(), rate, weight_decay=decay)
        rates: Any = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
        if schedule == "one cycle":
            rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3 * rate, steps)
        kept = torch.optim.swa_utils.AveragedModel(
            net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(average)
        )
        rows = torch.randint(count, (count,)) if members > 2 else torch.arange(count)
        for step in range(steps):
            chosen = rows[torch.randint(count, (batch,))]
            inputs = x[chosen]
            if attack:  # Adversarial samples smooth what the ensemble predicts
                inputs = inputs.clone().requires_grad_()
                harm = likelihood(*net(inputs), target[chosen], loss)
                (slope,) = torch.autograd.grad(harm, inputs)
                inputs = (inputs + attack * slope.sign()).detach()
            mean, raw = net(inputs)
            error = likelihood(mean, raw, target[chosen], loss)
            if step < warm:
                error = F.mse_loss(mean, target[chosen])
            optimizer.zero_grad()
            error.backward()
            optimizer.step()
            rates.step()
            if average:
                kept.update_parameters(net)
            if step % 250 == 249:
                net.eval()
                with torch.no_grad():
                    likelihood(*net(held_x), (held_y - middle) / size, loss)
                net.train()
        final: Any = kept if average else net
        final.eval()
        with torch.no_grad():
            mean, raw = final(test_x)
        variance = raw.exp() if loss == "by hand" else F.softplus(raw) + 1e-4
        if loss == "no exponential":
            variance = raw.clamp(min=1e-6)
        found.append((mean * size + middle, variance * size**2))
    mean = torch.stack([m for m, _ in found]).mean(0)
    variance = torch.stack([v + m**2 for m, v in found]).mean(0) - mean**2

    def cost(mean: Tensor, variance: Tensor) -> float:
        return float((0.5 * (variance.log() + (test_y - mean) ** 2 / variance)).mean())

    best = cost(true_mean, true_deviation**2)
    guess = cost(test_y.mean(), test_y.var())
    skill = 1 - (cost(mean, variance) - best) / (guess - best)
    return max(skill, -1.0) if math.isfinite(skill) else math.nan


CASES = cases(
    "uncertain yield",
    train,
    {
        "plain": {},
        "likelihood by hand": {"loss": "by hand", "rate": 1e-3},
        "summed, with its constant": {"loss": "full"},
        "five members": {"loss": "distribution", "members": 5, "steps": 450, "rate": 4e-3},
        "weighted by the variance": {"loss": "variance weighs"},
        "squared error first": {"warm": 300},
        "one cycle, weight norm": {"weight_norm": True, "schedule": "one cycle", "rate": 1e-3},
        "average of weights, decay": {"average": 0.99, "decay": 0.05},
        "adversarial samples": {"attack": 0.01, "steps": 1000},
    },
    {
        "yields in a column": ("broadcast no-skill", {"fault": "yields in a column"}),
        "few fields": ("overfit", {"count": 60}),
    },
)
