"""Kinds of butterflies by a convolutional body that was trained on patterns of cloth before.

The body learns seven weaves first. Its state dict is loaded into a model with a new head, its first
layer stays frozen, the others get a lower rate than the head. Wings vary in colour, size and light;
the pattern alone tells the kind. The skill is accuracy above that of the most frequent kind.
"""

from __future__ import annotations

import copy
import functools
import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, class_skill
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIDE, WEAVES, KINDS = 16, 7, 6
MEAN, STD = 115.0, 60.0


def pattern(across: Tensor, down: Tensor, pitch: Tensor, phase: Tensor) -> list[Tensor]:
    a, d, s = pitch * across + phase, pitch * down + phase, pitch * (across + down) / 1.4 + phase
    o = pitch * (across - down) / 1.4 + phase
    checks, dots = a.sin() * d.sin(), a.sin() + d.sin() - 1
    return [a.sin(), d.sin(), s.sin(), o.sin(), checks, dots, s.sin() * o.sin() - 0.2]


def paint(where: Tensor, draw: torch.Generator) -> Tensor:
    """Two colours, that differ enough, as (N, 3, SIDE, SIDE)."""
    count = len(where)
    base = 60 + 110 * torch.rand(count, 3, 1, 1, generator=draw)
    sign = torch.where(torch.rand(count, 1, 1, 1, generator=draw) < 0.5, -1.0, 1.0)
    return base + sign * 40 * torch.tanh(3 * where[:, None]) * torch.rand_like(base).add(0.6)


def grid() -> tuple[Tensor, Tensor]:
    down, across = torch.meshgrid(*[torch.linspace(-1, 1, SIDE)] * 2, indexing="ij")
    return across, down


