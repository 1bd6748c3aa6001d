"""Grains of pollen under a microscope, two kinds, found by a map of their centres and their radius.

A small convolutional network answers for each cell of two by two pixels, with the focal loss of
CenterNet by hand. The skill is F1 of the grains found within a cell of the truth, elsewhere.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, normal
from torch import Tensor, nn
from torch.nn.functional import max_pool2d

from benchmarks.detection.case import cases

SIZE, CELLS, KINDS = 24, 12, 2


def slides(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Pictures (N, 3, 24, 24) from 0 to 255, and grains (N, 3, 4): row, column, radius, kind."""
    draw = torch.Generator().manual_seed(seed)
    place = torch.rand(count, 3, 2, generator=draw)
    slot = torch.stack([torch.randperm(9, generator=draw)[:3] for _ in range(count)])
    corner = torch.stack([slot // 3, slot % 3], 2) * 8 + 2.5
    radius = 1.8 + 1.4 * torch.rand(count, 3, 1, generator=draw)
    kind = torch.randint(-1, KINDS, (count, 3, 1), generator=draw)
    kind[:, 0] = kind[:, 0].abs()
    grains = torch.cat([corner + 3 * place, radius, kind], 2)
    axis = torch.arange(SIZE, dtype=torch.float32)
    picture = (
        torch.tensor([205.0, 195.0, 175.0])[:, None, None].expand(count, 3, SIZE, SIZE).clone()
    )
    for row, column, size, of in (grains[:, k, :, None, None].unbind(1) for k in range(3)):
        away = ((axis[:, None] - row) ** 2 + (axis - column) ** 2).sqrt()
        disc = torch.sigmoid(3 * (size - away)) * (of >= 0)
        core = torch.sigmoid(3 * (0.45 * size - away)) * (of == 1)
        shade = torch.tensor([45.0, 80.0, 110.0])[:, None, None]
        picture -= disc[:, None] * shade - 0.9 * core[:, None] * shade
    picture += 9 * normal(count, 3, SIZE, SIZE, seed=seed + 1) + 12 * normal(
        count, 1, 1, 1, seed=seed
    )
    return picture.clamp(0, 255).round(), grains


def targets(grains: Tensor, fault: str = "") -> tuple[Tensor, Tensor]:
    """A bump of 1 at each centre by kind (N, 2, 12, 12), and the radius at centres (N, 12, 12)."""
    heat, radius = (
        torch.zeros(len(grains), KINDS, CELLS, CELLS),
        torch.zeros(len(grains), CELLS, CELLS),
    )
    axis = torch.arange(CELLS)
    for number, of in enumerate(grains):
        for row, column, size, kind in of[of[:, 3] >= 0].tolist():
            at, along = int(row / 2), int(column / 2)
            if fault == "rows and columns exchanged":
                at, along = along, at
            bump = torch.exp(-((axis[:, None] - at) ** 2 + (axis - along) ** 2) / 0.9)
            heat[number, int(kind)] = torch.maximum(heat[number, int(kind)], bump)
            radius[number, at, along] = size
    return heat, radius


class CentreNet(nn.Module):
    def __init__(self, norm: str) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, width, stride in ((3, 12, 1), (12, 24, 2), (24, 24, 1)):
            layers.append(nn.Conv2d(inputs, width, 3, stride, 1, bias=False))
            batch = nn.BatchNorm2d(width, momentum=0.001 if norm == "slow" else 0.1)
            layers.append(nn.GroupNorm(4, width) if norm == "group" else batch)
            layers.append(nn.ReLU())
        self.body = nn.Sequential(*layers)
        self.heat, self.radius = nn.Conv2d(24, KINDS, 3, padding=1), nn.Conv2d(24, 1, 1)
        nn.init.constant_(self.heat.bias, -2.19)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.body(x)
        return self.heat(h), self.radius(h).squeeze(1)


def loss_of(answer: tuple[Tensor, Tensor], heat: Tensor, radius: Tensor, kind: str) -> Tensor:
    logits, size = answer
    if kind == "sigmoid twice":
        logits = logits.sigmoid()
    p = logits.sigmoid().clamp(1e-4, 1 - 1e-4)
    centre = (heat == 1).float()
    yes = centre * (1 - p) ** 2 * p.log()
    no = (1 - centre) * (1 - heat) ** 4 * p**2 * (1 - p).log()
    focal = -(yes + no).sum()
    if kind == "squared error":
        focal = 10 * (heat * (p - heat) ** 2 * 4 + (1 - heat) * (p - heat) ** 2).sum()
    total = focal + 0.2 * ((size - radius).abs() * (radius > 0)).sum()
    return total if kind == "summed" else total / centre.sum().clamp(min=1)


def found_well(logits: Tensor, heat: Tensor) -> float:
    """F1 of the peaks above 0.3, each within a cell of a centre of its kind."""
    p = logits.sigmoid()
    peak = (p == max_pool2d(p, 3, 1, 1)) & (p > 0.3)
    centre = heat == 1
    near_peak, near_centre = (max_pool2d(of.float(), 3, 1, 1) > 0 for of in (peak, centre))
    precise = (peak & near_centre).sum() / peak.sum().clamp(min=1)
    recall = (centre & near_peak).sum() / centre.sum()
    f1 = (2 * precise * recall / (precise + recall).clamp(min=1e-9)).item()
    return f1 if bool(logits.isfinite().all()) else math.nan


def train(
    seed: int, hook: Any, steps: int = 700, rate: float = 3e-3, batch: int = 16, count: int = 600,
    optimizer: str = "Adam", schedule: str = "", norm: str = "batch", loss: str = "",
    clip: float = 0.0, frozen_until: int = 0, flips: bool = False, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    (x, grains), (held_x, held) = slides(count, 20 * seed + 8800), slides(100, 20 * seed + 8805)
    test_x, test = slides(400, 20 * seed + 8810)
    x = x / 255 - 0.5
    if fault != "asked from 0 to 255":
        held_x, test_x = held_x / 255 - 0.5, test_x / 255 - 0.5
    heat, radius = targets(grains, fault)
    (held_heat, held_radius), (test_heat, _) = targets(held, fault), targets(test)
    model = CentreNet(norm)
    hook.torch(model)
    more = {"momentum": 0.9, "nesterov": True} if optimizer == "SGD" else {}
    updates = getattr(torch.optim, optimizer)(model.parameters(), lr=rate, **more)
    scheduler: Any = None
    if schedule == "one cycle":
        scheduler = torch.optim.lr_scheduler.OneCycleLR(updates, rate, total_steps=steps)
    if schedule == "polynomial":
        scheduler = torch.optim.lr_scheduler.PolynomialLR(updates, steps, power=0.9)
    for step in range(steps):
        model.train()
        model.body[0].weight.requires_grad_(step >= frozen_until)  # type: ignore[union-attr]
        rows = torch.randint(count, (batch,))
        pictures, wanted, sizes = x[rows], heat[rows], radius[rows]
        for axis in (-1, -2):
            if flips and torch.rand(()) < 0.5:
                pictures = pictures.flip(axis)
                wanted, sizes = wanted.flip(axis), sizes.flip(axis)
        error = loss_of(model(pictures), wanted, sizes, loss)
        if fault != "gradients never cleared":
            updates.zero_grad()
        error.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        updates.step()
        if scheduler:
            scheduler.step()
        if (step + 1) % 100 == 0:
            model.eval()
            with torch.no_grad():
                answer = model(held_x)
                loss_of(answer, held_heat, held_radius, loss)
                found_well(answer[0], held_heat)
    model.eval()
    with torch.no_grad():
        logits = model(test_x)[0]
    return found_well(logits.sigmoid() if loss == "sigmoid twice" else logits, test_heat)


CASES = cases(
    "pollen centres",
    train,
    {
        "plain": {},
        "norms of groups, four pictures": {
            "norm": "group", "batch": 4, "steps": 1600, "rate": 2e-3,
        },
        "one cycle, flipped with their grains": {
            "schedule": "one cycle", "flips": True, "optimizer": "AdamW", "rate": 1e-2,
        },
        "squared error": {"loss": "squared error"},
        "first layer frozen at first": {"frozen_until": 350},
        "SGD, polynomial rate": {"optimizer": "SGD", "schedule": "polynomial", "rate": 1e-2},
        "loss summed and clipped": {"loss": "summed", "clip": 20.0},
    },
    {
        "rows and columns exchanged": (
            "no-skill overfit", {"fault": "rows and columns exchanged"},
        ),
        "sigmoid twice": ("probabilities range no-skill", {"loss": "sigmoid twice"}),
        "asked from 0 to 255": ("inputs worse overfit", {"fault": "asked from 0 to 255"}),
        "momentum of norms as elsewhere": ("mode worse", {"norm": "slow"}),
        "gradients never cleared": (
            "kept-gradients fast worse", {"fault": "gradients never cleared"},
        ),
        "rate of 1e-6": ("slow no-skill", {"rate": 1e-6}),
    },
)  # fmt: skip
