"""Compressed pictures: an autoencoder whose loss is a rate and a distortion.

Noise stands for rounding in training; a learned distribution of each channel says how many bits a
rounded value costs. Pictures are smooth, with a wave and a spot. The skill is one less the loss of
rounded values on other pictures, as a share of that of sending nothing but the mean.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIDE = 16


def pictures(count: int, seed: int) -> Tensor:
    """Grey pictures (count, 1, SIDE, SIDE) from 0 to 1: a slope, a wave and a spot."""
    draw = torch.Generator().manual_seed(seed)
    of = torch.rand(8, count, 1, 1, generator=draw)
    place = torch.linspace(-1, 1, SIDE)
    down, across = torch.meshgrid(place, place, indexing="ij")
    slope = (of[0] - 0.5) * across + (of[1] - 0.5) * down
    turn = math.pi * of[2]
    wave = 0.5 * torch.sin(5 * (turn.cos() * across + turn.sin() * down) + 6.28 * of[3])
    spot = (-((across - of[4] + 0.5) ** 2 + (down - of[5] + 0.5) ** 2) / 0.15).exp()
    picture = slope + wave + 1.5 * (of[6] - 0.5).sign() * spot
    picture = picture + 0.03 * torch.randn(picture.shape, generator=draw)
    return (0.5 + picture / 4).clamp(0, 1)[:, None]


class Codec(nn.Module):
    def __init__(self, width: int, channels: int, bounded: bool, begins: float) -> None:
        super().__init__()
        self.bounded = bounded
        self.encoder = nn.Sequential(
            nn.Conv2d(1, width, 4, 2, 1), nn.LeakyReLU(0.1),
            nn.Conv2d(width, width, 4, 2, 1), nn.LeakyReLU(0.1),
            nn.Conv2d(width, channels, 3, 1, 1),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Conv2d(channels, width, 3, 1, 1), nn.LeakyReLU(0.1),
            nn.ConvTranspose2d(width, width, 4, 2, 1), nn.LeakyReLU(0.1),
            nn.ConvTranspose2d(width, 1, 4, 2, 1),
        )  # fmt: skip
        self.spread = nn.Parameter(torch.full((channels, 1, 1), begins))
        self.middle = nn.Parameter(torch.zeros(channels, 1, 1))
        self.rounding = "noise"

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.encoder(x - 0.5) * 8
        if not self.training or self.rounding == "round":
            y = y.round()
        elif self.rounding == "straight through":
            y = y + (y.round() - y).detach()
        else:
            y = y + torch.rand_like(y) - 0.5
        wide = self.spread.exp()
        upper = torch.sigmoid((y + 0.5 - self.middle) / wide)
        lower = torch.sigmoid((y - 0.5 - self.middle) / wide)
        chance = upper - lower
        chance = chance.clamp(min=1e-6) if self.bounded else chance
        return self.decoder(y / 8) + 0.5, -chance.log2().sum((1, 2, 3))


def train(
    seed: int, hook: Any, rate: float = 3e-3, steps: int = 900, batch: int = 16, width: int = 24,
    channels: int = 6, rounding: str = "noise", share: float = 2e-3,
    optimizer: str = "adam", rate_later: int = 0, clip: float = 0.0, begins: float = 0.0,
    summed: bool = False, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, held, test = (pictures(n, seed + 31 * i) for i, n in enumerate((2000, 128, 400)))
    model = Codec(width, channels, fault != "logarithm without a bound", begins)
    model.rounding = rounding
    hook.torch(model)
    entropy = [model.spread, model.middle]
    chosen = [*model.encoder.parameters(), *model.decoder.parameters()]
    if fault != "distribution in no optimizer":
        chosen += entropy
    kinds: Any = {"adam": torch.optim.Adam, "radam": torch.optim.RAdam}
    stepper = kinds[optimizer](chosen, lr=rate)
    falls = torch.optim.lr_scheduler.MultiStepLR(stepper, [int(0.8 * steps)], 0.2)
    if fault == "divided twice in evaluation":
        held, test = held / 255, test / 255

    def costs(seen: Tensor, weight: float) -> Tensor:
        rebuilt, bits = model(seen)
        if fault == "bits of all pictures":
            return F.mse_loss(rebuilt, seen) * 100 + weight * bits.sum()
        distortion = F.mse_loss(rebuilt, seen) * 100
        return (distortion + weight * bits.mean()) * (SIDE * SIDE if summed else 1)

    order = torch.randperm(len(x))
    for step in range(steps):
        rows = order[torch.arange(step * batch, (step + 1) * batch) % len(x)]
        model.train()
        loss = costs(x[rows], share * (step >= rate_later))
        stepper.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        stepper.step()
        falls.step()
        if step % 150 == 149:
            model.eval()
            with torch.no_grad():
                costs(held, share)
    model.eval()
    with torch.no_grad():
        rebuilt, bits = model(test)
        spoilt = ((rebuilt - test) ** 2).mean() * 100 + 2e-3 * bits.mean()
    return 1 - float(spoilt / (100 * test.var()))


CASES = cases(
    "learned codec",
    train,
    {
        "plain": {},
        "straight through": {"rounding": "straight through"},
        "rate comes later": {"rate_later": 150, "steps": 1100},
        "summed over pixels, clipped": {"summed": True, "clip": 1.0},
        "RAdam": {"optimizer": "radam", "steps": 1300},
    },
    {
        "rounded in training": ("no-gradient slow", {"rounding": "round"}),
        "logarithm without a bound": (
            "not-finite",
            {"fault": "logarithm without a bound", "begins": -3.0},
        ),
        "bits of all pictures": ("collapse no-skill", {"fault": "bits of all pictures"}),
        "distribution in no optimizer": (
            "unbound slow collapse",
            {"fault": "distribution in no optimizer", "begins": 3.0},
        ),
        "divided twice in evaluation": ("inputs overfit", {"fault": "divided twice in evaluation"}),
    },
)
