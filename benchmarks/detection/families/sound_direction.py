"""The angle from which a sound comes, by two microphones at the sides of a head.

Noise from all around reaches one side earlier and louder, and duller from behind. The network gets
phase differences and levels by frequency, and says sine and cosine of the angle. The skill is one
less the mean angular error as a share of that of guessing, 90 degrees.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

FREQUENCIES, FRAMES = 24, 6


def recordings(count: int, seed: int, noise: float) -> tuple[Tensor, Tensor]:
    """Features (N, 4 * FREQUENCIES) and angles in degrees, -180 to 180."""
    draw = torch.Generator().manual_seed(seed)
    angle = 360 * torch.rand(count, generator=draw) - 180
    radians = torch.deg2rad(angle)[:, None, None]
    pitch = torch.linspace(0.1, 1, FREQUENCIES)

    def spectrum() -> Tensor:
        shape = (count, FRAMES, FREQUENCIES, 2)
        return torch.view_as_complex(torch.randn(shape, generator=draw))

    source = spectrum()
    duller = torch.exp(-0.8 * pitch * (1 - radians.cos()))
    sides = []
    for side in (-1, 1):
        delay = torch.polar(torch.ones(1), side * 1.4 * pitch * radians.sin())
        shadow = torch.exp(-0.6 * pitch * (1 - side * radians.sin()))
        sides.append(source * duller * shadow * delay + noise * spectrum())
    left, right = sides
    between = (left * right.conj()).mean(1)
    between = between / between.abs()
    levels = [side.abs().square().mean(1).log() for side in sides]
    return torch.cat([between.real, between.imag, *levels], 1), angle


def swapped(x: Tensor) -> Tensor:
    """As if the microphones had been exchanged."""
    real, imaginary, left, right = x.chunk(4, 1)
    return torch.cat([real, -imaginary, right, left], 1)


class Trainer:
    def __init__(self, model: nn.Module, loss: str, fault: str) -> None:
        self.model, self.loss, self.fault = model, loss, fault

    def targets(self, angle: Tensor) -> Tensor:
        radians = angle if self.fault == "degrees" else torch.deg2rad(angle)
        both = torch.stack([radians.sin(), radians.cos()])
        return both.reshape(-1, 2) if self.fault == "reshaped" else both.T

    def criterion(self, said: Tensor, wanted: Tensor) -> Tensor:
        if self.loss == "negative cosine":
            return -nn.functional.cosine_similarity(said, wanted).mean()
        if self.loss == "absolute":
            return (said - wanted).abs().sum(1).mean()
        return nn.functional.mse_loss(said, wanted)

    def step(self, x: Tensor, angle: Tensor, autocast: bool) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            said = self.model(x)
        return self.criterion(said.float(), self.targets(angle))

    def evaluate(self, x: Tensor, angle: Tensor) -> float:
        """The mean angular error in degrees."""
        self.model.eval()
        with torch.no_grad():
            said = self.model(swapped(x) if self.fault == "swapped when used" else x)
            self.criterion(said, self.targets(angle))
        self.model.train()
        found = torch.rad2deg(torch.atan2(said[:, 0], said[:, 1]))
        apart = (found - angle).abs() % 360
        return float(torch.minimum(apart, 360 - apart).mean())


def train(
    seed: int, hook: Any, loss: str = "", steps: int = 2000, rate: float = 2e-3, batch: int = 64,
    optimizer: str = "adam", schedule: str = "constant", count: int = 4000, noise: float = 0.1,
    mirrored: bool = False, average: float = 0.0, autocast: bool = False, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    known, held, test = (
        recordings(n, 3 * seed + 700 + n, noise) for n in (count, 300, 1000)
    )  # fmt: skip
    model = nn.Sequential(
        nn.BatchNorm1d(4 * FREQUENCIES), nn.Linear(4 * FREQUENCIES, 64), nn.ReLU(),
        nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2),
        *([nn.ReLU()] if fault == "no negative output" else []),
    )  # fmt: skip
    hook.torch(model)
    trainer = Trainer(model, loss, fault)
    steering: Any = (
        torch.optim.SGD(model.parameters(), rate, momentum=0.9)
        if optimizer == "momentum"
        else torch.optim.Adam(model.parameters(), rate)
    )
    scheduler = scheduler_of(steering, schedule, steps)
    averaged = copy.deepcopy(model)
    for step in range(1, steps + 1):
        rows = torch.randint(count, (batch,))
        x, angle = known[0][rows], known[1][rows]
        if mirrored and step % 2:
            x, angle = swapped(x), -angle
        if fault == "mirrored without its angle" and step % 2:
            x = swapped(x)
        error = trainer.step(x, angle, autocast)
        if fault != "gradients kept":
            steering.zero_grad()
        error.backward()
        steering.step()
        scheduler.step()
        if average:
            for slow, fast in zip(averaged.parameters(), model.parameters(), strict=True):
                slow.data.lerp_(fast.data, 1 - average)
            averaged[0].load_state_dict(model[0].state_dict())
        if step % 200 == 0:
            trainer.evaluate(*held)
    if average:
        trainer.model = averaged
    error_in_degrees = trainer.evaluate(*test)
    return math.nan if math.isnan(error_in_degrees) else 1 - error_in_degrees / 90


CASES = cases(
    "sound direction",
    train,
    {
        "plain": {},
        "negative cosine": {"loss": "negative cosine"},
        "mirrored": {"mirrored": True},
        "momentum with restarts": {"optimizer": "momentum", "rate": 0.05, "schedule": "restarts"},
        "average of weights": {"average": 0.99, "rate": 5e-3},
        "quiet room": {"noise": 0.01},
        "autocast, absolute error": {"autocast": True, "loss": "absolute"},
    },
    {
        "degrees taken as radians": ("no-skill overfit range", {"fault": "degrees"}),
        "no negative output": ("range dead", {"fault": "no negative output"}),
        "reshaped instead of transposed": ("no-skill overfit", {"fault": "reshaped"}),
        "swapped when used": ("inputs worse", {"fault": "swapped when used"}),
        "mirrored without its angle": ("inputs collapse", {"fault": "mirrored without its angle"}),
        "gradients kept": ("kept-gradients fast", {"fault": "gradients kept"}),
    },
)
