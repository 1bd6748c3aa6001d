"""Flow matching: noise flows to points of a pattern, one for each of four kinds.

A network of point, time and kind gives a velocity; it learns that of straight lines from noise to
points, so that its loss never comes near zero. Points are drawn by Euler's steps. The skill is one
less the distance (energy distance) of drawn points to true ones, as a share of that of noise.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, dense, optimizer_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

KINDS = 4


def pattern(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Points: two rings, a wave and a cross, each far from the middle, and their kinds."""
    draw = torch.Generator().manual_seed(seed)
    kind = torch.randint(KINDS, (count,), generator=draw)
    along = 2 * torch.rand(count, generator=draw) - 1
    side = torch.randint(2, (count,), generator=draw).float()
    turn = math.pi * along
    ring = torch.stack([turn.cos(), turn.sin()], 1)
    wave = torch.stack([1.5 * along, (3 * along).sin()], 1)
    cross = torch.stack([along, along * (2 * side - 1)], 1)
    middle = torch.tensor([[2.0, 2.0], [-2.0, 2.0], [-2.0, -2.0], [2.0, -2.0]])
    points = torch.stack([0.5 * ring, ring, wave, cross])[kind, torch.arange(count)]
    return points + middle[kind] + 0.05 * torch.randn(count, 2, generator=draw), kind


class Velocity(nn.Module):
    def __init__(self, width: int, waves: int) -> None:
        super().__init__()
        self.register_buffer("waves", math.pi * torch.arange(1, waves + 1).float())
        self.kinds = nn.Embedding(KINDS + 1, 16)
        self.body = dense((2 + 2 * waves + 16, width, width, 2), nn.SiLU)

    def forward(self, x: Tensor, time: Tensor, kind: Tensor) -> Tensor:
        angle = time[:, None] * self.waves
        out: Tensor = self.body(torch.cat([x, angle.sin(), angle.cos(), self.kinds(kind)], 1))
        return out


@torch.no_grad()
def drawn(model: nn.Module, kind: Tensor, spread: float, steps: int = 40) -> Tensor:
    x = torch.randn(len(kind), 2)
    for step in range(steps):
        x = x + model(x, torch.full((len(x),), step / steps), kind) / steps
    return x * spread


def distance(a: Tensor, b: Tensor) -> float:
    """Energy distance of two sets of points."""
    apart = 2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()
    return float(apart)


class Trainer:
    def __init__(
        self, model: nn.Module, optimizer: Any, average: float, middle: bool, dropped: float,
        fault: str,
    ) -> None:  # fmt: skip
        self.model, self.optimizer, self.fault, self.dropped = model, optimizer, fault, dropped
        self.middle = middle
        self.averaged = torch.optim.swa_utils.AveragedModel(
            model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(average)
        )

    def loss(self, points: Tensor, kind: Tensor) -> Tensor:
        noise = torch.randn_like(points)
        time = torch.randn(len(points)).sigmoid() if self.middle else torch.rand(len(points))
        share = time[:, None]
        between = (1 - share) * noise + share * points
        turned = {"direction turned": noise - points, "points predicted": points}
        towards = turned.get(self.fault, points - noise)
        if self.dropped and self.model.training:
            kind = torch.where(torch.rand(len(kind)) < self.dropped, KINDS, kind)
        return F.mse_loss(self.model(between, time, kind), towards)

    def step(self, points: Tensor, kind: Tensor) -> None:
        if self.fault != "gradients kept":
            self.optimizer.zero_grad(set_to_none=True)
        self.loss(points, kind).backward()
        self.optimizer.step()
        self.averaged.update_parameters(self.model)


def train(
    seed: int, hook: Any, rate: float = 2e-3, epochs: int = 20, batch: int = 32, width: int = 64,
    optimizer: str = "adam", average: float = 0.995, middle: bool = False, dropped: float = 0.0,
    waves: int = 4, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    (points, kind), (held, held_kind), (test, test_kind) = (
        pattern(n, seed + 880 + i) for i, n in enumerate((4000, 400, 1000))
    )
    spread = float(points.std())
    points, held = points / spread, held / spread
    if fault == "kinds of other points":
        kind = kind[torch.randperm(len(kind))]
    model = Velocity(width, waves)
    hook.torch(model)
    stepper = optimizer_of(optimizer, model.parameters(), rate)
    trainer = Trainer(model, stepper, average, middle, dropped, fault)
    for epoch in range(epochs):
        model.train()
        for rows in DataLoader(TensorDataset(points, kind), batch, shuffle=True, drop_last=True):
            trainer.step(*rows)
        if epoch % 4 == 3:
            model.eval()
            with torch.no_grad():
                trainer.loss(held, held_kind)
    final = trainer.averaged.eval()
    found = drawn(final, test_kind, spread)
    if not bool(torch.isfinite(found).all()):
        return math.nan
    noise = torch.randn(len(test), 2) * spread
    far, without = (
        sum(distance(of[test_kind == k], test[test_kind == k]) for k in range(KINDS))
        for of in (found, noise)
    )
    return 1 - far / without


CASES = cases(
    "flow matching",
    train,
    {
        "plain": {},
        "times in the middle": {"middle": True},
        "kinds dropped": {"dropped": 0.15},
        "batch of 256": {"batch": 256, "epochs": 130, "rate": 4e-3},
        "SGD with momentum": {"optimizer": "momentum", "rate": 0.05},
    },
    {
        "direction turned": ("worse range no-skill", {"fault": "direction turned"}),
        "points predicted": ("range no-skill", {"fault": "points predicted"}),
        "gradients kept": (
            "kept-gradients fast worse not-finite",
            {"fault": "gradients kept", "optimizer": "momentum", "rate": 0.05},
        ),
        "kinds of other points": ("no-skill overfit ignored", {"fault": "kinds of other points"}),
        "average of the start": ("slow unbound", {"average": 0.99999}),
    },
)
