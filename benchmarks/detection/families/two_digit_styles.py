"""Digits in two styles: labels in the one alone, domain adversarial training by gradient reversal.

Digits of seven segments on 12 by 12 cells; of the first style clean on dark ground with labels, of
the second without labels, paler on a slope of light. A classifier of digits and
one of styles share features, whose gradient from the styles is turned round. The skill is the
accuracy for the second style above that of the commonest digit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, class_skill
from torch import Tensor, nn
from torch.nn.functional import nll_loss
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

SEGMENTS = ("abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg")
CELLS = {
    "a": (0, 1, 0, 5), "g": (4, 5, 0, 5), "d": (8, 9, 0, 5), "f": (0, 5, 0, 1),
    "b": (0, 5, 4, 5), "e": (4, 9, 0, 1), "c": (4, 9, 4, 5),
}  # fmt: skip
SIZE = 12


def digits(count: int, seed: int, style: str) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    kind = torch.randint(10, (count,), generator=draw)
    shapes = torch.zeros(10, 9, 5)
    for number, segments in enumerate(SEGMENTS):
        for top, bottom, left, right in (CELLS[letter] for letter in segments):
            shapes[number, top:bottom, left:right] = 1
    x = torch.zeros(count, 1, SIZE, SIZE)
    places = torch.randint(3, (count, 2), generator=draw)
    for row, (digit, (down, aside)) in enumerate(zip(kind, places.tolist(), strict=True)):
        x[row, 0, down + 1 : down + 10, aside + 2 : aside + 7] = shapes[digit]
    if style == "second":
        slope = torch.linspace(-0.1, 0.1, SIZE)
        x = 0.15 + slope + 0.65 * x
        x = x + 0.1 * torch.randn(x.shape, generator=draw)
    return x + 0.15 * torch.randn(x.shape, generator=draw), kind


class Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, strength: float) -> Tensor:
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return -ctx.strength * gradients[0], None


class Network(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Dropout(dropout),
        )  # fmt: skip
        self.digit = nn.Linear(48, 10)
        self.style = nn.Sequential(nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x: Tensor, strength: float = 0.0) -> tuple[Tensor, Tensor]:
        found = self.features(x)
        turned: Tensor = Reversal.apply(found, strength)
        return self.digit(found), self.style(turned)[:, 0]


def endless(loader: Any) -> Iterator[list[Tensor]]:
    while True:
        yield from loader


def train(
    seed: int, hook: Any, steps: int = 2000, rate: float = 1e-3, batch: int = 16,
    optimizer: str = "adam", strength: float = 0.2, grows: bool = True, dropout: float = 0.0,
    smoothing: float = 0.0, weight: float = 1.0, two_passes: bool = False,
    evaluate_every: int = 250, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    first = TensorDataset(*digits(2500, seed + 9210, "first"))
    second = TensorDataset(*digits(2500, seed + 9211, "second"))
    held, held_y = digits(300, seed + 9212, "first")
    test, test_y = digits(800, seed + 9213, "second")
    if fault == "pixels of 0 to 255 in the other style":
        test = test * 255
    if fault == "digits shuffled apart":
        images, kinds = first.tensors
        first = TensorDataset(images, kinds[torch.randperm(len(kinds))])
    model = Network(dropout)
    hook.torch(model)
    if optimizer == "momentum":
        updates: Any = torch.optim.SGD(model.parameters(), rate, momentum=0.9, weight_decay=1e-4)
    elif optimizer == "three":
        groups = [{"params": p.parameters()} for p in (model.features, model.digit)]
        updates = torch.optim.AdamW(
            [*groups, {"params": model.style.parameters(), "lr": 3 * rate}], rate
        )
    else:
        owner = model.digit if fault == "features not in the optimizer" else model
        updates = torch.optim.Adam(owner.parameters(), rate)
    of_digits = nn.CrossEntropyLoss(label_smoothing=smoothing)
    of_styles = nn.BCEWithLogitsLoss()
    sources = (endless(DataLoader(part, batch, shuffle=True)) for part in (first, second))
    for step, ((x, y), (other_x, _)) in enumerate(zip(*sources, strict=True)):
        if step == steps:
            break
        now = strength
        if grows:
            now *= 2 / (1 + math.exp(-10 * step / steps)) - 1
        if fault == "pixels of 0 to 255 in the other style":
            other_x = other_x * 255
        if len(x) != len(other_x):
            continue
        if two_passes:
            scores, style = model(x, now)
            style = torch.cat([style, model(other_x, now)[1]])
        else:
            scores, style = model(torch.cat([x, other_x]), now)
            scores = scores[: len(x)]
        where = torch.cat([torch.zeros(len(x)), torch.ones(len(other_x))])
        if fault == "softmax over the batch":
            scores = scores.softmax(0)
        wrong = nll_loss(scores, y) if fault == "no logarithms" else of_digits(scores, y)
        loss = wrong + of_styles(style, where)
        updates.zero_grad()
        (weight * loss).backward()
        updates.step()
        if evaluate_every and step % evaluate_every == evaluate_every - 1:
            model.eval()
            with torch.no_grad():
                of_digits(model(held)[0], held_y)
            model.train()
    model.eval()
    with torch.no_grad():
        return class_skill(model(test)[0], test_y)


CASES = cases(
    "two digit styles",
    train,
    {
        "plain": {},
        "momentum": {"optimizer": "momentum", "rate": 0.01},
        "three groups, styles faster": {"optimizer": "three"},
        "reversed from the start": {"grows": False},
        "dropout, label smoothing": {"dropout": 0.1, "smoothing": 0.1, "steps": 2500},
        "a pass for each style": {"two_passes": True},
        "loss x 10000, not evaluated": {"weight": 1e4, "evaluate_every": 0},
    },
    {
        "reversal far too strong": (
            "collapse fast no-skill worse", {"strength": 100.0, "grows": False},
        ),
        "pixels of 0 to 255 in the other style": (
            "inputs fast worse", {"fault": "pixels of 0 to 255 in the other style"},
        ),
        "features not in the optimizer": (
            "unbound slow no-skill", {"fault": "features not in the optimizer"},
        ),
        "softmax over the batch": (
            "softmax-axis probabilities no-skill", {"fault": "softmax over the batch"},
        ),
        "digits shuffled apart": ("no-skill overfit", {"fault": "digits shuffled apart"}),
        "negative log likelihood of no logarithms": (
            "probabilities worse no-skill", {"fault": "no logarithms"},
        ),
    },
)  # fmt: skip
