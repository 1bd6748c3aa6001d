"""Flaws of welds in radiographs, by a small residual network, in the form of torchvision's scripts.

There are functions for an epoch and for an evaluation, an average of the weights that is evaluated
if there is one, mixed pictures and bfloat16 for those who ask. The skill is the accuracy above
that of guessing, on other welds.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, class_skill
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

SIDE, KINDS = 16, 5  # sound, crack, pores, slag, undercut
MEAN, SPREAD = 128.0, 38.0


@dataclass(frozen=True)
class Args:
    lr: float = 0.05
    epochs: int = 10
    batch_size: int = 24
    opt: str = "sgd"
    weight_decay: float = 1e-4
    lr_scheduler: str = "cosine"
    warmup_epochs: int = 0
    label_smoothing: float = 0.0
    mixup: bool = False
    ema_decay: float = 0.0
    amp: bool = False
    clip_grad_norm: float = 0.0
    wrong_labels: float = 0.0
    frozen_epochs: int = 0
    samples: int = 1920
    fault: str = ""


def welds(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Radiographs (N, 1, SIDE, SIDE) from 0 to 255, and the flaw of each."""
    draw = torch.Generator().manual_seed(seed)

    def some(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(count, *shape, 1, 1, generator=draw)

    kind = torch.randint(KINDS, (count,), generator=draw)
    rows, columns = torch.arange(SIDE).view(-1, 1) * 1.0, torch.arange(SIDE).view(1, -1) * 1.0
    seam = some(6, 9)
    down, across = rows - seam, columns - some(4, 11)
    turn = some(0.5, 2.6)
    along, beside = across * turn.cos() + down * turn.sin(), down * turn.cos() - across * turn.sin()
    crack = ((beside.abs() < 0.7) & (along.abs() < 5)).float()
    pores = torch.zeros(count, SIDE, SIDE)
    for _ in range(4):
        near = (rows - seam - some(-3, 3)) ** 2 + (columns - some(1, 14)) ** 2 < 1.2
        pores = torch.maximum(pores, near.float())
    slag = ((across / 3.2) ** 2 + (down / 1.9) ** 2 < 1).float()
    undercut = ((down - 4.5 * some(-1, 1).sign()).abs() < 0.8).float().expand(-1, -1, SIDE)
    flaws = torch.stack([torch.zeros_like(pores), crack, pores, slag, undercut], 1)
    seen = flaws[torch.arange(count), kind] * some(30, 70)
    pixels = 90 + 80 * torch.exp(-((down / 4) ** 2)) - seen
    pixels = pixels + 11 * torch.randn(count, SIDE, SIDE, generator=draw)
    return pixels.clamp(0, 255).round()[:, None], kind


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, 2, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(out + self.shortcut(x))


class WeldNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 10, 3, 1, 1, bias=False), nn.BatchNorm2d(10))
        self.layer1, self.layer2 = Block(10, 16), Block(16, 32)
        self.fc = nn.Linear(32, KINDS)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer2(self.layer1(F.relu(self.stem(x)))).mean((2, 3))
        out: Tensor = self.fc(x)
        return out


def train_one_epoch(
    model: nn.Module, ema: nn.Module | None, loader: Any, optimizer: Any, scheduler: Any, args: Args
) -> None:
    model.train()
    for image, target in loader:
        other = target
        share = 1.0
        if args.mixup or args.fault == "pictures mixed, labels of the other":
            share = float(torch.distributions.Beta(0.4, 0.4).sample())
            share = max(share, 1 - share)
            order = torch.randperm(len(image))
            image, other = share * image + (1 - share) * image[order], target[order]
        if args.fault == "pictures mixed, labels of the other":
            share = 1 - share
        with torch.autocast("cpu", torch.bfloat16, enabled=args.amp):
            output = model(image)
            loss = share * F.cross_entropy(output, target, label_smoothing=args.label_smoothing)
            if share < 1:
                loss = loss + (1 - share) * F.cross_entropy(output, other)
        if args.fault != "zero_grad forgotten":
            optimizer.zero_grad()
        loss.backward()
        if args.clip_grad_norm:
            nn.utils.clip_grad_norm_(model.parameters(), args.clip_grad_norm)
        optimizer.step()
        if args.fault == "decay by epoch stepped by batch":
            scheduler.step()
        if ema is not None:
            new = model.state_dict()
            with torch.no_grad():
                for name, value in ema.state_dict().items():
                    if value.is_floating_point() and "running" not in name:
                        value.lerp_(new[name], 1 - args.ema_decay)
                    else:
                        value.copy_(new[name])
    scheduler.step()