def cloths(count: int, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    kind = torch.randint(WEAVES, (count,), generator=draw)
    pitch = 7 + 4 * torch.rand(count, 1, 1, generator=draw)
    phase = 6.28 * torch.rand(count, 1, 1, generator=draw)
    picture = paint(torch.stack(pattern(*grid(), pitch, phase))[kind, torch.arange(count)], draw)
    return picture + 15 * torch.randn(picture.shape, generator=draw), kind


def butterflies(count: int, seed: int, share: tuple[int, ...] = (1,) * KINDS) -> Any:
    """Pictures (N, 3, SIDE, SIDE) of 0 to 255, and kinds."""
    draw = torch.Generator().manual_seed(seed)
    kind = torch.multinomial(torch.tensor(share).float(), count, True, generator=draw)
    across, down = grid()
    size = 0.8 + 0.3 * torch.rand(count, 2, 1, 1, generator=draw)
    aside = (across.abs() - 0.5 * size[:, 0]) / (0.5 * size[:, 0])
    wings = aside**2 + (down / size[:, 1]) ** 2 < 1
    pitch = 8 + 3 * torch.rand(count, 1, 1, generator=draw)
    phase = 6.28 * torch.rand(count, 1, 1, generator=draw)
    bands = pattern(across.abs().expand(count, SIDE, SIDE), down, pitch, phase)
    where = torch.stack([bands[n] for n in (0, 1, 2, 4, 5, 6)])[kind, torch.arange(count)]
    meadow = torch.tensor([80, 125, 60.0])[:, None, None]
    picture = torch.where(wings[:, None], paint(where, draw), meadow)
    picture = picture * (0.75 + 0.5 * torch.rand(count, 1, 1, 1, generator=draw))
    picture = picture + 15 * torch.randn(picture.shape, generator=draw)
    return picture.clamp(0, 255), kind


class Net(nn.Module):
    def __init__(self, classes: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU())
        self.body = nn.Sequential(
            nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(24, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        )  # fmt: skip
        self.dropout, self.head = nn.Dropout(dropout), nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        h = self.body(self.stem(x))
        scores: Tensor = self.head(self.dropout(torch.cat([h.mean((2, 3)), h.amax((2, 3))], 1)))
        return scores


@functools.cache
def weaves_learnt(seed: int, steps: int = 250) -> dict[str, Tensor]:
    begin(seed)
    x, kind = cloths(1500, seed + 800)
    model = Net(WEAVES)
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(steps):
        rows = torch.randint(len(x), (32,))
        loss = F.cross_entropy(model((x[rows] - MEAN) / STD), kind[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.state_dict()


def plan_of(optimizer: Any, kind: str, steps: int, per_epoch: int) -> Any:
    if kind == "warm-up, cosine":
        warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.05, total_iters=steps // 10)
        rest = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps - steps // 10)
        return torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, rest], [steps // 10])
    every = 7 if kind == "falls every seven batches" else 20 * per_epoch
    return torch.optim.lr_scheduler.StepLR(optimizer, every, 0.1)


def train(
    seed: int, hook: Any, steps: int = 700, batch: int = 16, rate: float = 4e-3,
    body_rate: float = 8e-4, optimizer: str = "adamw", schedule: str = "steps", count: int = 400,
    dropout: float = 0.0, smoothing: float = 0.0, accumulate: int = 1, clip: float = 0.0,
    unfrozen_at: int = 0, norms_fixed: bool = False, to_start: float = 0.0, half: bool = False,
    share: tuple[int, ...] = (1,) * KINDS, fault: str = "",
) -> float:  # fmt: skip
    before = weaves_learnt(seed)
    begin(seed)
    (x, y), (held_x, held_y) = butterflies(count, seed + 810, share), butterflies(300, seed + 820)
    test_x, test_y = butterflies(1200, seed + 830)
    x, served_by = (x - MEAN) / STD, (0.0, 255.0) if fault == "served as 0 to 1" else (MEAN, STD)
    held_x, test_x = ((part - served_by[0]) / served_by[1] for part in (held_x, test_x))
    if fault == "kinds listed in another order":
        y = y[torch.tensor(sorted(range(len(y)), key=str))]
    model = Net(KINDS, dropout)
    model.load_state_dict({k: v for k, v in before.items() if "head" not in k}, strict=False)
    if fault == "head replaced after the optimizer":
        model.head = nn.Linear(64, WEAVES)
    model.stem.requires_grad_(False)
    groups = [
        {"params": model.body.parameters(), "lr": body_rate},
        {"params": model.head.parameters()},
    ]
    updates: Any = torch.optim.AdamW(groups, rate, weight_decay=0.01)
    if optimizer == "momentum":
        updates = torch.optim.SGD(groups, rate, momentum=0.9)
    if fault == "head replaced after the optimizer":
        model.head = nn.Linear(64, KINDS)
    hook.torch(model)
    plan = plan_of(updates, schedule, steps, len(x) // batch)
    start = copy.deepcopy(model.body.state_dict())
    for step in range(steps):
        model.train()
        if norms_fixed:
            for part in model.modules():
                if isinstance(part, nn.BatchNorm2d):
                    part.eval()
        model.body.requires_grad_(step >= unfrozen_at)
        if fault != "gradients kept":
            updates.zero_grad()
        for _ in range(accumulate):
            rows = torch.randint(len(x), (min(batch, len(x)),))
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                scores = model(x[rows])
            loss = F.cross_entropy(scores.float(), y[rows], label_smoothing=smoothing)
            if to_start:  # the body is drawn back to what was loaded
                named = model.body.named_parameters()
                loss = loss + to_start * sum(((p - start[n]) ** 2).sum() for n, p in named)
            (loss / accumulate).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        updates.step()
        plan.step()
        if (step + 1) % 100 == 0:
            model.eval()
            with torch.no_grad():
                F.cross_entropy(model(held_x), held_y)
    model.eval()
    with torch.no_grad():
        scores = model(test_x)
    return class_skill(scores, test_y) if bool(scores.isfinite().all()) else math.nan


CASES = cases(
    "tuned butterflies",
    train,
    {
        "plain": {},
        "head alone at first": {"unfrozen_at": 300},
        "norms fixed, warm-up and cosine": {"norms_fixed": True, "schedule": "warm-up, cosine"},
        "momentum, clipped": {
            "optimizer": "momentum", "rate": 2e-2, "body_rate": 5e-3, "clip": 1.0,
        },
        "four at a time, four accumulated": {"batch": 4, "accumulate": 4, "norms_fixed": True},
        "drawn to the loaded weights": {"to_start": 0.01},
        "bfloat16, label smoothing, dropout": {"half": True, "smoothing": 0.1, "dropout": 0.2},
    },
    {
        "head replaced after the optimizer": (
            "unbound slow no-skill",
            {"fault": "head replaced after the optimizer", "body_rate": 1e-5},
        ),
        "served as 0 to 1": ("inputs worse", {"fault": "served as 0 to 1"}),
        "kinds listed in another order": (
            "no-skill overfit",
            {"fault": "kinds listed in another order"},
        ),
        "falls every seven batches": (
            "schedule slow no-skill",
            {"schedule": "falls every seven batches"},
        ),
        "body at a rate of 1": (
            "fast worse dead no-skill",
            {"optimizer": "momentum", "rate": 1.0, "body_rate": 1.0},
        ),
        "gradients kept": (
            "kept-gradients fast worse",
            {"fault": "gradients kept", "optimizer": "momentum", "rate": 2e-2, "body_rate": 5e-3},
        ),
        "mostly one kind": ("imbalance", {"share": (300, 1, 1, 1, 1, 1), "steps": 500}),
    },
)  # fmt: skip
