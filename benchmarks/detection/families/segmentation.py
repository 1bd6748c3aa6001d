"""A small U-shaped network marks the pixels of discs and squares in noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import LoopOptions, Split, begin, fit, outputs
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIDE, KINDS = 16, 3


def pictures(count: int, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    rows = torch.arange(SIDE).view(1, -1, 1)
    columns = torch.arange(SIDE).view(1, 1, -1)
    masks = torch.zeros(count, SIDE, SIDE, dtype=torch.long)
    for kind in (1, 2):
        at = torch.randint(3, SIDE - 3, (2, count, 1, 1), generator=draw)
        size = torch.randint(2, 5, (count, 1, 1), generator=draw)
        down, right = (rows - at[0]).abs(), (columns - at[1]).abs()
        inside = down**2 + right**2 <= size**2 if kind == 1 else torch.maximum(down, right) <= size
        masks[inside.expand_as(masks)] = kind
    tint = torch.tensor([0.0, 1.0, -1.0])[masks]
    image = tint + 0.7 * torch.randn(count, SIDE, SIDE, generator=draw)
    return image.unsqueeze(1), masks


class Shaped(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.ReLU())
        self.deep = nn.Sequential(
            nn.MaxPool2d(2), nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width),
            nn.ReLU(), nn.Upsample(scale_factor=2),
        )  # fmt: skip
        self.head = nn.Conv2d(3 * width, KINDS, 1)

    def forward(self, x: Tensor) -> Tensor:
        near = self.down(x)
        scores: Tensor = self.head(torch.cat([near, self.deep(near)], 1))
        return scores


def dice(scores: Tensor, masks: Tensor) -> Tensor:
    share = scores.softmax(1)
    wanted = F.one_hot(masks, KINDS).movedim(-1, 1).to(share)
    both, all_of = (share * wanted).sum((0, 2, 3)), (share + wanted).sum((0, 2, 3))
    return 1 - (2 * both / (all_of + 1e-6)).mean()


def overlap(scores: Tensor, masks: Tensor) -> float:
    """Mean intersection over union of the two shapes."""
    found = scores.argmax(1)
    parts = [
        ((found == k) & (masks == k)).sum() / ((found == k) | (masks == k)).sum() for k in (1, 2)
    ]
    return sum(part.item() for part in parts) / 2


def train(seed: int, hook: Any, loss: str = "ce", order: str = "", **options: Any) -> float:
    begin(seed)
    how = replace(LoopOptions(steps=400, batch=8), **options)
    data = Split(*pictures(600, seed + 20), *pictures(128, seed + 21))
    if order == "turned":
        data = replace(data, y=data.y.transpose(1, 2).flip(1))
    if order == "ignored":
        data = replace(data, y=torch.full_like(data.y, 255))
    model = Shaped()
    weights = torch.tensor([0.3, 1.0, 1.0])
    plain = nn.CrossEntropyLoss(weight=weights, ignore_index=255)
    criterion: Any = {
        "ce": plain,
        "dice": dice,
        "both": lambda scores, masks: plain(scores, masks) + dice(scores, masks),
        "softmax": lambda scores, masks: plain(scores.softmax(1), masks),
        "wrong axis": lambda scores, masks: F.nll_loss(scores.log_softmax(0), masks),
    }[loss]
    fit(model, data, criterion, how, hook, seed)
    return overlap(outputs(model, data, how), data.held_y)


CASES = cases(
    "segmentation",
    train,
    {
        "plain": {},
        "dice": {"loss": "dice"},
        "sum of two losses": {"loss": "both"},
        "one cycle": {"schedule": "one cycle", "rate": 1e-2},
        "batch of two": {"batch": 2, "steps": 1200},
        "no evaluation": {"evaluate_every": 0},
    },
    {
        "shuffled labels": ("no-skill", {"shuffled": True}),
        "masks turned": ("no-skill overfit", {"order": "turned"}),
        "every label ignored": ("ignored no-gradient not-finite", {"order": "ignored"}),
        "softmax over the batch": ("softmax-axis", {"loss": "wrong axis", "rate": 3e-4}),
        "rate x 1000": ("fast no-skill dead", {"rate": 3.0}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
        "evaluation x 255": ("inputs", {"eval_scale": 255.0}),
        "eval mode while training": ("mode", {"eval_mode": True, "train_scale": 60.0}),
        "not a number": ("not-finite", {"nan_from": 150}),
        "head in no optimizer": ("unbound", {"only": "down"}),
    },
    certain=("eval mode while training",),
)
