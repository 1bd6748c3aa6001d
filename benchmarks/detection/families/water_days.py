"""Days of water drawn by households, hour by hour: a variational autoencoder.

A day has litres in 24 hours: showers in the morning, cooking, washing, the garden at night. The
model sees the square roots, scaled. The skill is the lower of two: the share of the variance that
reconstructions explain, and how near sampled days lie to other days, by random projections.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, explained, normal, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

HOURS, LATENT = 24, 4


def days(count: int, seed: int) -> Tensor:
    """Litres (N, HOURS)."""
    draw = torch.Generator().manual_seed(seed)
    u, hour = torch.rand(count, 5, 1, generator=draw), torch.arange(HOURS)
    riser = 5.5 + 3.5 * u[:, 0]  # late risers shower less and cook later
    people = 1 + 4 * u[:, 1]
    shower = 22 * people * (1 - 0.4 * u[:, 0]) * torch.exp(-((hour - riser) ** 2) / 1.6)
    cooking = 9 * people * torch.exp(-((hour - 12 - 0.8 * riser) ** 2) / 5)
    garden = 60 * (u[:, 2] < 0.4) * u[:, 3] * torch.exp(-((hour - 21) ** 2) / 1.2)
    litres = 1.5 + shower + cooking + garden
    return litres * (0.15 * torch.randn(count, HOURS, generator=draw)).exp()


class DayVae(nn.Module):
    """Encoder and decoder as perceptrons; the hidden code is normal."""

    def __init__(self, last: str, norm: bool, fault: str) -> None:
        super().__init__()
        act: nn.Module = nn.ReLU()
        self.encoder = nn.Sequential(
            nn.Linear(HOURS, 64), nn.LayerNorm(64) if norm else nn.Identity(), act,
            nn.Linear(64, 2 * LATENT),
        )  # fmt: skip
        self.decoder = nn.Sequential(nn.Linear(LATENT, 64), act, nn.Linear(64, HOURS))
        if last == "sigmoid":
            self.decoder.append(nn.Sigmoid())
        self.fault = fault

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mu, logvar = self.encoder(x).chunk(2, 1)
        std = logvar.exp() if self.fault == "log-variance taken for spread" else (logvar / 2).exp()
        z = mu + std * torch.randn_like(std)
        if self.fault == "code detached":
            z = z.detach()
        return self.decoder(z), mu, logvar


def elbo(model: DayVae, x: Tensor, beta: float, kind: str) -> Tensor:
    """Squares and divergence, summed over hours and codes, averaged over days."""
    found, mu, logvar = model(x)
    if kind == "hours averaged":
        squares = F.mse_loss(found, x)
    elif kind == "huber":
        squares = 0.5 * F.smooth_l1_loss(found, x, reduction="sum", beta=0.5) / (len(x) * 0.05)
    else:
        squares = 0.5 * F.mse_loss(found, x, reduction="sum") / (len(x) * 0.05)
    divergence = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(1).mean()
    if kind == "sign of the divergence":
        divergence = -divergence
    return squares + beta * divergence


def sliced(a: Tensor, b: Tensor, directions: Tensor) -> float:
    """The mean distance of sorted projections."""
    return ((a @ directions).sort(0).values - (b @ directions).sort(0).values).abs().mean().item()


@torch.no_grad()
def skill(model: DayVae, x: Tensor) -> float:
    model.eval()
    code = model.encoder(x)[:, :LATENT]
    rebuilt = model.decoder(code)
    sampled = model.decoder(torch.randn(len(x), LATENT))
    if not bool(rebuilt.isfinite().all()) or not bool(sampled.isfinite().all()):
        return math.nan
    directions = F.normalize(normal(HOURS, 60, seed=77), dim=0)
    none = sliced(x.mean(0, keepdim=True).expand_as(x), x, directions)
    return min(explained(rebuilt, x), 1 - sliced(sampled, x, directions) / none)


def train(
    seed: int, hook: Any, steps: int = 2500, rate: float = 2e-3, batch: int = 64,
    optimizer: str = "adam", decay: float = 0.0, schedule: str = "constant", loss: str = "",
    beta: float = 1.0, rises: int = 0, last: str = "", norm: bool = False, times: float = 1.0,
    clip: float = 0.0, count: int = 3000, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    litres, held, test = days(count, 4 * seed), days(400, 4 * seed + 1), days(2000, 4 * seed + 2)
    root, held, test = litres.sqrt(), held.sqrt(), test.sqrt()
    mean, spread = root.mean(0), root.std()
    x, held, test = ((part - mean) / spread for part in (root, held, test))
    if fault == "litres as they are":
        x = litres
    model = DayVae(last, norm, fault)
    chosen = model.encoder if fault == "decoder in no optimizer" else model
    opt = optimizer_of(optimizer, chosen.parameters(), rate, decay)
    scheduler = scheduler_of(opt, schedule, steps)
    hook.torch(model)
    order = torch.randperm(count)
    for step in range(steps):
        model.train()
        at = step * batch % (count - count % batch or count)
        if at == 0:
            order = torch.randperm(count)
        weight = beta * min(1.0, step / rises) if rises else beta
        error = times * elbo(model, x[order[at : at + batch]], weight, loss)
        if fault != "gradients kept":
            opt.zero_grad()
        error.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        opt.step()
        scheduler.step()
        if step % 250 == 249:
            model.eval()
            with torch.no_grad():
                elbo(model, held, beta, loss)
    return skill(model, test)


CASES = cases(
    "water days",
    train,
    {
        "plain": {},
        "divergence comes in slowly": {"rises": 1200},
        "Huber, one cycle": {"loss": "huber", "schedule": "one cycle", "rate": 5e-3},
        "a thousandth of the loss, warm-up": {"times": 1e-3, "schedule": "warmup", "rate": 4e-3},
        "sixteen days at a time, clipped": {
            "batch": 16, "steps": 5000, "rate": 4e-3, "clip": 50.0, "schedule": "one cycle",
        },
        "layer norm, AdamW, restarts": {
            "norm": True, "optimizer": "adamw", "decay": 0.01, "schedule": "restarts", "rate": 5e-3,
            "steps": 3500,
        },
        "half the divergence, large batches": {"beta": 0.5, "batch": 500, "rate": 5e-3},
    },
    {
        "hours averaged": ("no-skill collapse", {"loss": "hours averaged"}),
        "sigmoid at the end": ("range saturated", {"last": "sigmoid"}),
        "sign of the divergence": (
            "worse fast not-finite", {"loss": "sign of the divergence"},
        ),
        "code detached": ("no-gradient no-skill collapse", {"fault": "code detached"}),
        "litres as they are": ("inputs worse overfit", {"fault": "litres as they are"}),
        "gradients kept": ("kept-gradients fast worse", {"fault": "gradients kept"}),
        "rate of 0.5": ("fast no-skill dead collapse worse", {"rate": 0.5}),
    },
)  # fmt: skip
