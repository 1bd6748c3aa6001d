"""Flooded fields in radar pictures: a small U-Net with batch normalisation marks the water.

Water and roads are dark in the radar, but roads lie high. A picture has two channels of radar in
decibels and one of heights in metres. The skill is the overlap (IoU) of water in other pictures,
above that of a map that is all water.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, normal, optimizer_of, scheduler_of
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.detection.case import cases

SIDE = 24
MEAN = torch.tensor([-12.0, -18.0, 55.0]).reshape(1, 3, 1, 1)
DEVIATION = torch.tensor([4.0, 4.0, 20.0]).reshape(1, 3, 1, 1)


def scenes(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Radar and height, and a mask of water that is 0 or 255 as in the files."""
    relief = functional.interpolate(normal(count, 1, 5, 5, seed=seed), SIDE, mode="bicubic")[:, 0]
    relief = relief + 0.5 * normal(count, 1, 1, seed=seed + 1)
    water = relief < -0.35
    where = torch.arange(SIDE)
    line = (SIDE * torch.rand(count, 1, generator=torch.Generator().manual_seed(seed))).long()
    road = ((where - line).abs() <= 2)[:, None, :] & (relief > -0.1)
    dark = (water | road).float()
    vv = -9 - 7 * dark + 2.5 * normal(count, SIDE, SIDE, seed=seed + 2)
    vh = -15 - 6 * dark + 2.5 * normal(count, SIDE, SIDE, seed=seed + 3)
    metres = 55 + 20 * relief + 16 * normal(count, SIDE, SIDE, seed=seed + 4)
    return torch.stack([vv, vh, metres], 1), 255 * water.float()


def double_conv(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
    )  # fmt: skip


class UNet(nn.Module):
    def __init__(self, squashed: bool = False) -> None:
        super().__init__()
        self.squashed = squashed
        self.down1, self.down2, self.bottom = (
            double_conv(3, 8),
            double_conv(8, 12),
            double_conv(12, 16),
        )
        self.up2, self.up1 = double_conv(16 + 12, 12), double_conv(12 + 8, 8)
        self.head = nn.Conv2d(8, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = self.down1(x)
        second = self.down2(functional.max_pool2d(first, 2))
        third = self.bottom(functional.max_pool2d(second, 2))
        back = self.up2(torch.cat([functional.interpolate(third, scale_factor=2), second], 1))
        back = self.up1(torch.cat([functional.interpolate(back, scale_factor=2), first], 1))
        answer: Tensor = self.head(back)
        return answer.sigmoid() if self.squashed else answer


def dice_loss(chance: Tensor, mask: Tensor) -> Tensor:
    both = (chance * mask).sum((1, 2, 3))
    return 1 - ((2 * both + 1) / (chance.sum((1, 2, 3)) + mask.sum((1, 2, 3)) + 1)).mean()


def loss_of(logits: Tensor, mask: Tensor, kind: str) -> Tensor:
    if kind == "dice":
        return dice_loss(logits.sigmoid(), mask)
    if kind == "dice not subtracted from one":
        return 1 - dice_loss(logits.sigmoid(), mask)
    if kind == "by hand, no channel":  # (N, 1, H, W) against (N, H, W)
        mask = mask[:, 0]
        return (functional.softplus(logits) - logits * mask).mean()
    if kind == "sum":
        return functional.binary_cross_entropy_with_logits(logits, mask, reduction="sum")
    weight = torch.tensor(2.0) if kind == "water weighs more" else None
    return functional.binary_cross_entropy_with_logits(logits, mask, pos_weight=weight)


def batches(x: Tensor, y: Tensor, size: int, flip: str) -> Iterator[tuple[Tensor, Tensor]]:
    for rows in torch.randperm(len(x)).split(size):
        picture, mask = x[rows], y[rows]
        for axis in (2, 3):
            if torch.rand(()) < 0.5:
                picture = picture.flip(axis)
                mask = mask if flip == "picture alone" else mask.flip(axis)
        yield picture, mask


def overlap(model: nn.Module, x: Tensor, y: Tensor) -> float:
    model.eval()
    with torch.no_grad():
        logits = model(x)
    found, water = logits > 0, y > 0.5
    both = (found & water).sum().item() / max(1, (found | water).sum().item())
    return both if bool(logits.isfinite().all()) else math.nan


def train(
    seed: int, hook: Any, loss: str = "", epochs: int = 12, rate: float = 3e-3, batch: int = 8,
    optimizer: str = "adam", schedule: str = "constant", count: int = 320, flip: str = "both",
    average: float = 0.0, accumulate: int = 1, frozen_epochs: int = 0, evaluated: bool = True,
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, y = scenes(count, 10 * seed + 7000)
    held_x, held_y = scenes(96, 10 * seed + 8000)
    x, y, held_y = (x - MEAN) / DEVIATION, y[:, None] / 255, held_y[:, None] / 255
    if fault != "held-out pictures in decibels":
        held_x = (held_x - MEAN) / DEVIATION
    if fault == "masks up to 255":
        y = 255 * y
    model = UNet(squashed=fault == "sigmoid twice")
    smooth = copy.deepcopy(model)
    hook.torch(model)
    steering = optimizer_of(optimizer, model.parameters(), rate)
    scheduler = scheduler_of(steering, schedule, epochs * math.ceil(len(x) / batch / accumulate))
    number = 0
    for epoch in range(epochs):
        model.train()
        model.down1.requires_grad_(epoch >= frozen_epochs)
        for picture, mask in batches(x, y, batch, flip):
            error = loss_of(model(picture), mask, loss) / accumulate
            error.backward()
            number += 1
            if number % accumulate == 0:
                steering.step()
                scheduler.step()
                if fault != "gradients kept":
                    steering.zero_grad()
            if average:
                with torch.no_grad():
                    for mine, new in zip(
                        smooth.state_dict().values(), model.state_dict().values(), strict=True
                    ):
                        mine.copy_(average * mine + (1 - average) * new)
        if evaluated:
            overlap(model, held_x, held_y)
            with torch.no_grad():
                loss_of(model(held_x), held_y, loss)
    least = held_y.mean().item()
    return (overlap(smooth if average else model, held_x, held_y) - least) / (1 - least)


CASES = cases(
    "flooded fields",
    train,
    {
        "plain": {},
        "Dice alone": {"loss": "dice"},
        "sum over pixels": {"loss": "sum"},
        "momentum and one cycle": {"optimizer": "momentum", "rate": 0.1, "schedule": "one cycle"},
        "averaged weights, not evaluated": {"average": 0.95, "evaluated": False},
        "four pictures, accumulated": {"batch": 4, "accumulate": 4, "rate": 5e-3},
        "first layers fixed for a while": {"frozen_epochs": 3},
    },
    {
        "sigmoid twice": ("probabilities range", {"fault": "sigmoid twice"}),
        "loss without the channel": ("broadcast no-skill", {"loss": "by hand, no channel"}),
        "masks up to 255": ("range worse fast", {"fault": "masks up to 255"}),
        "picture flipped, mask not": ("no-skill slow", {"flip": "picture alone"}),
        "held-out pictures in decibels": ("inputs", {"fault": "held-out pictures in decibels"}),
        "Dice not subtracted from one": (
            "no-skill worse",
            {"loss": "dice not subtracted from one"},
        ),
    },
)
