"""Where the line of the lane lies in each row of a picture from a car, as a choice of its column.

A line that bends, brighter than the road and broken at times, among patches, cracks and shadows.
Rows that an annotator left out have the label -100. The skill is the share of the column's variance
that is explained, of other pictures.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, explained, optimizer_of, scheduler_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

SIDE, LEFT_OUT = 16, -100
Batches = Iterable[list[Tensor]]


def roads(count: int, seed: int, marked: float = 1.0) -> tuple[Tensor, Tensor]:
    """Bytes (N, 1, SIDE, SIDE), and the column of the line in each row (N, SIDE)."""
    draw = torch.Generator().manual_seed(seed)

    def between(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(count, *shape, generator=draw)

    place = torch.arange(SIDE).float()
    down = place / SIDE
    line = (
        between(2, 13, 1) + between(-6, 6, 1) * (down - 0.5) + between(-8, 8, 1) * (down - 0.5) ** 2
    )
    line = line.clamp(0, SIDE - 1)
    near = (place - line[..., None]).abs()
    shows = between(0, 1, SIDE, 1) > 0.2
    picture = between(70, 120, 1, 1) + 75 * (1 - near / 1.3).clamp(0) * shows
    shadow = place[:, None] + between(-1, 1, 1, 1) * place > between(0, 24, 1, 1)
    picture = picture - between(10, 40, 1, 1) * shadow
    spots = between(0, 1, SIDE, SIDE) < 0.03
    picture = picture + 60 * spots + 12 * torch.randn(picture.shape, generator=draw)
    column = line.round().long()
    column[between(0, 1, SIDE) > marked] = LEFT_OUT
    return picture.clamp(0, 255).byte()[:, None], column


class LaneNet(nn.Module):
    """Wide convolutions, and a score for each column of each row: (N, rows, columns)."""

    def __init__(self, norm: str, dropout: float, width: int = 8) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, wide in ((1, 1), (width, 2), (width, 4)):
            layers.append(nn.Conv2d(inputs, width, 3, padding=wide, dilation=wide))
            if norm:
                layers.append(nn.BatchNorm2d(width) if norm == "batch" else nn.GroupNorm(2, width))
            layers += [nn.ReLU(), nn.Dropout2d(dropout)]
        self.body, self.head = nn.Sequential(*layers), nn.Conv2d(width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.body(x))
        return scores.squeeze(1)


def lane_loss(scores: Tensor, column: Tensor, kind: str, smoothing: float = 0.0) -> Tensor:
    if kind == "rows for columns":  # cross_entropy wants the classes second
        return F.cross_entropy(scores, column)
    if kind == "expected column":
        known = column != LEFT_OUT
        found = (scores.softmax(2) * torch.arange(SIDE)).sum(2)
        return F.smooth_l1_loss(found[known], column[known].float())
    reduction = "sum" if kind == "sum" else "mean"
    return F.cross_entropy(
        scores.transpose(1, 2), column, label_smoothing=smoothing, reduction=reduction
    )


def columns(model: nn.Module, batches: Batches) -> tuple[Tensor, Tensor]:
    model.eval()
    with torch.no_grad():
        pairs = [((model(x).softmax(2) * torch.arange(SIDE)).sum(2), y) for x, y in batches]
    return torch.cat([found for found, _ in pairs]), torch.cat([y for _, y in pairs])


def evaluate(model: nn.Module, batches: Batches, kind: str) -> tuple[float, float]:
    """The loss and the mean error in columns."""
    model.eval()
    with torch.no_grad():
        losses = [lane_loss(model(x), y, kind).item() for x, y in batches]
    found, wanted = columns(model, batches)
    return sum(losses) / len(losses), (found - wanted).abs().mean().item()


def train(
    seed: int, hook: Any, loss: str = "", rate: float = 5e-3, epochs: int = 8, batch: int = 8,
    count: int = 2000, optimizer: str = "adam", decay: float = 0.0, schedule: str = "constant",
    accumulate: int = 1, clip: float = 0.0, norm: str = "batch", dropout: float = 0.0,
    smoothing: float = 0.0, marked: float = 0.5, mirrored: bool = False, bfloat16: bool = False,
    average: float = 0.0, evaluated: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    (x, y), (held, held_y), (test, test_y) = (
        roads(n, 7 * seed + 5200 + n, share) for n, share in ((count, marked), (200, 1), (600, 1))
    )
    if fault == "rows left out are zero":
        y = torch.where(y == LEFT_OUT, 0, y)
    if fault == "files listed in another order":
        y = y[torch.randperm(count)]
    unit = 1.0 if fault == "bytes in training alone" else 255.0
    x, held, test = x.float() / unit, held.float() / 255, test.float() / 255
    loader = DataLoader(TensorDataset(x, y), batch, shuffle=True, drop_last=True)
    held_loader = DataLoader(TensorDataset(held, held_y), 50)
    test_loader = DataLoader(TensorDataset(test, test_y), 100)
    model = LaneNet(norm, dropout)
    hook.torch(model)
    steering = optimizer_of(optimizer, model.parameters(), rate, decay)
    falls = scheduler_of(steering, schedule, epochs * len(loader) // accumulate)
    averaged = copy.deepcopy(model)
    for _ in range(epochs):
        model.train()
        for number, (pictures, column) in enumerate(loader):
            if mirrored and torch.rand(()) < 0.5:
                pictures = pictures.flip(3)
                if fault != "mirrored without their lines":
                    column = torch.where(column == LEFT_OUT, column, SIDE - 1 - column)
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                scores = model(pictures)
            error = lane_loss(scores.float(), column, loss, smoothing)
            (error / accumulate).backward()
            if number % accumulate < accumulate - 1:
                continue
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            steering.step()
            falls.step()
            if fault != "gradients kept":
                steering.zero_grad()
            if average:
                slow, fast = averaged.state_dict(), model.state_dict()
                for name, value in slow.items():
                    value.copy_(
                        fast[name]
                        if value.dtype == torch.long
                        else value.lerp(fast[name], 1 - average)
                    )
        if evaluated:
            evaluate(model, held_loader, loss)
    found, wanted = columns(averaged if average else model, test_loader)
    return explained(found, wanted.float()) if bool(found.isfinite().all()) else math.nan


CASES = cases(
    "lane rows",
    train,
    {
        "plain": {},
        "expected column": {"loss": "expected column"},
        "sum, AdamW, clipped": {"loss": "sum", "clip": 5.0, "optimizer": "adamw", "decay": 0.05},
        "mirrored, smoothed, averaged": {"mirrored": True, "smoothing": 0.05, "average": 0.99},
        "fours accumulated, groups normalised": {
            "batch": 4, "accumulate": 4, "norm": "group", "rate": 1e-2,
        },
        "momentum, one cycle, bfloat16": {
            "optimizer": "momentum", "rate": 5e-2, "schedule": "one cycle", "bfloat16": True,
        },
        "few rows marked, not evaluated": {"marked": 0.15, "evaluated": False, "dropout": 0.05},
    },
    {
        "rows for columns": ("no-skill softmax-axis", {"loss": "rows for columns"}),
        "rows left out are zero": (
            "imbalance collapse no-skill", {"fault": "rows left out are zero", "marked": 0.3},
        ),
        "mirrored without their lines": (
            "no-skill worse", {"fault": "mirrored without their lines", "mirrored": True},
        ),
        "bytes in training alone": ("inputs worse", {"fault": "bytes in training alone"}),
        "gradients kept": (
            "kept-gradients fast worse no-skill dead",
            {"fault": "gradients kept", "optimizer": "momentum", "rate": 2e-2, "norm": ""},
        ),
        "files listed in another order": (
            "no-skill", {"fault": "files listed in another order"},
        ),
        "rate of 5": ("fast no-skill dead collapse", {"rate": 5.0, "norm": ""}),
    },
)  # fmt: skip
