"""Organs in scans of the belly: a small U-Net, and a Dice loss by hand.

A slice has a body with fat, a spine, a liver and a kidney, in Hounsfield units with noise; places
and sizes differ. Each organ has a mask of its own. The skill is the mean Dice coefficient on other
patients, above that of the best mask which is the same for all.
"""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin

SIDE = 24


def scans(count: int, seed: int, empty: float = 0.0) -> tuple[Tensor, Tensor]:
    """Slices (N, 1, SIDE, SIDE) in Hounsfield units, and masks (N, 2, SIDE, SIDE)."""
    draw = torch.Generator().manual_seed(seed)
    down, across = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")

    def between(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(count, 1, 1, generator=draw)

    def oval(y: Tensor, x: Tensor, high: Tensor, wide: Tensor) -> Tensor:
        return (((down - y) / high) ** 2 + ((across - x) / wide) ** 2 < 1).float()

    y, x = between(10.5, 12.5), between(10.5, 12.5)
    body, inside = oval(y, x, between(9, 11), between(10, 11.5)), oval(y, x, 0 * y + 8, 0 * x + 9)
    liver = oval(y + between(-4, 1), x - between(3, 5), between(3, 4.5), between(2.5, 4))
    kidney = oval(y + between(1, 4), x + between(4, 6), between(2.6, 3.6), between(2, 2.8))
    spine = oval(y + 5, x, between(1.5, 2), between(1.5, 2))
    seen = (torch.rand(count, 2, 1, 1, generator=draw) >= empty).float()
    masks = torch.stack([liver, kidney * (1 - liver)], 1) * seen
    units = -1000 + 900 * body + 130 * inside * body + between(30, 60) * masks[:, 0]
    units = units * (1 - spine) + 400 * spine + between(150, 200) * masks[:, 1] * (1 - spine)
    units = units + 25 * torch.randn(count, SIDE, SIDE, generator=draw)
    return units[:, None], masks * (1 - spine[:, None])


def block(inputs: int, outputs: int, norm: str) -> nn.Sequential:
    normed = nn.BatchNorm2d(outputs) if norm == "batch" else nn.GroupNorm(outputs, outputs)
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), normed, nn.LeakyReLU(0.01))


class UNet(nn.Module):
    def __init__(self, norm: str) -> None:
        super().__init__()
        self.first, self.second = block(1, 6, norm), block(6, 12, norm)
        self.deepest, self.up = block(12, 16, norm), block(28, 12, norm)
        self.last = block(18, 6, norm)
        self.head = nn.Conv2d(6, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        one = self.first(x)
        two = self.second(F.max_pool2d(one, 2))
        deep = F.interpolate(self.deepest(F.max_pool2d(two, 2)), scale_factor=2)
        deep = F.interpolate(self.up(torch.cat([deep, two], 1)), scale_factor=2)
        return cast(Tensor, self.head(self.last(torch.cat([deep, one], 1))))


def dice(share: Tensor, mask: Tensor, smooth: float = 1.0) -> Tensor:
    both = (share * mask).sum((2, 3))
    return (2 * both + smooth) / (share.sum((2, 3)) + mask.sum((2, 3)) + smooth)


def loss_of(kind: str, scores: Tensor, mask: Tensor) -> Tensor:
    share = scores if kind == "scores as they are" else torch.sigmoid(scores)
    if kind == "weighed by size":  # generalised Dice: an organ that is not there has no size
        weight = 1 / mask.sum((2, 3)) ** 2
        both = (weight * (share * mask).sum((2, 3))).sum(1)
        return 1 - 2 * (both / (weight * (share + mask).sum((2, 3))).sum(1)).mean()
    loss = -dice(share, mask).mean()
    return loss if kind == "negative" else 1 + loss


def train(
    seed: int, hook: Any, loss: str = "dice", rate: float = 1e-2, epochs: int = 10, batch: int = 8,
    norm: str = "batch", adam: bool = False, empty: float = 0.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    units, masks = scans(300, seed + 9200, empty)
    held, held_masks = scans(64, seed + 9201, empty)
    test, test_masks = scans(200, seed + 9202)
    x, held_x, test_x = ((part.clamp(-160, 240) - 40) / 200 for part in (units, held, test))
    if fault == "no window in evaluation":
        held_x, test_x = held, test
    if fault == "masks of 255":
        masks, held_masks = masks * 255, held_masks * 255
    model = UNet(norm)
    hook.torch(model)
    steps: Any = torch.optim.Adam(model.parameters(), rate)
    if not adam:
        steps = torch.optim.SGD(model.parameters(), rate, momentum=0.99, nesterov=True)
    falls = torch.optim.lr_scheduler.PolynomialLR(steps, epochs, 0.9)
    for _ in range(epochs):
        model.train()
        for picture, mask in DataLoader(TensorDataset(x, masks), batch, shuffle=True):
            if fault == "pictures flipped alone" and torch.rand(()) < 0.5:
                picture = picture.flip(3)
            steps.zero_grad()
            loss_of(loss, model(picture), mask).backward()
            steps.step()
        falls.step()
        model.eval()
        with torch.no_grad():
            loss_of(loss, model(held_x), held_masks)
    with torch.no_grad():
        found = dice((model(test_x) > 0).float(), test_masks, 1e-3).mean().item()
    mean = test_masks.mean(0, keepdim=True)
    same = [dice((mean > least / 10).float(), test_masks, 1e-3).mean().item() for least in range(9)]
    return float((found - max(same)) / (1 - max(same)))


CASES = cases(
    "organ scans",
    train,
    {
        "plain": {},
        "negative Dice": {"loss": "negative"},
        "organs out of sight": {"empty": 0.07, "epochs": 11},
        "two slices, instance norm": {
            "adam": True, "batch": 2, "norm": "instance", "epochs": 4, "rate": 3e-3,
        },
        "Adam": {"adam": True, "rate": 5e-3, "epochs": 8},
    },
    {
        "scores as they are": ("probabilities range worse fast", {"loss": "scores as they are"}),
        "pictures flipped alone": ("no-skill overfit", {"fault": "pictures flipped alone"}),
        "masks of 255": ("range worse no-skill", {"fault": "masks of 255"}),
        "slices without an organ": ("not-finite", {"loss": "weighed by size", "empty": 0.3}),
        "no window in evaluation": ("inputs overfit", {"fault": "no window in evaluation"}),
    },
)  # fmt: skip
