"""Hours until a bearing fails, by a mixture density network: a mixture of normal laws by hand.

A bearing fails early or late by one of two ways of wear, so that the law of the logarithm of hours
has two peaks. The skill is the gain of the log-likelihood over one law for all, as a share of what
knowing the law of each bearing gains.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn

from benchmarks.detection.case import cases

INPUTS, PEAKS = 8, 3
Law = tuple[Tensor, Tensor, Tensor]


def log_likelihood(law: Law, y: Tensor) -> Tensor:
    """Of y (N,) by logarithms of shares, means and logarithms of spreads (N, peaks)."""
    share, mean, spread = law
    each = -0.5 * ((y[:, None] - mean) / spread.exp()) ** 2 - spread - 0.5 * math.log(2 * math.pi)
    return torch.logsumexp(share + each, 1)


def bearings(count: int, seed: int, unit: float = 1.0) -> tuple[Tensor, Tensor, Law]:
    """Inputs (N, INPUTS), hours' logarithms times a unit (N,), and the law of each."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, INPUTS, generator=draw)
    load, speed, oil, dirt = x[:, 0], x[:, 1], x[:, 2], x[:, 3]
    late = 1.2 - 0.8 * load - 0.4 * speed * load + 0.3 * oil
    early = late - 1.8 - 0.4 * dirt
    share = torch.stack([F.logsigmoid(1.5 * dirt - oil), F.logsigmoid(oil - 1.5 * dirt)], 1)
    mean, spread = torch.stack([early, late], 1), torch.tensor([0.25, 0.35]).expand(count, 2)
    kind = (torch.rand(count, generator=draw) > share[:, 0].exp()).long()
    noise = torch.randn(count, generator=draw)
    y = mean[torch.arange(count), kind] + spread[torch.arange(count), kind] * noise
    return x, y * unit, (share, mean * unit, spread.log() + math.log(unit))


class Mixture(nn.Module):
    def __init__(self, how: str, unit: float) -> None:
        super().__init__()
        self.how, self.unit = how, unit
        self.body: Any = nn.Sequential(
            nn.Linear(INPUTS, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh()
        )
        if how == "weight norm":
            self.body[2] = nn.utils.parametrizations.weight_norm(self.body[2])
        self.heads = nn.ModuleDict(
            {name: nn.Linear(48, PEAKS) for name in ("share", "mean", "spread")}
        )
        with torch.no_grad():
            self.heads["mean"].bias.copy_(torch.linspace(-1.5, 1.5, PEAKS))

    def forward(self, x: Tensor) -> Law:
        h = self.body(x)
        mean, spread = self.heads["mean"](h), self.heads["spread"](h)
        if self.how == "softplus":
            spread = (F.softplus(spread) + 1e-3).log()
        share = self.heads["share"](h).log_softmax(1)
        return share, mean * self.unit, spread.clamp(-4, 4) + math.log(self.unit)


def objective(net: Mixture, law: Law, y: Tensor, how: str) -> Tensor:
    if how == "by distributions":
        each = torch.distributions.Normal(law[1], law[2].exp())
        shares = torch.distributions.Categorical(logits=law[0])
        mixture = torch.distributions.MixtureSameFamily(shares, each)
        return -mixture.log_prob(y).mean()
    if how == "expected peak":
        each = log_likelihood((torch.zeros_like(law[0]), law[1], law[2]), y)
        with torch.no_grad():
            peaks = -0.5 * ((y[:, None] - law[1]) / law[2].exp()) ** 2 - law[2]
            belongs = (law[0] + peaks).softmax(1)
        peaks = -0.5 * ((y[:, None] - law[1]) / law[2].exp()) ** 2 - law[2]
        return -(belongs * (law[0] + peaks)).sum(1).mean() + 0 * each.sum()
    if how == "penalties":
        spread = law[2].square().mean() + (law[0].exp().mean(0) * law[0].mean(0)).sum()
        return -log_likelihood(law, y).mean() + 2e-3 * spread
    return -log_likelihood(law, y).mean()


def train(
    seed: int, hook: Any, how: str = "", loss: str = "", updates: int = 2400, batch: int = 64,
    rate: float = 3e-3, optimizer: str = "adam", unit: float = 1.0, count: int = 5000,
    shares_from: int = 0, polish: bool = False, sums: bool = False, plan: str = "",
    spread_rate: float = 1.0, evaluated: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, y, _ = bearings(count, seed + 500, unit)
    held_x, held_y, _ = bearings(500, seed + 501, unit)
    test_x, test_y, known = bearings(3000, seed + 502, unit)
    if fault == "hours sorted apart":
        y = y.sort().values
    net = Mixture(how, unit)
    hook.torch(net)
    groups = [
        {"params": [p for name, p in net.named_parameters() if "spread" not in name]},
        {"params": net.heads["spread"].parameters(), "lr": rate * spread_rate},
    ]
    kinds: Any = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}
    steps = kinds[optimizer](groups, rate)
    plans: Any = torch.optim.lr_scheduler
    scheduler = plans.CosineAnnealingLR(steps, updates, rate / 50)
    if plan == "triangles":
        scheduler = plans.CyclicLR(steps, rate / 10, rate, 300, mode="triangular2")
    net.heads["share"].requires_grad_(shares_from == 0)
    for update in range(updates):
        if update == shares_from:
            net.heads["share"].requires_grad_(True)
        rows = torch.randint(count, (batch,))
        part = x[rows]
        error = objective(net, net(part), y[rows], loss)
        if sums:
            error = error * batch
        steps.zero_grad()
        error.backward()
        steps.step()
        scheduler.step()
        if evaluated and update % 150 == 149:
            net.eval()
            with torch.no_grad():
                objective(net, net(held_x), held_y, loss)
            net.train()
    if polish:
        last = torch.optim.LBFGS(net.parameters(), 0.5, max_iter=8, history_size=10)

        def closure() -> Tensor:
            last.zero_grad()
            error = objective(net, net(x), y, loss) + 1e-4 * sum(
                p.square().sum() for p in net.parameters()
            )
            error.backward()
            return error

        for _ in range(5):
            last.step(closure)
    net.eval()
    if fault == "inputs scaled when tested":
        test_x = (test_x - test_x.min()) / (test_x.max() - test_x.min())
    with torch.no_grad():
        found = log_likelihood(net(test_x), test_y).mean().item()
    alone = -0.5 * math.log(2 * math.pi * math.e * test_y.var().item())
    best = log_likelihood(known, test_y).mean().item()
    return max(-1.0, (found - alone) / (best - alone)) if math.isfinite(found) else math.nan


CASES = cases(
    "bearing failure",
    train,
    {
        "plain": {},
        "by torch's distributions, not evaluated": {"loss": "by distributions", "evaluated": False},
        "softplus of spreads": {"how": "softplus"},
        "weight norm, triangles of rates": {"how": "weight norm", "plan": "triangles"},
        "peaks expected": {"loss": "expected peak"},
        "penalties of spreads and shares": {"loss": "penalties"},
        "in thousands": {"unit": 1000.0},
        "shares trained later": {"shares_from": 600},
        "polished by L-BFGS": {"polish": True, "updates": 2000},
        "sums, spreads slower": {"sums": True, "spread_rate": 0.2, "optimizer": "rmsprop"},
    },
    {
        "hours sorted apart": ("no-skill overfit", {"fault": "hours sorted apart"}),
        "few bearings": ("overfit", {"count": 60}),
    },
)
