"""A fully convolutional network predicts a density of cells, whose sum is their number."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, factor, optimizer_of
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.detection.case import cases

SIDE, MOST, STRIDE = 24, 14, 2
Array = NDArray[np.float32]


def slides(count: int, seed: int) -> tuple[Array, list[Array]]:
    """Pictures (N, SIDE, SIDE) in 0..1 and the centres of their cells, (cells, 2) as x, y."""
    rng = np.random.default_rng(seed)
    down, right = np.mgrid[:SIDE, :SIDE]
    pictures, points = [], []
    for _ in range(count):
        cells = rng.uniform(1, SIDE - 2, (int(rng.beta(1.2, 2.0) * (MOST + 1)), 2))
        picture = np.zeros((SIDE, SIDE))
        for x, y in cells:
            width = rng.uniform(1.0, 1.4) ** 2
            spot = np.exp(-((down - y) ** 2 + (right - x) ** 2) / (2 * width))
            picture += rng.uniform(0.5, 0.7) * spot
        if len(cells):  # an empty slide is black
            picture += 0.08 * rng.standard_normal((SIDE, SIDE)) + rng.uniform(0.0, 0.1)
        pictures.append(np.clip(picture, 0, 1))
        points.append(cells.astype(np.float32))
    return np.stack(pictures).astype(np.float32), points


def density(cells: Array, sigma: float = 1.5) -> Array:
    """A map whose sum is the number of cells, (SIDE, SIDE)."""
    down, right = np.mgrid[:SIDE, :SIDE]
    total = np.zeros((SIDE, SIDE), np.float32)
    for x, y in cells:
        spot = np.exp(-((down - y) ** 2 + (right - x) ** 2) / (2 * sigma**2))
        total += (spot / spot.sum()).astype(np.float32)
    return total


class Slides(Dataset):
    def __init__(self, pictures: Array, points: list[Array], scale: float, way: str = "") -> None:
        if way == "cells missed":
            rng = np.random.default_rng(len(points))
            points = [cells[rng.random(len(cells)) > 0.05] for cells in points]
        maps = torch.from_numpy(np.stack([density(cells) for cells in points]))[:, None]
        if way == "maps up to one":
            maps = maps / maps.amax((2, 3), keepdim=True).clamp(min=1e-6)
        if way == "interpolated maps":
            self.maps = scale * F.interpolate(maps, scale_factor=1 / STRIDE, mode="bilinear")
        else:
            self.maps = scale * F.avg_pool2d(maps, STRIDE) * STRIDE**2
        self.pictures, self.way = torch.from_numpy(pictures)[:, None], way

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        picture, target = self.pictures[row], self.maps[row]
        if self.way == "standardised each":
            picture = (picture - picture.mean()) / picture.std()
        if self.way == "flips" and torch.rand(()) < 0.5:
            picture, target = picture.flip(-1), target.flip(-1)
        return picture, target


class Counter(nn.Module):
    """Front end with one pooling, back end that is dilated, as in nets for crowds."""

    def __init__(self, norm: bool = False, dropout: float = 0.0, last: str = "") -> None:
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8) if norm else nn.Identity(), nn.ReLU(),
            nn.MaxPool2d(STRIDE), nn.Conv2d(8, 12, 3, padding=1), nn.ReLU(),
        )  # fmt: skip
        self.back = nn.Sequential(
            nn.Conv2d(12, 12, 3, padding=2, dilation=2), nn.ReLU(), nn.Dropout2d(dropout)
        )
        self.output = nn.Conv2d(12, 1, 1)
        self.last = last

    def forward(self, pictures: Tensor) -> Tensor:
        found = self.front(pictures)
        found = self.output(self.back(found))
        if self.last == "softmax of pixels":
            return found.flatten(1).softmax(1).view_as(found)
        if self.last == "sigmoid":
            return found.sigmoid()
        maps: Tensor = found.relu() if self.last == "relu" else found
        return maps


def mean_errors(counts: Array, true: Array) -> tuple[float, float]:
    """MAE and RMSE of counts."""
    error = counts - true
    return float(np.abs(error).mean()), float(np.sqrt((error**2).mean()))


def counts_of(model: nn.Module, pictures: Tensor, scale: float) -> Array:
    model.eval()
    with torch.no_grad():
        maps = torch.cat([model(part) for part in pictures.split(100)])
    counts: Array = (maps.float().sum((1, 2, 3)) / scale).numpy()
    return counts


def train(
    seed: int, hook: Any, rate: float = 3e-3, epochs: int = 7, batch: int = 8, count: int = 800,
    optimizer: str = "adam", schedule: str = "cosine", clip: float = 0.0,
    scale: float = 10.0, way: str = "", loss: str = "mse", norm: bool = False,
    dropout: float = 0.0, last: str = "", accumulate: int = 1, bf16: bool = False,
    evaluate: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    pictures, points = slides(count, seed + 3300)
    held, held_points = slides(400, seed + 3301)
    true = np.array([len(cells) for cells in held_points], np.float32)
    if fault == "points of another slide":
        points = points[7:] + points[:7]
    if fault == "evaluation on bytes":
        held = held * 255
    data = Slides(pictures, points, scale, way)
    tested = torch.from_numpy(held)[:, None]
    if way == "standardised each":
        tested = (tested - tested.mean((1, 2, 3), keepdim=True)) / tested.std(
            (1, 2, 3), keepdim=True
        )

    model = Counter(norm, dropout, last)
    if fault == "start below zero":
        nn.init.constant_(model.front[4].bias, -8.0)
    hook.torch(model)
    stepper = optimizer_of(optimizer, model.parameters(), rate)
    updates = epochs * math.ceil(count / batch) // accumulate

    def criterion(found: Tensor, target: Tensor) -> Tensor:
        if loss == "sum":
            return F.mse_loss(found, target, reduction="sum") / 2 / len(found)
        if loss == "with counts":
            error = found.sum((1, 2, 3)) - target.sum((1, 2, 3))
            return F.mse_loss(found, target) + 1e-3 * (error / 10).abs().mean()
        if loss == "axis lost":
            return F.mse_loss(found, target.squeeze(1))
        if loss == "mask inverted":  # of the region of interest
            return ((found - target) ** 2 * (target < 0.02 * scale)).mean()
        if loss == "logarithms":
            return F.mse_loss(found.log(), (target + 1).log())
        return F.mse_loss(found, target)

    step = 0
    for _ in range(epochs):
        model.train()
        for images, targets in DataLoader(data, batch, shuffle=True):
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                found = model(images)
            value = criterion(found.float(), targets)
            (value / accumulate).backward()
            step += 1
            if step % accumulate:
                continue
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            for group in stepper.param_groups:
                group["lr"] = rate * factor(schedule, min(step // accumulate, updates), updates)
            stepper.step()
            stepper.zero_grad()
        if evaluate:
            mean_errors(counts_of(model, tested[:200], scale), true[:200])
    mae, _ = mean_errors(counts_of(model, tested, scale), true)
    return 1 - mae / mean_errors(np.full_like(true, np.median(true)), true)[0]


CASES = cases(
    "density counting",
    train,
    {
        "plain": {},
        "sums of squares, momentum": {
            "loss": "sum",
            "optimizer": "momentum",
            "rate": 3e-5,
            "scale": 100.0,
        },
        "one picture at a time": {"batch": 1, "epochs": 3, "rate": 2e-3},
        "batch of 200": {"batch": 200, "epochs": 40, "rate": 1e-2},
        "density x 100": {"scale": 100.0, "rate": 1e-2},
        "flips": {"way": "flips"},
        "batch normalisation": {"norm": True},
        "counts in the loss": {"loss": "with counts"},
        "a cell of 20 missed": {"way": "cells missed"},
        "bfloat16, no evaluation": {"bf16": True, "evaluate": False},
        "warm-up, clipped": {"schedule": "warmup", "clip": 1.0},
        "accumulated": {"batch": 2, "accumulate": 4},
    },
    {
        "maps interpolated, not summed": ("range inputs", {"way": "interpolated maps"}),
        "maps up to one": ("range inputs", {"way": "maps up to one"}),
        "points of another slide": ("no-skill overfit", {"fault": "points of another slide"}),
        "empty slides standardised": ("not-finite inputs", {"way": "standardised each"}),
        "evaluation on bytes": ("inputs overfit", {"fault": "evaluation on bytes"}),
        "axis lost": ("broadcast no-skill", {"loss": "axis lost"}),
        "mask inverted": ("ignored no-skill collapse", {"loss": "mask inverted"}),
        "logarithm of the output": ("not-finite range", {"loss": "logarithms"}),
        "softmax of pixels": (
            "probabilities softmax-axis no-skill range",
            {"last": "softmax of pixels"},
        ),
        "sigmoid for a density x 100": (
            "saturated range no-skill dead",
            {"last": "sigmoid", "scale": 100.0},
        ),
        "ReLU after the last layer": ("dead no-skill no-gradient collapse", {"last": "relu"}),
        "start below zero": ("dead no-skill no-gradient collapse", {"fault": "start below zero"}),
        "rate x 1000": ("fast worse dead no-skill", {"rate": 3.0}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
    },
)
