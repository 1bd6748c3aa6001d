"""By what angle a part lies on the belt: a convolutional network says its sine and its cosine.

A bright wedge with a thick and a thin end lies anywhere near the middle, on a streaked belt. The
angle is that of its thin end. The skill is one less the mean error, in quarters of a turn.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIDE = 20


def parts(count: int, seed: int, alike: bool = False) -> tuple[Tensor, Tensor]:
    """Pictures (N, 1, SIDE, SIDE), and angles in degrees. ``alike``: both ends are."""
    draw = torch.Generator().manual_seed(seed)
    degrees = 360 * torch.rand(count, generator=draw)
    angle = torch.deg2rad(degrees).view(-1, 1, 1)
    middle = 9.5 + torch.randn(2, count, 1, 1, generator=draw).clamp(-2, 2)
    place = torch.arange(SIDE)
    x, y = place.view(1, 1, -1) - middle[0], middle[1] - place.view(1, -1, 1)
    along, beside = x * angle.cos() + y * angle.sin(), y * angle.cos() - x * angle.sin()
    width = 0 * along + 1.8 if alike else 1.8 - 0.3 * along
    part = ((along.abs() - 5) * 2).neg().sigmoid() * ((beside.abs() - width) * 2).neg().sigmoid()
    light = 0.6 + 0.5 * torch.rand(count, 1, 1, generator=draw)
    streaks = 0.1 * torch.randn(count, 1, SIDE, generator=draw)
    noise = 0.08 * torch.randn(count, SIDE, SIDE, generator=draw)
    return (part * light + streaks + noise)[:, None], degrees


def network(last: str) -> nn.Sequential:
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * 25, 48), nn.ReLU(), nn.Linear(48, 2),
    )  # fmt: skip
    if last:
        model.append({"relu": nn.ReLU(), "tanh": nn.Tanh()}[last])
    return model


def wanted_of(degrees: Tensor, fault: str, turns: int) -> Tensor:
    """Sine and cosine, (N, 2)."""
    angle = degrees if fault == "degrees as radians" else degrees * math.pi / 180
    both = torch.stack([(turns * angle).sin(), (turns * angle).cos()])
    return both.view(-1, 2) if fault == "viewed, not turned" else both.T


def loss_of(kind: str, found: Tensor, wanted: Tensor) -> Tensor:
    if kind == "likelihood":  # von Mises': the length of the output is the concentration
        length = found.norm(dim=1)
        scaled = torch.special.i0e(length).log() + length
        return (scaled - (found * wanted).sum(1)).mean()
    return F.mse_loss(found, wanted)


def train(
    seed: int, hook: Any, loss: str = "squares", steps: int = 600, rate: float = 3e-3,
    batch: int = 32, optimizer: str = "adam", schedule: str = "constant", last: str = "",
    noise: float = 0.0, turns: int = 1, alike: bool = False, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, degrees = parts(2000, seed + 9400, alike)
    held_x, held_degrees = parts(300, seed + 9401, alike)
    test_x, test_degrees = parts(600, seed + 9402, alike)
    if noise:
        wrong = torch.rand(len(x)) < noise
        degrees = torch.where(wrong, (degrees + 180) % 360, degrees)
    wanted = wanted_of(degrees, fault, turns)
    held_wanted = wanted_of(held_degrees, fault, turns)
    model = network(last)
    hook.torch(model)
    stepper = optimizer_of(optimizer, model.parameters(), rate)
    scheduler = scheduler_of(stepper, schedule, steps)
    for step in range(1, steps + 1):
        model.train()
        rows = torch.randint(len(x), (batch,))
        picture = x[rows]
        if fault == "turned without the label":
            picture = picture.rot90(int(torch.randint(4, ())), (2, 3))
        error = loss_of(loss, model(picture), wanted[rows])
        if fault != "gradients kept":
            stepper.zero_grad()
        error.backward()
        stepper.step()
        scheduler.step()
        if step % 100 == 0:
            model.eval()
            with torch.no_grad():
                loss_of(loss, model(held_x), held_wanted)
    model.eval()
    with torch.no_grad():
        found = model(test_x)
    angle = torch.rad2deg(torch.atan2(found[:, 0], found[:, 1])) / turns
    round_trip = 180 if alike else 360
    error = (angle - test_degrees + round_trip / 2) % round_trip - round_trip / 2
    return 1 - float(error.abs().mean()) / (round_trip / 4)


CASES = cases(
    "object angle",
    train,
    {
        "plain": {},
        "tanh at the end": {"last": "tanh"},
        "likelihood on the circle": {"loss": "likelihood", "rate": 2e-3, "steps": 800},
        "ends alike, angle doubled": {"alike": True, "turns": 2},
        "momentum, one cycle": {"optimizer": "momentum", "rate": 6e-2, "schedule": "one cycle"},
        "one in fifty back to front": {"noise": 0.02, "steps": 800},
    },
    {
        "degrees as radians": ("no-skill overfit", {"fault": "degrees as radians"}),
        "viewed, not turned": ("no-skill overfit", {"fault": "viewed, not turned"}),
        "turned without the label": ("no-skill", {"fault": "turned without the label"}),
        "relu at the end": ("range dead", {"last": "relu"}),
        "ends alike": ("no-skill collapse", {"alike": True, "fault": "ends alike"}),
    },
)
