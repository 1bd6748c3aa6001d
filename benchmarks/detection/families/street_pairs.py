"""Which of two streets looks more pleasant: a siamese network ranks small photos by pairs.

People saw two photos and chose one. Both go through the same convolutions to one score, and the
margin ranking loss puts the chosen one above the other. The skill is the share of
right pairs, less that of wrong ones, of streets that were never seen.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, normal, optimizer_of, scheduler_of
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.detection.case import cases

SIDE = 12


def photos(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """(N, 3, 12, 12) bytes, and how pleasant each street is: sky and trees, less red lorries."""
    draw = torch.Generator().manual_seed(seed)
    sky, trees = torch.rand(2, count, generator=draw)
    lorries = torch.randint(4, (count,), generator=draw)
    photo = 70 + 15 * normal(count, 3, SIDE, SIDE, seed=seed + 1)
    photo[:, 2, :4] += 120 * sky[:, None, None]
    for street in range(count):
        left, height = int(torch.randint(7, (1,), generator=draw)), int(1 + 5 * trees[street])
        photo[street, 1, 9 - height : 9, left : left + 5] += 90
        for _ in range(int(lorries[street])):
            at = int(torch.randint(SIDE - 2, (1,), generator=draw))
            photo[street, 0, 9:11, at : at + 3] += 60
    pleasant = 2.3 * sky + 1.7 * trees - 0.6 * lorries
    return photo.clamp(0, 255).byte(), (pleasant - pleasant.mean()) / pleasant.std()


def choices(pleasant: Tensor, pairs: int, mood: float, seed: int) -> tuple[Tensor, Tensor]:
    """(P, 2) of photos, and 1 where the first was chosen, -1 where the second was."""
    draw = torch.Generator().manual_seed(seed)
    shown = torch.randint(len(pleasant), (pairs, 2), generator=draw)
    shown = shown[shown[:, 0] != shown[:, 1]]
    gap = pleasant[shown[:, 0]] - pleasant[shown[:, 1]] + mood * normal(len(shown), seed=seed + 1)
    return shown, torch.where(gap > 0, 1.0, -1.0)


class StreetScore(nn.Module):
    def __init__(self, norm: bool = False, dropout: float = 0.0, softmax: bool = False) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8) if norm else nn.Identity(), nn.ReLU(),
            nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Sequential(
            nn.Linear(144, 32), nn.ReLU(), nn.Dropout(dropout), nn.Linear(32, 1),
            nn.Softmax(1) if softmax else nn.Identity(),
        )  # fmt: skip

    def forward(self, photo: Tensor) -> Tensor:
        score: Tensor = self.head(self.body(photo))
        return score


class Trainer:
    def __init__(self, model: StreetScore, loss: str, margin: float, fault: str) -> None:
        self.model, self.loss, self.margin, self.fault = model, loss, margin, fault
        self.criterion = nn.MarginRankingLoss(margin)

    def prepare(self, photo: Tensor, held: bool = False) -> Tensor:
        if held and self.fault == "colours in another order":
            photo = photo.flip(1)
        return (photo.float() / 255 - 0.35) / 0.2

    def error(self, first: Tensor, second: Tensor, chosen: Tensor) -> Tensor:
        """Scores are (N, 1)."""
        gap = chosen * (first - second).squeeze(1)
        if self.loss == "logistic":
            return functional.softplus(-gap).mean()
        if self.loss == "squared":
            return functional.relu(self.margin - gap).pow(2).sum()
        error: Tensor = self.criterion(first.squeeze(1), second.squeeze(1), chosen)
        return error

    def step(self, first: Tensor, second: Tensor, chosen: Tensor) -> Tensor:
        """Both photos in one pass."""
        scores = self.model(self.prepare(torch.cat([first, second])))
        return self.error(*scores.chunk(2), chosen)

    @torch.no_grad()
    def agreement(self, photo: Tensor, shown: Tensor, chosen: Tensor, loss: bool = True) -> float:
        """The share of pairs that are right, less that of wrong ones."""
        self.model.eval()
        scores = self.model(self.prepare(photo, held=True))
        first, second = scores[shown[:, 0]], scores[shown[:, 1]]
        if loss:
            self.error(first, second, chosen)
        self.model.train()
        if not bool(scores.isfinite().all()):
            return math.nan
        return ((first - second).squeeze(1).sign() * chosen).mean().item()


def batches(pairs: int, size: int, steps: int) -> Iterator[Tensor]:
    order = torch.randperm(pairs)
    for step in range(steps):
        at = step * size % (pairs - size)
        if at < size:
            order = torch.randperm(pairs)
        yield order[at : at + size]


def train(
    seed: int, hook: Any, loss: str = "margin", margin: float = 1.0, steps: int = 2000,
    rate: float = 1e-3, batch: int = 24, streets: int = 800, pairs: int = 6000, mood: float = 0.2,
    optimizer: str = "adam", schedule: str = "constant", decay: float = 0.0, norm: bool = False,
    dropout: float = 0.0, average: bool = False, losses_held: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    photo, pleasant = photos(streets, 5 * seed + 40)
    held_photo, held_pleasant = photos(500, 5 * seed + 7041)
    shown, chosen = choices(pleasant, pairs, mood, seed + 42)
    held = choices(held_pleasant, 400, mood, seed + 43)
    test = choices(held_pleasant, 2000, 0.0, seed + 44)
    if fault == "answers of other pairs":
        chosen = chosen[torch.randperm(len(chosen))]
    model = StreetScore(norm, dropout, fault == "softmax of one score")
    trainer = Trainer(model, loss, margin, fault)
    hook.torch(model)
    mean = copy.deepcopy(model)
    steering = optimizer_of(optimizer, model.parameters(), rate, decay)
    scheduler = scheduler_of(steering, schedule, steps)
    for step, rows in enumerate(batches(len(shown), batch, steps)):
        first, second = shown[rows].unbind(1)
        error = trainer.step(photo[first], photo[second], chosen[rows])
        if fault != "gradients kept":
            steering.zero_grad()
        error.backward()
        steering.step()
        scheduler.step()
        if average:
            with torch.no_grad():
                for kept, new in zip(mean.parameters(), model.parameters(), strict=True):
                    kept.lerp_(new, 0.01)
        if (step + 1) % 200 == 0:
            trainer.agreement(held_photo, *held, loss=losses_held)
    if average:
        model.load_state_dict(mean.state_dict())
    return trainer.agreement(held_photo, *test)


CASES = cases(
    "street pairs",
    train,
    {
        "plain": {},
        "logistic by hand, metric only": {"loss": "logistic", "losses_held": False},
        "squared hinge, summed": {"loss": "squared", "rate": 5e-4},
        "momentum, one cycle": {"optimizer": "momentum", "rate": 2e-2, "schedule": "one cycle"},
        "batch norm, eight pairs": {"norm": True, "batch": 8, "steps": 3000},
        "people in a mood, mean weights": {"mood": 0.8, "average": True},
        "dropout and decay": {"dropout": 0.3, "optimizer": "adamw", "decay": 0.1},
    },
    {
        "gradients kept": (
            "kept-gradients fast collapse not-finite",
            {"fault": "gradients kept", "optimizer": "momentum", "rate": 5e-3},
        ),
        "answers of other pairs": ("no-skill overfit", {"fault": "answers of other pairs"}),
        "softmax of one score": (
            "softmax-axis probabilities no-gradient collapse no-skill",
            {"fault": "softmax of one score"},
        ),
        "rate of 0.5": ("fast dead collapse no-skill", {"rate": 0.5}),
        "colours in another order": ("inputs worse overfit", {"fault": "colours in another order"}),
        "eight streets": ("overfit", {"streets": 8, "pairs": 200}),
    },
)