@torch.inference_mode()
def evaluate(model: nn.Module, loader: Any) -> tuple[Tensor, Tensor]:
    model.eval()
    scores, targets = [], []
    for image, target in loader:
        scores.append(model(image))
        F.cross_entropy(scores[-1], target)
        targets.append(target)
    return torch.cat(scores), torch.cat(targets)


def train(seed: int, hook: Any, **changes: Any) -> float:
    args = Args(**changes)
    begin(seed)
    image, target = welds(args.samples, seed + 7100)
    if args.wrong_labels:
        chosen = torch.rand(len(target)) < args.wrong_labels
        target = torch.where(chosen, torch.randint(KINDS, target.shape), target)
    if args.fault == "labels in the order of another listing":
        target = target[torch.tensor(sorted(range(len(target)), key=str))]
    held, test = welds(240, seed + 7101), welds(700, seed + 7102)
    scaled = args.fault != "normalised in training only"
    loader: Any = DataLoader(
        TensorDataset((image - MEAN) / SPREAD, target), args.batch_size, shuffle=True,
        drop_last=args.samples > args.batch_size,
    )  # fmt: skip
    held_loader, test_loader = (
        DataLoader(TensorDataset((x - MEAN) / SPREAD if scaled else x, y), 120)
        for x, y in (held, test)
    )
    model = WeldNet()
    body = [p for name, p in model.named_parameters() if not name.startswith("fc")]
    ema = copy.deepcopy(model) if args.ema_decay else None
    hook.torch(model)
    if args.opt == "adamw":
        optimizer: Any = torch.optim.AdamW(model.parameters(), args.lr, weight_decay=0.05)
    else:
        optimizer = torch.optim.SGD(
            model.parameters(), args.lr, momentum=0.9, weight_decay=args.weight_decay
        )
    rest = max(1, args.epochs - args.warmup_epochs)
    schedulers = torch.optim.lr_scheduler
    if args.lr_scheduler == "cosine":
        main: Any = schedulers.CosineAnnealingLR(optimizer, rest)
    else:
        main = schedulers.ExponentialLR(optimizer, 0.85)
    if args.warmup_epochs:
        warmup = schedulers.LinearLR(optimizer, 0.01, total_iters=args.warmup_epochs)
        main = schedulers.SequentialLR(optimizer, [warmup, main], [args.warmup_epochs])
    for epoch in range(args.epochs):
        for parameter in body:
            parameter.requires_grad_(epoch >= args.frozen_epochs)
        train_one_epoch(model, ema, loader, optimizer, main, args)
        evaluate(ema or model, held_loader)
    return class_skill(*evaluate(ema or model, test_loader))


CASES = cases(
    "weld flaws",
    train,
    {
        "plain": {},
        "mixup, labels smoothed": {"mixup": True, "label_smoothing": 0.1, "epochs": 12},
        "AdamW after a warm-up": {"opt": "adamw", "lr": 4e-3, "warmup_epochs": 3},
        "averaged weights evaluated": {"ema_decay": 0.98},
        "bfloat16, clipped": {"amp": True, "clip_grad_norm": 1.0},
        "body frozen for two epochs": {"frozen_epochs": 2, "epochs": 12},
        "one label of twenty wrong": {"wrong_labels": 0.05, "epochs": 12},
    },
    {
        "normalised in training only": ("inputs mode", {"fault": "normalised in training only"}),
        "labels in the order of another listing": (
            "no-skill overfit",
            {"fault": "labels in the order of another listing"},
        ),
        "averaged weights that hardly move": (
            "slow no-skill mode unbound",
            {"ema_decay": 0.9999},
        ),
        "decay by epoch stepped by batch": (
            "schedule slow no-skill",
            {"fault": "decay by epoch stepped by batch", "lr_scheduler": "exponential", "lr": 0.01},
        ),
        "pictures mixed, labels of the other": (
            "no-skill worse",
            {"fault": "pictures mixed, labels of the other"},
        ),
        "zero_grad forgotten": ("kept-gradients fast", {"fault": "zero_grad forgotten"}),
    },
)
