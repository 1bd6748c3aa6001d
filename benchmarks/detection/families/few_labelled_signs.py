"""Signs of a few shapes, of which few have a label: weak and strong augmentation must agree.

A teacher of averaged weights names the weakly moved pictures, and the student, who sees them
strongly disturbed, learns those names that are sure. The skill is the student's accuracy, above
chance.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, class_skill
from torch import Tensor, nn
from torch.func import functional_call

from benchmarks.detection.case import cases

SIDE, KINDS = 12, 6


def signs(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Pictures (N, 1, SIDE, SIDE) of about unit spread, and the shape of each."""
    draw = torch.Generator().manual_seed(seed)
    kind = torch.randint(KINDS, (count,), generator=draw)
    place = torch.arange(SIDE) - 5.5
    shift = 2 * torch.rand(2, count, 1, 1, generator=draw) - 1
    down, across = place[:, None] - shift[0], place - shift[1]
    size = 3 + torch.rand(count, 1, 1, generator=draw)
    far = (down**2 + across**2).sqrt()
    shapes = torch.stack(
        [
            ((far - size).abs() < 1),
            ((down.abs().maximum(across.abs()) - size).abs() < 1),
            ((down.abs() < 1) | (across.abs() < 1)) & (far < size),
            ((down - across).abs() < 1.5) & (far < size + 1),
            far < size * 0.7,
            (down.abs() < 1) & (across.abs() < size + 1),
        ]
    )[kind, torch.arange(count)]
    light = 0.8 + 0.6 * torch.rand(count, 1, 1, generator=draw)
    picture = 2 * light * shapes + 0.35 * torch.randn(count, SIDE, SIDE, generator=draw)
    return picture[:, None] - 0.5, kind


def weak(x: Tensor) -> Tensor:
    moved = torch.randint(-1, 2, (2,))
    return x.roll((int(moved[0]), int(moved[1])), (2, 3))


def strong(x: Tensor) -> Tensor:
    hole = torch.randint(SIDE - 3, (2,))
    x = weak(x) * (0.7 + 0.6 * torch.rand(len(x), 1, 1, 1)) + 0.4 * torch.randn_like(x)
    x[:, :, hole[0] : hole[0] + 3, hole[1] : hole[1] + 3] = 0
    return x


def network(norm: str) -> nn.Sequential:
    first: Any = nn.Conv2d(1, 10, 3, padding=1)
    if norm == "spectral":
        first = nn.utils.parametrizations.spectral_norm(first)
    between: Any = nn.BatchNorm2d(10) if norm == "batch" else nn.GroupNorm(2, 10)
    return nn.Sequential(
        first, between, nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(10, 16, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(144, KINDS),
    )  # fmt: skip


def agreement(scores: Tensor, named: Tensor, how: str, sure: float) -> Tensor:
    """Of the student's scores with the teacher's."""
    chance = named.softmax(1)
    if how == "squared":
        return (scores.softmax(1) - chance).square().sum(1).mean()
    if how == "sharpened":
        return F.cross_entropy(scores, (2 * named).softmax(1))
    if how == "divergence":
        return F.kl_div(scores.log_softmax(1), chance, reduction="batchmean")
    kind = torch.where(chance.amax(1) > sure, chance.argmax(1), -1)
    if not bool((kind >= 0).any()):
        return scores.sum() * 0
    return F.cross_entropy(scores, kind, ignore_index=-1, reduction="sum") / len(kind)


def train(
    seed: int, hook: Any, how: str = "", norm: str = "group", weight: float = 1.0,
    ramp: int = 400, sure: float = 0.9, updates: int = 2000, rate: float = 3e-3,
    keep: float = 0.99, labelled: int = 90, teacher: str = "averaged", apart: bool = False,
    optimizer: str = "adam", odd: bool = False, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    known, wanted = signs(labelled, seed + 600)
    unknown, _ = signs(3000, seed + 601)
    if odd:
        unknown = torch.cat([unknown, torch.randn(300, 1, SIDE, SIDE)])
    held, test = signs(300, seed + 602), signs(1500, seed + 603)
    if fault == "labels in another order":
        wanted = wanted[torch.randperm(labelled)]
    net = network(norm)
    hook.torch(net)
    slow = copy.deepcopy(net).requires_grad_(False)
    if optimizer == "restarts":
        steps: Any = torch.optim.SGD(net.parameters(), 10 * rate, momentum=0.9, weight_decay=5e-4)
        plan: Any = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(steps, updates // 4)
    else:
        steps = torch.optim.Adam(net.parameters(), rate)
        plan = torch.optim.lr_scheduler.CosineAnnealingLR(steps, updates, rate / 20)
    for update in range(updates):
        few, many = torch.randint(labelled, (12,)), torch.randint(len(unknown), (24,))
        x, y, free = weak(known[few]), wanted[few], unknown[many]
        with torch.no_grad():
            if teacher == "itself":
                named = net(weak(free))
            elif teacher == "functional":
                named = functional_call(net, dict(slow.named_parameters()), (weak(free),))
            else:
                named = slow(weak(free))
        if apart:
            scores, guesses = net(x), net(strong(free))
        else:
            scores, guesses = net(torch.cat([x, strong(free)])).split([12, 24])
        share = weight * min(1.0, update / ramp)
        alone = fault == "agreement alone"
        error = F.cross_entropy(scores, y) * (not alone) + share * agreement(
            guesses, named, how, sure
        )
        steps.zero_grad()
        error.backward()
        steps.step()
        plan.step()
        with torch.no_grad():
            now = [*net.parameters(), *net.buffers()]
            for old, new in zip([*slow.parameters(), *slow.buffers()], now, strict=True):
                if old.is_floating_point():
                    old.lerp_(new, 1 - keep)
        if update % 250 == 249:
            net.eval()
            with torch.no_grad():
                F.cross_entropy(net(held[0]), held[1])
                if teacher == "functional":
                    F.cross_entropy(net(strong(held[0])), held[1])
            net.train()
    net.eval()
    with torch.no_grad():
        return class_skill(net(test[0]), test[1])


CASES = cases(
    "few labelled signs",
    train,
    {
        "plain": {},
        "squared difference of chances": {"how": "squared", "weight": 3.0},
        "teacher sharpened": {"how": "sharpened"},
        "divergence": {"how": "divergence", "keep": 0.98},
        "its own teacher, batch norm": {"teacher": "itself", "norm": "batch"},
        "functional teacher, two evaluations": {"teacher": "functional"},
        "spectral norm, passes apart": {"norm": "spectral", "apart": True},
        "warm restarts of SGD": {"optimizer": "restarts"},
        "noise among the unlabelled": {"odd": True, "ramp": 1200},
        "little is sure": {"sure": 0.99, "weight": 2.0},
    },
    {
        "labels in another order": (
            "no-skill overfit worse collapse",
            {"fault": "labels in another order"},
        ),
        "agreement alone": (
            "collapse no-skill ignored",
            {"fault": "agreement alone", "how": "divergence"},
        ),
    },
)
