"""Finds one object in a picture: where it is, and what it is; a sum of three losses."""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.detection.families.kit import begin, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIDE, KINDS = 16, 3


def scenes(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Pictures, boxes (centre and size, in shares of the side), kinds, and whether one is there."""
    draw = torch.Generator().manual_seed(seed)
    x = 0.4 * torch.randn(count, 1, SIDE, SIDE, generator=draw)
    size = torch.randint(4, 9, (count,), generator=draw)
    at = torch.stack([torch.randint(0, SIDE - 8, (count,), generator=draw) for _ in range(2)], 1)
    kinds = torch.randint(KINDS, (count,), generator=draw)
    there = torch.rand(count, generator=draw) < 0.8
    steps = torch.arange(SIDE)
    down = (steps >= at[:, :1]) & (steps < at[:, :1] + size[:, None])
    right = (steps >= at[:, 1:]) & (steps < at[:, 1:] + size[:, None])
    inside = down[:, :, None] & right[:, None, :]
    lines = torch.stack(
        [torch.ones(SIDE, SIDE), *torch.meshgrid(steps % 2, steps % 2, indexing="ij")]
    )
    pattern = torch.where(lines[kinds] > 0, 1.5, -1.0)
    x[:, 0] += pattern * inside * there[:, None, None]
    centre = (at + size[:, None] / 2) / SIDE
    return x, torch.cat([centre, size[:, None] / SIDE], 1), kinds, there.float()


class Finder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(256, 64), nn.ReLU(),
        )  # fmt: skip
        self.box = nn.Linear(64, 3)
        self.kind = nn.Linear(64, KINDS)
        self.there = nn.Linear(64, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = self.body(x)
        return self.box(h), self.kind(h), self.there(h).squeeze(1)


def skill(model: nn.Module, held: tuple[Tensor, ...], scale: float) -> float:
    """Mean of how well boxes and kinds of the objects are found."""
    model.eval()
    with torch.no_grad():
        box, kind, _ = model(held[0] * scale)
    real = held[3] > 0
    error = ((box - held[1])[real] ** 2).mean() / held[1][real].var(0, unbiased=False).mean()
    right = (kind.argmax(1) == held[2])[real].double().mean().item()
    return ((1 - error.item()) + (right - 1 / KINDS) / (1 - 1 / KINDS)) / 2


def train(
    seed: int,
    hook: Any,
    rate: float = 2e-3,
    steps: int = 900,
    batch: int = 24,
    schedule: str = "constant",
    fault: str = "",
    scale: float = 1.0,
    optimizer: str = "adam",
    only: str = "",
    accumulate: int = 1,
    frozen_kinds: bool = False,
    evaluate: int = 150,
) -> float:
    begin(seed)
    scene, held = scenes(3000, seed + 70), scenes(400, seed + 71)
    model = Finder()
    where, which, whether = nn.SmoothL1Loss(beta=0.1), nn.CrossEntropyLoss(), nn.BCEWithLogitsLoss()
    chosen = [p for n, p in model.named_parameters() if only in n]
    stepper = optimizer_of(optimizer, chosen, rate)
    scheduler = scheduler_of(stepper, schedule, steps)
    hook.torch(model)
    for step in range(steps):
        stepper.zero_grad()
        for _ in range(accumulate):
            x, box, kind, there = (
                (part[torch.randint(3000, (batch,))] for part in scene)
                if (fault == "all shuffled")
                else (lambda rows: tuple(part[rows] for part in scene))(
                    torch.randint(3000, (batch,))
                )
            )
            found, kinds, sure = model(x)
            real = there > 0
            if fault == "boxes of others":
                box = box[torch.randperm(batch)]
            if fault == "pixels":
                box = box * 1000
            kinds = kinds.softmax(1) if fault == "softmax" else kinds
            place = (
                where(found[:, :1], box[:, 0])
                if fault == "broadcast"
                else where(found[real], box[real])
            )
            loss = 5 * place + which(kinds[real], kind[real]) + 0.5 * whether(sure, there)
            (loss / accumulate).backward()
        stepper.step()
        scheduler.step()
        if evaluate and step % evaluate == evaluate - 1:
            model.eval()
            with torch.no_grad():
                found, kinds, sure = model(held[0] * scale)
                where(found, held[1])
                which(kinds, held[2])
                whether(sure, held[3])
            model.train()
    return skill(model, held, scale)


CASES = cases(
    "object detection",
    train,
    {
        "plain": {},
        "warm-up": {"schedule": "warmup", "rate": 3e-3},
        "accumulation": {"accumulate": 4, "batch": 8, "steps": 700},
        "one cycle": {"schedule": "one cycle", "rate": 4e-3},
        "no evaluation": {"evaluate": 0},
        "batch of six": {"batch": 6, "steps": 2000},
    },
    {
        "everything shuffled": ("no-skill", {"fault": "all shuffled"}),
        "boxes of other pictures": ("no-skill", {"fault": "boxes of others"}),
        "(N, 1) against (N)": ("broadcast no-skill", {"fault": "broadcast"}),
        "boxes in pixels": ("range worse no-skill", {"fault": "pixels"}),
        "evaluation x 255": ("inputs", {"scale": 255.0}),
        "rate x 1000": ("fast no-skill dead", {"rate": 2.0}),
        "rate / 1000": ("slow no-skill", {"rate": 2e-6}),
        "body in no optimizer": ("unbound", {"only": "box"}),
    },
)
