"""Digits in two styles: bright ones with labels, and faded ones on grey without (DANN).

A domain classifier behind a reversed gradient makes the features of both styles alike. The skill is
the accuracy on the second style, above chance.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from benchmarks.detection.case import cases
from benchmarks.detection.families.kit import begin, class_skill

SEGMENTS = ("012456", "25", "02346", "02356", "1235", "01356", "013456", "025", "0123456", "012356")
STROKES = {
    "0": (2, 3, 4, 9), "1": (2, 7, 3, 4), "2": (2, 7, 8, 9), "3": (6, 7, 4, 9),
    "4": (7, 11, 3, 4), "5": (7, 11, 8, 9), "6": (10, 11, 4, 9),
}  # fmt: skip


def digits(count: int, seed: int, second: bool) -> tuple[Tensor, Tensor]:
    """(count, 1, 14, 14) and their labels."""
    draw = torch.Generator().manual_seed(seed)
    shapes = torch.zeros(10, 14, 14)
    for digit, lit in enumerate(SEGMENTS):
        for name in lit:
            top, bottom, left, right = STROKES[name]
            shapes[digit, top : bottom + 1, left : right + 1] = 1
    label = torch.randint(10, (count,), generator=draw)
    x = shapes[label][:, None]
    down, across = torch.randint(-2, 3, (2, count), generator=draw)
    moved = zip(x, down.tolist(), across.tolist(), strict=True)
    x = torch.stack([picture.roll(by, (1, 2)) for picture, *by in moved])
    if second:
        x = 0.3 + x * (0.5 + 0.3 * torch.rand(count, 1, 1, 1, generator=draw))
    x = x + (0.2 if second else 0.15) * torch.randn(x.shape, generator=draw)
    return (x - 0.2) / 0.4, label


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, strength: float) -> Tensor:
        context.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return -context.strength * gradients[0], None


class Adversarial(nn.Module):
    def __init__(self, norm: bool, outputs: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12) if norm else nn.Identity(),
            nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(12, 16, 3, padding=1), nn.BatchNorm2d(16) if norm else nn.Identity(),
            nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(144, 48), nn.ReLU(),
        )  # fmt: skip
        self.classes = nn.Linear(48, 10)
        self.domain = nn.Sequential(nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, outputs))

    def forward(self, x: Tensor, strength: float) -> tuple[Tensor, Tensor]:
        h = self.features(x)
        return self.classes(h), self.domain(Reversed.apply(h, strength))


def train(
    seed: int, hook: Any, steps: int = 1000, rate: float = 2e-3, most: float = 0.1,
    ramp: str = "sigmoid", norm: bool = True, outputs: int = 1, alternate: bool = False,
    optimizer: str = "adam", labelled: int = 0, rare: bool = False, summed: bool = False,
    smoothing: float = 0.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    first, label = digits(3000, seed + 300, False)
    second, named = digits(3000, seed + 301, True)
    held, wanted = digits(1500, 302, True)
    if fault == "second style in bytes":
        held = 100 * held + 100
    net = Adversarial(norm, outputs)
    hook.torch(net)
    groups = [
        {"params": [*net.features.parameters(), *net.classes.parameters()]},
        {"params": net.domain.parameters(), "lr": rate / 2},
    ]
    updates: Any = torch.optim.Adam(groups, rate)
    if optimizer == "momentum":
        updates = torch.optim.SGD(groups, rate, momentum=0.9, nesterov=True)
    # The rate of Ganin's paper
    rates = torch.optim.lr_scheduler.LambdaLR(updates, lambda s: (1 + 10 * s / steps) ** -0.75)

    def domain_loss(found: Tensor, kind: int) -> Tensor:
        if outputs == 2:
            target = torch.full((len(found),), kind)
            return F.cross_entropy(found, target, label_smoothing=smoothing)
        wanted = torch.full((len(found), 1), float(kind))
        how = "sum" if summed else "mean"
        return F.binary_cross_entropy_with_logits(found, wanted, reduction=how)

    order = label.argsort(stable=True) if fault == "sorted by digit" else torch.arange(3000)
    for step in range(steps):
        done = step / steps
        strength = most * (2 / (1 + math.exp(-10 * done)) - 1 if ramp == "sigmoid" else 1.0)
        rows = torch.randint(3000, (32,))
        if fault == "sorted by digit":
            rows = order[(torch.arange(32) + 3 * step) % 3000]
        other = torch.randint(3000, (8 if rare else 32,))
        if alternate:
            scores, here = net(first[rows], strength)
            there = net(second[other], strength)[1]
        else:
            scores, domain = net(torch.cat([first[rows], second[other]]), strength)
            scores, here, there = scores[:32], domain[:32], domain[32:]
        loss = F.cross_entropy(scores, label[rows], label_smoothing=smoothing, reduction=(
            "sum" if summed else "mean"
        ))  # fmt: skip
        loss = loss + domain_loss(here, 0) + domain_loss(there, 1)
        if labelled:
            some = torch.randint(labelled, (8,))
            loss = loss + 0.3 * F.cross_entropy(net(second[some], 0.0)[0], named[some])
        updates.zero_grad()
        loss.backward()
        updates.step()
        rates.step()
        if step % 100 == 99:
            net.eval()
            with torch.no_grad():
                for x, y in ((first[:300], label[:300]), (held[:300], wanted[:300])):
                    F.cross_entropy(net(x, 0.0)[0], y)
            net.train()
    net.eval()
    with torch.no_grad():
        return class_skill(net(held, 0.0)[0], wanted)


CASES = cases(
    "adversarial digits",
    train,
    {
        "plain": {},
        "two outputs, smoothed": {"outputs": 2, "smoothing": 0.1},
        "full strength at once": {"ramp": "none", "most": 0.1},
        "styles one after the other": {"alternate": True, "norm": False},
        "SGD with Nesterov": {"optimizer": "momentum", "rate": 2e-2},
        "some labels of the second": {"labelled": 50},
        "few of the second": {"rare": True},
        "sums over the batch": {"summed": True},
        "twice as long, stronger": {"steps": 2000, "most": 0.2, "rate": 1e-3},
    },
    {
        "second style in bytes": ("inputs overfit", {"fault": "second style in bytes"}),
        "sorted by digit": ("order no-skill", {"fault": "sorted by digit"}),
    },
)
