"""Which song was hummed: embeddings of pitch curves, in any key and pace, by a contrastive loss.

Two hums of a song shall lie near each other, and those of other songs far away. The skill is the
mean reciprocal rank, above chance, of the right one among a hundred songs that were never heard.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, optimizer_of
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.detection.case import cases

NOTES, FRAMES = 16, 48


def compose(count: int, draw: torch.Generator) -> Tensor:
    """Songs as MIDI numbers of their notes."""
    steps = torch.randint(-4, 5, (count, NOTES), generator=draw).float()
    return 60 + steps.cumsum(1) * 0.8 - steps.sum(1, keepdim=True) * 0.4


def hum(songs: Tensor, draw: torch.Generator, sloppy: float = 1.0) -> Tensor:
    """Pitch curves (N, FRAMES) of songs: another key, another pace, notes that are missed."""
    count = len(songs)
    key = torch.randint(-6, 7, (count, 1), generator=draw)
    octave = 12 * (torch.rand(count, 1, generator=draw) < 0.3)
    pace = 1 + 0.09 * sloppy * torch.randn(count, 1, generator=draw)
    sway = 0.03 * sloppy * torch.randn(count, 1, generator=draw)
    time = torch.linspace(0, 0.999, FRAMES)
    time = (time * pace + sway * torch.sin(6.3 * time)).clamp(0, 0.999)
    notes = songs + 0.4 * sloppy * torch.randn(songs.shape, generator=draw)
    curve = notes.gather(1, (time * NOTES).long()) + key + octave
    return curve + 0.4 * sloppy * torch.randn(curve.shape, generator=draw)


def prepare(curves: Tensor) -> Tensor:
    return (curves - 60) / 12


class Encoder(nn.Module):
    def __init__(self, size: int = 32) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(1, 16, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv1d(16, 32, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv1d(32, 32, 5, padding=2), nn.ReLU(),
            nn.Flatten(), nn.Linear(32 * FRAMES // 4, size),
        )  # fmt: skip
        self.log_scale = nn.Parameter(torch.tensor(math.log(10.0)))

    def forward(self, curves: Tensor) -> Tensor:
        return functional.normalize(self.layers(curves[:, None]), dim=1)


def info_nce(a: Tensor, b: Tensor, scale: Tensor) -> Tensor:
    return functional.cross_entropy(scale * a @ b.T, torch.arange(len(a)))


def both_ways(a: Tensor, b: Tensor, scale: Tensor) -> Tensor:
    return (info_nce(a, b, scale) + info_nce(b, a, scale)) / 2


def hard_triplets(a: Tensor, b: Tensor, scale: Tensor, margin: float = 0.4) -> Tensor:
    """The eight nearest of other songs are pushed away."""
    likeness = a @ b.T
    near = likeness.diagonal()
    others = likeness - 4 * torch.eye(len(a))
    return functional.relu(others.topk(8, dim=1).values - near[:, None] + margin).mean()


def attraction(a: Tensor, b: Tensor, scale: Tensor) -> Tensor:
    return (1 - (a * b).sum(1)).mean()


def swapped_triplets(a: Tensor, b: Tensor, scale: Tensor, margin: float = 0.3) -> Tensor:
    near, far = (a * b).sum(1), (a * b.roll(1, 0)).sum(1)
    return functional.relu(near - far + margin).mean()


LOSSES = {f.__name__: f for f in (info_nce, both_ways, hard_triplets, attraction, swapped_triplets)}


def rank_skill(queries: Tensor, database: Tensor, song: Tensor) -> float:
    likeness = queries @ database.T
    own = likeness.gather(1, song[:, None])
    rank = 1 + (likeness > own).sum(1) + ((likeness == own).sum(1) - 1) / 2
    chance = sum(1 / k for k in range(1, len(database) + 1)) / len(database)
    return ((1 / rank).mean().item() - chance) / (1 - chance)


def train(
    seed: int, hook: Any, loss: str = "info_nce", fault: str = "", steps: int = 1100,
    batch: int = 32, rate: float = 3e-3, optimizer: str = "adam", cosine: bool = True,
    songs: int = 600, scale: float | None = 10.0, lessons: bool = False, decay: float = 0.0,
    average: float = 0.0, key_momentum: float = 0.0, every: int = 100,
) -> float:  # fmt: skip
    begin(seed)
    draw = torch.Generator().manual_seed(11 * seed + 5)
    known, unheard = compose(songs, draw), compose(100, draw)
    song = torch.arange(100).repeat(8)
    database, queries = hum(unheard, draw, 0.2), hum(unheard[song], draw)

    database, queries = prepare(database), prepare(queries)
    model = Encoder()
    slow = copy.deepcopy(model).requires_grad_(False)  # of averaged weights, if any
    hook.torch(model)
    steering = optimizer_of(optimizer, model.parameters(), rate, decay)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(steering, steps)
    criterion = LOSSES[loss]
    for step in range(steps):
        model.train()
        chosen = torch.randperm(songs, generator=draw)[:batch]
        sloppy = min(1.0, 0.2 + 1.6 * step / steps) if lessons else 1.0
        first, second = (prepare(hum(known[chosen], draw, sloppy)) for _ in range(2))
        if fault == "second hums of other songs":
            second = second[torch.randperm(len(second))]
        with torch.set_grad_enabled(fault != "embedded without gradient"):
            a, b = model(first), (slow if key_momentum else model)(second)
        temperature = torch.tensor(scale) if scale else model.log_scale.exp().clamp(max=50)
        error = criterion(a, b, temperature)
        if fault != "gradients kept":
            steering.zero_grad()
        error.backward()
        steering.step()
        if cosine:
            scheduler.step()
        kept = key_momentum or average
        with torch.no_grad():
            for old, new in zip(slow.parameters(), model.parameters(), strict=True):
                old.lerp_(new, 1 - kept)
        if every and (step + 1) % every == 0:
            model.eval()
            with torch.no_grad():
                rank_skill(model(queries[:200]), model(database), song[:200])
    final = slow if average else model
    final.eval()
    with torch.no_grad():
        a, b = final(queries), final(database)
    return rank_skill(a, b, song) if bool(a.isfinite().all()) else math.nan


CASES = cases(
    "hummed tunes",
    train,
    {
        "plain": {},
        "both ways, scale learned": {"loss": "both_ways", "scale": None},
        "eight nearest of the others": {"loss": "hard_triplets"},
        "sloppier from lesson to lesson": {"lessons": True},
        "keys of averaged weights": {"key_momentum": 0.9},
        "large batches, heavy decay": {"batch": 64, "optimizer": "adamw", "decay": 0.1},
        "averaged weights, constant rate, no evaluation": {
            "average": 0.99, "cosine": False, "every": 0, "optimizer": "adamw", "decay": 0.05,
        },
    },
    {
        "attraction alone": ("collapse no-skill", {"loss": "attraction"}),
        "near and far swapped": ("no-skill worse collapse", {"loss": "swapped_triplets"}),
        "second hums of other songs": ("no-skill", {"fault": "second hums of other songs"}),
        "embedded without gradient": (
            "no-gradient unbound no-skill",
            {"fault": "embedded without gradient", "scale": None},
        ),
        "gradients kept": (
            "kept-gradients fast",
            {"fault": "gradients kept", "optimizer": "momentum", "rate": 5e-2},
        ),
        "six songs": ("overfit", {"songs": 6}),
    },
)  # fmt: skip
