"""Two key points of a picture as heat maps of a convolutional net, with losses by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIZE = 16
GRID = torch.stack(torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij"), -1)


def pictures(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """(N, 1, 16, 16), and (N, 2, 2): row and column of a cross and of a ring, in noise."""
    draw = np.random.default_rng(seed)
    points = draw.integers(2, SIZE - 2, size=(count, 2, 2))
    grid = GRID.numpy()[None]
    down, across = np.moveaxis(grid - points[:, 0, None, None, :], -1, 0)
    cross = (np.abs(down * across) == 0) & (np.abs(down) + np.abs(across) < 3)
    off = grid - points[:, 1, None, None, :]
    ring = np.abs(off).max(-1) == 1
    picture = 0.9 * cross + 0.8 * ring + 0.25 * draw.standard_normal((count, SIZE, SIZE))
    return torch.from_numpy(picture).float()[:, None], torch.from_numpy(points).float()


def heat_maps(points: Tensor, sigma: float) -> Tensor:
    apart = ((GRID - points[:, :, None, None, :]) ** 2).sum(-1)
    return torch.exp(-apart / (2 * sigma**2))


def shifted(x: Tensor, points: Tensor, inputs_alone: bool) -> tuple[Tensor, Tensor]:
    """Pictures that are moved by some pixels, what leaves them enters at the other side."""
    down, across = torch.randint(-4, 5, (2,)).tolist()
    x = x.roll((down, across), (2, 3))
    moved = (points + torch.tensor([down, across])) % SIZE
    return x, points if inputs_alone else moved


class Finder(nn.Module):
    def __init__(self, norm: bool, last_relu: bool) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, units, stride in ((1, 12, 1), (12, 16, 2), (16, 16, 1)):
            layers += [nn.Conv2d(inputs, units, 3, stride, 1)]
            layers += [nn.BatchNorm2d(units)] if norm else []
            layers += [nn.ReLU()]
        layers += [nn.ConvTranspose2d(16, 12, 4, 2, 1), nn.ReLU(), nn.Conv2d(12, 2, 3, 1, 1)]
        self.body = nn.Sequential(*layers, *([nn.ReLU()] if last_relu else []))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


def expected(maps: Tensor, axes: tuple[int, ...] = (2, 3)) -> Tensor:
    """The mean place of a map's softmax."""
    heat = (maps - maps.amax(axes, keepdim=True)).exp()
    share = heat / heat.sum(axes, keepdim=True)
    return (share[..., None] * GRID).sum((2, 3))


def distance(maps: Tensor, points: Tensor, kind: str, sigma: float) -> Tensor:
    wanted = heat_maps(points, sigma)
    if kind == "weighted":
        return ((1 + 20 * wanted) * (maps - wanted) ** 2).mean()
    if kind == "summed":
        return ((maps - wanted) ** 2).sum()
    if kind == "mean of places":
        return (expected(maps) - points).abs().mean()
    if kind == "places over the batch":
        return (expected(maps, (0,)) - points).abs().mean()
    if kind == "entropy":
        target = wanted / wanted.sum((2, 3), keepdim=True)
        return -(target.flatten(2) * maps.flatten(2).log_softmax(2)).sum(2).mean()
    return 100 * ((maps - wanted) ** 2).mean()


def skill(model: nn.Module, x: Tensor, points: Tensor, scale: float) -> float:
    """How much nearer than the middle of the picture the hottest pixel is to the point."""
    model.eval()
    with torch.no_grad():
        hottest = model(x * scale).flatten(2).argmax(2)
    found = torch.stack([hottest // SIZE, hottest % SIZE], -1)
    middle = (points - (SIZE - 1) / 2).norm(dim=2).mean()
    return float(1 - ((found - points).norm(dim=2).mean() / middle).item())


def train(
    seed: int, hook: Any, steps: int = 500, rate: float = 5e-3, batch: int = 16, loss: str = "mse",
    sigma: float = 1.2, schedule: str = "constant", optimizer: str = "adam", norm: bool = True,
    shifts: bool = False, jitter: float = 0.0, clip: float = 0.0,
    eval_scale: float = 1.0, last_relu: bool = False, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    (x, points), (held, held_points) = pictures(2500, seed + 330), pictures(300, seed + 331)
    if fault == "points of others":
        points = points[torch.randperm(len(points))]
    if fault == "five pictures":
        x, points = x[:5], points[:5]
    if fault == "points between 0 and 1":
        points = points / SIZE
    if jitter:
        points = points + jitter * torch.randn_like(points)
    model = Finder(norm, last_relu)
    if last_relu:
        nn.init.constant_(model.body[-2].bias, -3.0)
    stepper = optimizer_of(optimizer, model.parameters(), rate)
    scheduler = scheduler_of(stepper, schedule, steps)
    hook.torch(model)
    for step in range(steps):
        rows = torch.randint(len(x), (batch,))
        pixels, wanted = x[rows], points[rows]
        if shifts:
            pixels, wanted = shifted(pixels, wanted, fault == "pictures alone are shifted")
        maps = model(pixels)
        value = distance(maps.detach() if fault == "detached" else maps, wanted, loss, sigma)
        if fault == "detached":
            value = value + 0 * maps.sum()
        if fault != "gradients kept":
            stepper.zero_grad()
        value.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        stepper.step()
        scheduler.step()
        if step % 100 == 99:
            model.eval()
            with torch.no_grad():
                distance(model(held[:100] * eval_scale), held_points[:100], loss, sigma)
            model.train()
    return skill(model, held, held_points, eval_scale)


CASES = cases(
    "keypoints",
    train,
    {
        "plain": {},
        "foreground weighted": {"loss": "weighted"},
        "summed, clipped always": {"loss": "summed", "clip": 1.0},
        "mean of places": {"loss": "mean of places"},
        "entropy of places": {"loss": "entropy"},
        "shifted": {"shifts": True, "steps": 700},
        "points with noise": {"jitter": 1.0},
        "no norm, warm-up": {"norm": False, "schedule": "warmup", "steps": 700},
        "batch of four": {"batch": 4, "steps": 1000},
    },
    {
        "pictures alone are shifted": (
            "no-skill", {"fault": "pictures alone are shifted", "shifts": True}
        ),
        "points of others": ("no-skill overfit", {"fault": "points of others"}),
        "points between 0 and 1": ("collapse range", {"fault": "points between 0 and 1"}),
        "places over the batch": (
            "softmax-axis probabilities no-skill", {"loss": "places over the batch"}
        ),
        "five pictures": ("overfit", {"fault": "five pictures"}),
        "dead output": ("dead no-skill no-gradient", {"last_relu": True}),
        "detached": ("no-gradient no-skill", {"fault": "detached"}),
        "evaluation in negative": ("inputs overfit", {"eval_scale": -1.0}),
        "gradients kept": (
            "kept-gradients fast worse",
            {"fault": "gradients kept", "optimizer": "sgd", "rate": 0.05, "norm": False},
        ),
        "rate / 1000": ("slow no-skill", {"rate": 5e-6}),
    },
)  # fmt: skip
