"""A transformer on patches of small pictures, trained with bfloat16 in one of its ways."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from benchmarks.detection.families.kit import LoopOptions, Split, begin, class_skill, fit, outputs
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIDE, PATCH, WIDTH, KINDS = 12, 4, 24, 4


def gratings(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Stripes in four directions, at any phase, in noise."""
    draw = torch.Generator().manual_seed(seed)
    kind = torch.randint(KINDS, (count,), generator=draw)
    phase = 2 * math.pi * torch.rand(count, 1, 1, generator=draw)
    turn = (kind * math.pi / KINDS).view(-1, 1, 1)
    place = torch.arange(SIDE).float()
    along = turn.cos() * place.view(1, -1, 1) + turn.sin() * place.view(1, 1, -1)
    x = torch.sin(1.6 * along + phase) + 0.6 * torch.randn(count, SIDE, SIDE, generator=draw)
    return x[:, None], kind


class Patches(nn.Module):
    def __init__(self, dropout: float, half: bool) -> None:
        super().__init__()
        self.half = half
        self.cut = nn.Conv2d(1, WIDTH, PATCH, PATCH)
        self.places = nn.Parameter(0.02 * torch.randn((SIDE // PATCH) ** 2 + 1, WIDTH))
        self.whole = nn.Parameter(torch.zeros(1, 1, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, 2, 2 * WIDTH, dropout, "gelu", batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, KINDS)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.half):
            h = self.cut(x).flatten(2).transpose(1, 2)
            h = torch.cat([self.whole.expand(len(h), -1, -1), h], 1) + self.places
            scores: Tensor = self.head(self.body(h)[:, 0])
        return scores.float()


def train(
    seed: int,
    hook: Any,
    loss: str = "",
    dropout: float = 0.0,
    half: bool = False,
    mixed: bool = False,
    turned: int = 0,
    dead: bool = False,
    **options: Any,
) -> float:
    begin(seed)
    how = replace(LoopOptions(steps=500, batch=24, rate=3e-3, schedule="warmup"), **options)
    data = Split(*gratings(3000, seed + 180), *gratings(400, seed + 181))
    if turned:
        data = replace(data, y=(data.y + turned) % KINDS)
    model = Patches(dropout, half)
    if dead:
        nn.init.zeros_(model.head.weight)
        model.head.weight.requires_grad_(False)
    plain = nn.CrossEntropyLoss(label_smoothing=0.1 if loss == "smooth" else 0.0)
    criterion: Any = {
        "": plain,
        "smooth": plain,
        "softmax": lambda scores, y: plain(scores.softmax(1), y),
        "axis": lambda scores, y: plain(scores.softmax(0), y),
        "squares": lambda scores, y: nn.MSELoss()(scores.argmax(1) + 0 * scores[:, 0], y.float()),
    }[loss]  # fmt: skip
    if mixed:
        how = replace(how, noise=0.2)
    fit(model, data, criterion, how, hook, seed)
    return class_skill(outputs(model, data, how), data.held_y)


CASES = cases(
    "vision transformer",
    train,
    {
        "plain": {},
        "bfloat16": {"half": True},
        "label smoothing": {"loss": "smooth"},
        "dropout": {"dropout": 0.1, "steps": 700},
        "labels with noise": {"mixed": True, "steps": 700},
        "accumulation": {"batch": 6, "accumulate": 4},
        "clipped": {"clip": 0.5, "optimizer": "adamw", "weight_decay": 0.05},
    },
    {
        "labels shuffled": ("no-skill", {"shuffled": True}),
        "labels off by one": ("overfit no-skill", {"turned": 1}),
        "softmax before the loss": ("probabilities", {"loss": "softmax", "rate": 1e-4}),
        "softmax over the batch": ("softmax-axis probabilities", {"loss": "axis"}),
        "loss of what has no gradient": ("no-gradient slow no-skill", {"loss": "squares"}),
        "head stays at zero": ("no-gradient collapse no-skill", {"dead": True}),
        "evaluation x 255": ("inputs", {"eval_scale": 255.0, "train_scale": 0.2}),
        "memorises 50": ("overfit", {"memorise": 50}),
        "optimizer of another model": ("unbound slow", {"other_model": True}),
        "rate x 1000": ("fast no-skill", {"rate": 3.0}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
    },
    seeds=(1, 1),
)
