"""Holes in pictures are filled: a network sees what is left, and a map of where something is.

Pictures are of tiled floors: two colours in squares or stripes, in some light, with a shadow; boxes
and strokes are missing. Holes weigh six times as much as the rest in the loss. The skill is the
share of the variance within holes that is explained.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from benchmarks.detection.families.kit import begin, explained
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.detection.case import cases

SIDE = 16


def floors(count: int, seed: int) -> Tensor:
    """Bytes (N, 3, SIDE, SIDE)"""
    draw = torch.Generator().manual_seed(seed)
    down, across = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    start = torch.randint(8, (2, count, 1, 1), generator=draw)
    tall, wide = (down + start[0]) // 4 % 2, (across + start[1]) // 4 % 2
    kind = torch.randint(3, (count, 1, 1), generator=draw)
    which = torch.where(kind == 0, tall, torch.where(kind == 1, wide, (tall + wide) % 2))
    colours = torch.rand(2, count, 3, 1, 1, generator=draw)
    picture = torch.where(which[:, None] > 0, colours[0], colours[1])
    slope = 0.03 * torch.randn(2, count, 1, 1, 1, generator=draw)
    picture = picture * (1 + slope[0] * (down - 8) + slope[1] * (across - 8))
    picture = picture + 0.03 * torch.randn(picture.shape, generator=draw)
    return (picture.clamp(0, 1) * 255).byte()


def known_parts(count: int, draw: torch.Generator) -> Tensor:
    """(N, 1, SIDE, SIDE): one where something is, zero in a hole."""
    place = torch.arange(SIDE)
    known = torch.ones(count, 1, SIDE, SIDE)
    for _ in range(2):
        corner = torch.randint(0, SIDE - 4, (2, count, 1), generator=draw)
        size = torch.randint(3, 7, (2, count, 1), generator=draw)
        y, x = ((place >= corner) & (place < corner + size)).float()
        known = known * (1 - y[:, :, None] * x[:, None])[:, None]
    return known


class Damaged(Dataset):
    """Each time with other holes."""

    def __init__(self, pictures: Tensor, seed: int) -> None:
        self.pictures = pictures.float() / 127.5 - 1
        self.draw = torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitems__(self, rows: list[int]) -> list[tuple[Tensor, Tensor]]:
        known = known_parts(len(rows), self.draw)
        return [(self.pictures[row], known[k]) for k, row in enumerate(rows)]


class Filler(nn.Module):
    def __init__(self, last: str) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs, gap in ((4, 16, 1), (16, 24, 2), (24, 24, 4), (24, 16, 2)):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=gap, dilation=gap), nn.ELU()]
        layers.append(nn.Conv2d(16, 3, 3, padding=1))
        layers += [{"tanh": nn.Tanh(), "sigmoid": nn.Sigmoid()}[last]] if last else []
        self.layers = nn.Sequential(*layers)

    def forward(self, picture: Tensor, known: Tensor) -> Tensor:
        return cast(Tensor, self.layers(torch.cat([picture, known], 1)))


def loss_of(kind: str, found: Tensor, picture: Tensor, known: Tensor, hole: float) -> Tensor:
    error = (found - picture).square() if kind == "squares" else (found - picture).abs()
    if kind == "holes alone":
        return (error * (1 - known)).sum() / (3 * (1 - known).sum() + 1e-6)
    return (error * known).mean() + hole * (error * (1 - known)).mean()


def train(
    seed: int, hook: Any, loss: str = "absolute", hole: float = 6.0, rate: float = 3e-3,
    epochs: int = 9, batch: int = 8, last: str = "", bfloat16: bool = False, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    loader: Any = DataLoader(Damaged(floors(400, seed + 10200), seed), batch, shuffle=True)
    held: Any = DataLoader(Damaged(floors(64, seed + 10201), seed), 32)
    model = Filler(last)
    hook.torch(model)
    stepper = torch.optim.Adam(model.parameters(), rate)
    for _ in range(epochs):
        model.train()
        for picture, known in loader:
            seen = picture if fault == "holes not cut out" else picture * known
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                found = model(seen, known)
            over = 1 - known if fault == "mask the other way round" else known
            error = loss_of(loss, found.float(), picture, over, hole)
            stepper.zero_grad()
            error.backward()
            stepper.step()
        model.eval()
        with torch.no_grad():
            for picture, known in held:
                loss_of(loss, model(picture * known, known), picture, known, hole)
    test = floors(300, seed + 10202).float()
    test, known = test / 127.5 - 1, known_parts(300, torch.Generator().manual_seed(seed + 10203))
    if fault == "holes of 255 in evaluation":
        known = known * 255
    with torch.no_grad():
        found = model(test * (known > 0), known)
    within = (known == 0).expand(test.shape)
    return explained(found[within], test[within])


CASES = cases(
    "picture holes",
    train,
    {
        "plain": {},
        "holes alone": {"loss": "holes alone", "epochs": 12},
        "tanh, squares": {"last": "tanh", "loss": "squares"},
        "bfloat16": {"bfloat16": True},
        "batch of four": {"batch": 4, "rate": 2e-3, "epochs": 6},
    },
    {
        "mask the other way round": ("ignored", {"fault": "mask the other way round"}),
        "holes not cut out": ("leak", {"fault": "holes not cut out"}),
        "sigmoid at the end": ("range saturated", {"last": "sigmoid"}),
        "holes of 255 in evaluation": ("inputs", {"fault": "holes of 255 in evaluation"}),
        "rate of one": ("fast no-skill worse", {"rate": 1.0}),
    },
)  # fmt: skip
