"""How many birds are seen at a site: many zeros, by a zero-inflated Poisson likelihood by hand.

One body and two heads: whether the species lives at the site at all, and how many are seen in an
hour if it does. Sites were watched for different times (an offset of the logarithm). The skill is
the share of the variance of the true expectation that is explained, of other sites.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, explained, normal, optimizer_of, scheduler_of
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from benchmarks.detection.case import cases

CENTRE = torch.tensor([640.0, 12.0, 1013.0, 0.4, 9.0, 0.2, 3.0, 55.0])
SPREAD = torch.tensor([310.0, 6.0, 9.0, 0.25, 3.0, 0.1, 1.5, 18.0])


def sites(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Measures in their units, hours watched, birds seen, and how many are to be expected."""
    z = normal(count, len(CENTRE), seed=seed)
    lives = (2.0 * z[:, 0] - 1.2 * z[:, 3] * z[:, 1] + 0.3).sigmoid()
    rate = (0.9 + 0.5 * torch.tanh(z[:, 1]) - 0.4 * z[:, 4].abs() + 0.4 * z[:, 5] * z[:, 6]).exp()
    draw = torch.Generator().manual_seed(seed + 1)
    hours = 0.5 + 2 * torch.rand(count, generator=draw)
    there = (torch.rand(count, generator=draw) < lives).float()
    seen = torch.poisson(rate * hours, generator=draw) * there
    return CENTRE + SPREAD * z, hours, seen, lives * rate * hours


class Sightings(nn.Module):
    def __init__(self, width: int = 48, dropout: float = 0.0) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(len(CENTRE), width), nn.SiLU(), nn.Dropout(dropout),
            nn.Linear(width, width), nn.SiLU(),
        )  # fmt: skip
        self.lives = nn.Linear(width, 1)
        self.rate = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.body(x)
        return self.lives(h).squeeze(-1), self.rate(h).squeeze(-1)


def zip_nll(logit: Tensor, log_rate: Tensor, seen: Tensor) -> Tensor:
    """The negative log-likelihood of each site."""
    rate = log_rate.exp()
    none = torch.logaddexp(logsigmoid(-logit), logsigmoid(logit) - rate)
    some = logsigmoid(logit) + seen * log_rate - rate - torch.lgamma(seen + 1)
    return -torch.where(seen == 0, none, some)


def train(
    seed: int, hook: Any, steps: int = 3000, rate: float = 2e-3, batch: int = 64, count: int = 4000,
    optimizer: str = "adam", schedule: str = "cosine", decay: float = 0.0, clip: float = 0.0,
    scale: float = 1.0, reduction: str = "mean", bfloat: bool = False, average: float = 0.0,
    frozen_until: int = 0, evaluate_every: int = 250, dropout: float = 0.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, hours, seen, _ = sites(count, 7 * seed + 100)
    (vx, vhours, vseen, _), (tx, thours, _, truth) = (
        sites(n, 7 * seed + 100 + n) for n in (800, 2000)
    )
    mean, deviation = x.mean(0), x.std(0)
    if fault != "measures in their units":
        x = (x - mean) / deviation
        if fault != "normalised in training only":
            vx, tx = (vx - mean) / deviation, (tx - mean) / deviation
    if fault == "table of sightings sorted":
        seen = seen.sort().values
    model = Sightings(dropout=dropout)
    hook.torch(model)
    steering = optimizer_of(optimizer, model.parameters(), rate, decay)
    if fault == "body made again":
        model.body = Sightings().body
        model.lives, model.rate = Sightings().lives, Sightings().rate
    scheduler = scheduler_of(steering, schedule, steps)
    averaged = copy.deepcopy(model) if average else model
    for step in range(steps):
        model.train()
        model.body.requires_grad_(step >= frozen_until)
        rows = torch.randint(len(x), (min(batch, len(x)),))
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat):
            logit, log_rate = model(x[rows])
        logit, log_rate = logit.float(), log_rate.float() + hours[rows].log()
        target = seen[rows]
        if fault == "sightings as a column":
            target = target[:, None]
        if fault == "exponential twice":
            log_rate = log_rate.exp()
        losses = zip_nll(logit, log_rate, target)
        loss = losses.sum() if reduction == "sum" else losses.mean()
        steering.zero_grad()
        (loss * scale).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        steering.step()
        scheduler.step()
        if average:
            with torch.no_grad():
                for kept, new in zip(averaged.parameters(), model.parameters(), strict=True):
                    kept.lerp_(new, 1 - average)
        if evaluate_every and (step + 1) % evaluate_every == 0:
            model.eval()
            with torch.no_grad():
                logit, log_rate = model(vx)
                zip_nll(logit, log_rate + vhours.log(), vseen).mean()
    averaged.eval()
    with torch.no_grad():
        logit, log_rate = averaged(tx)
        log_rate = log_rate.exp() if fault == "exponential twice" else log_rate
        expected = logit.sigmoid() * log_rate.exp() * thours
    return explained(expected, truth) if bool(expected.isfinite().all()) else math.nan


CASES = cases(
    "bird sightings",
    train,
    {
        "plain": {},
        "sum of a batch": {"reduction": "sum", "rate": 1e-3},
        "bfloat16": {"bfloat": True},
        "averaged weights": {"average": 0.99, "schedule": "one cycle"},
        "body frozen at first": {"frozen_until": 250},
        "clipped, warmed up": {"clip": 1.0, "schedule": "warmup", "rate": 1e-3},
        "large batches, decay, a metric never": {
            "batch": 512, "steps": 2000, "optimizer": "adamw", "decay": 0.1, "evaluate_every": 0
        },
    },
    {
        "sightings as a column": ("broadcast no-skill", {"fault": "sightings as a column"}),
        "table of sightings sorted": (
            "no-skill overfit order", {"fault": "table of sightings sorted"}
        ),
        "normalised in training only": (
            "inputs worse", {"fault": "normalised in training only"}
        ),
        "measures in their units": (
            "inputs no-skill worse saturated",
            {"fault": "measures in their units", "optimizer": "momentum", "rate": 1e-3},
        ),
        "body made again": ("unbound no-skill", {"fault": "body made again"}),
        "rate of 0.5": ("fast not-finite no-skill", {"rate": 0.5}),
        "eighty sites": ("overfit", {"count": 80}),
    },
)  # fmt: skip
