"""Colours of grey pictures, as a class of colour for each pixel.

Toy landscapes have sky, grass, a sun, a house with stripes, a lake with waves and a road, each of
its own colour and of any brightness. A convolutional network chooses among six colours. The skill
is the mean recall over colours, above chance.
"""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.detection.families.kit import balanced_skill, begin
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

SIDE, COLOURS = 20, 6
SKY, GRASS, SUN, HOUSE, LAKE, ROAD = range(COLOURS)


def landscapes(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Lightness (count, 1, SIDE, SIDE) from 0 to 100, and colours (count, SIDE, SIDE)."""
    draw = torch.Generator().manual_seed(seed)
    of = torch.rand(12, count, 1, 1, generator=draw)
    down, across = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    horizon = 7 + 4 * of[0]
    colour = torch.where(down < horizon, SKY, GRASS)
    light = torch.where(down < horizon, 50 + 35 * of[1], 30 + 35 * of[2]).clone()
    sun = (down - 1 - 4 * of[3]) ** 2 + (across - 2 - 15 * of[4]) ** 2 < 5
    house = ((down - horizon - 1).abs() < 3) & ((across - 3 - 13 * of[5]).abs() < 2.5)
    lake = ((down - 16) / 2.5) ** 2 + ((across - 3 - 13 * of[6]) / 5) ** 2 < 1
    road = (down > horizon) & ((across - SIDE * of[7] - (down - 12) * (of[8] - 0.5)).abs() < 1.5)
    rough = torch.randn(count, SIDE, SIDE, generator=draw)
    light = light + torch.where(colour == GRASS, 6.0, 1.5) * rough
    kinds = (
        (road, ROAD, 40 + 40 * of[11]),
        (lake, LAKE, 50 + 20 * of[9] + 14 * (2 * down).sin()),
        (house, HOUSE, 40 + 25 * of[10] + 12 * (2.5 * across).sin()),
        (sun, SUN, 80 + 20 * of[3] - 3 * rough),
    )
    for inside, kind, bright in kinds:
        colour = torch.where(inside, kind, colour)
        light = torch.where(inside, bright + 2 * rough, light)
    return light.clamp(0, 100)[:, None], colour


def network(width: int, down: bool, norm: bool) -> nn.Sequential:
    layers: list[nn.Module] = []
    inputs = 1
    for reach in (1, 1, 2, 4) if not down else (1, 1):
        layers += [nn.Conv2d(inputs, width, 3, padding=reach, dilation=reach)]
        layers += [nn.BatchNorm2d(width)] if norm else []
        layers += [nn.ReLU()]
        inputs = width
    if down:
        layers += [nn.Conv2d(width, 2 * width, 4, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU()]
        layers += [nn.Conv2d(2 * width, 2 * width, 5, padding=2), nn.ReLU()]
        layers += [nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(width, COLOURS, 1))


def train(
    seed: int, hook: Any, rate: float = 5e-3, epochs: int = 6, batch: int = 8, width: int = 12,
    down: bool = False, norm: bool = True, weights: str = "", optimizer: str = "adam",
    soft: float = 0.0, noise: float = 0.0, evaluated: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    (x, y), (held, held_y), (test, test_y) = (
        landscapes(n, seed + 505 + i) for i, n in enumerate((800, 64, 160))
    )
    share = torch.bincount(y.flatten(), minlength=COLOURS) / y.numel()
    if noise:
        wrong = torch.rand(len(y), SIDE // 4, SIDE // 4) < noise
        wrong = wrong.repeat_interleave(4, 1).repeat_interleave(4, 2)
        y = torch.where(wrong, torch.randint(COLOURS, y.shape), y)
    if fault == "lists of files in another order":
        y = y[torch.tensor(sorted(range(len(y)), key=str))]
    model = network(width, down, norm)
    hook.torch(model)
    balance = {"inverse": 1 / (share + 0.02), "share": share**2}.get(weights)
    criterion = nn.CrossEntropyLoss(
        weight=None if balance is None else balance / balance.mean(), label_smoothing=soft
    )
    chosen = model.parameters()
    optimizers: Any = {
        "adam": lambda: torch.optim.Adam(chosen, lr=rate),
        "nesterov": lambda: torch.optim.SGD(chosen, lr=rate, momentum=0.9, nesterov=True),
    }
    stepper = optimizers[optimizer]()

    def loss_of(scores: Tensor, wanted: Tensor) -> Tensor:
        if fault == "view without permute":
            return criterion(scores.reshape(-1, COLOURS), wanted.reshape(-1))
        if fault == "softmax over the batch":
            return nn.functional.nll_loss(scores.log_softmax(0), wanted)
        return criterion(scores, wanted)

    for _ in range(epochs):
        model.train()
        for grey, wanted in DataLoader(TensorDataset(x, y), batch, shuffle=True):
            stepper.zero_grad()
            loss = loss_of(model((grey - 50) / 25), wanted)
            loss.backward()
            stepper.step()
        if evaluated:
            model.eval()
            with torch.no_grad():
                grey = held / 100 if fault == "evaluation in shares" else (held - 50) / 25
                loss_of(model(grey), held_y)
    model.eval()
    with torch.no_grad():
        scores = model(test / 100 if fault == "evaluation in shares" else (test - 50) / 25)
    return balanced_skill(scores.movedim(1, -1).flatten(0, 2), test_y.flatten())


CASES = cases(
    "picture colours",
    train,
    {
        "plain": {},
        "smaller inside": {"down": True},
        "weights for rare colours": {"weights": "inverse"},
        "Nesterov, smoothed labels": {"optimizer": "nesterov", "rate": 0.1, "soft": 0.1},
        "wrong patches": {"noise": 0.08, "epochs": 7},
        "batch of two, no evaluation": {"batch": 2, "evaluated": False, "rate": 2e-3, "epochs": 4},
    },
    {
        "view without permute": ("broadcast no-skill", {"fault": "view without permute"}),
        "softmax over the batch": ("softmax-axis", {"fault": "softmax over the batch"}),
        "lists of files in another order": (
            "no-skill overfit",
            {"fault": "lists of files in another order"},
        ),
        "weights of frequent colours": ("imbalance collapse", {"weights": "share"}),
        "evaluation in shares": ("inputs overfit mode", {"fault": "evaluation in shares"}),
    },
)
