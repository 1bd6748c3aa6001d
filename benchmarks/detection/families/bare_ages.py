"""Ages from portraits by a convolutional network; losses, weights and gradients saved as values.

A face has wrinkles, grey hair and a mouth by its age, in any light and size; people differ in how
they age. The network says it in tens of years above forty. The skill is the share of the variance
of other people's ages that is explained.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import (
    begin,
    explained,
    optimizer_of,
    save_values,
    scheduler_of,
)
from tocsin_hooks import Hook, modes
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIDE = 16


def portraits(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Pictures (N, 1, SIDE, SIDE) in bytes, and ages (N,) in years."""
    draw = torch.Generator().manual_seed(seed)
    age = 5 + 80 * torch.rand(count, generator=draw)
    looks = ((age + 3 * torch.randn(count, generator=draw)) / 80).view(-1, 1, 1)
    down, across = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    x, y, size, light = torch.rand(4, count, 1, 1, generator=draw) - 0.5
    x, y, size = across - 7.5 - 2 * x, down - 8 - 2 * y, 6 + size
    face = ((x / size) ** 2 + (y / (size + 1)) ** 2 < 1).float()
    hair = ((y < -3.5) & (face > 0)).float()
    eyes = ((x.abs() - 2.5) ** 2 + (y + 1) ** 2 < 1.2).float()
    wrinkles = 70 * looks * (1.8 * y).sin() * ((y > 0) | (y < -1.5)) * (1 - hair)
    mouth = ((y - 4 - 0.1 * looks * x**2).abs() < 0.7).float() * (x.abs() < 3)
    tone = 150 + 20 * torch.randn(count, 1, 1, generator=draw)
    pixels = tone + wrinkles - 70 * eyes - 60 * mouth
    pixels = torch.where(hair > 0, 40 + 160 * looks**2, pixels)
    pixels = torch.where(face > 0, pixels, 90.0) * (1 + 0.3 * light)
    pixels = pixels + 10 * torch.randn(count, SIDE, SIDE, generator=draw)
    return pixels.clamp(0, 255)[:, None], age


def network(norm: bool, pooled: bool, last: str) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in ((1, 8), (8, 16)):
        layers.append(nn.Conv2d(inputs, outputs, 3, padding=1))
        layers += [nn.BatchNorm2d(outputs)] if norm else []
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(16, 24, 3, padding=1), nn.ReLU()]
    layers += [nn.AdaptiveAvgPool2d(1)] if pooled else []
    layers += [nn.Flatten(), nn.Linear(24 if pooled else 24 * 16, 32), nn.ReLU(), nn.Linear(32, 1)]
    layers += [nn.ReLU()] if last == "relu" else []
    return nn.Sequential(*layers)


def loss_of(kind: str, found: Tensor, wanted: Tensor) -> Tensor:
    """Of outputs (N, 1) and ages (N,)."""
    if kind == "of other shapes":
        return (found - wanted).square().mean()
    found = found.squeeze(1)
    each = {"absolute": F.l1_loss, "Huber": F.smooth_l1_loss}
    return each.get(kind, F.mse_loss)(found, wanted)


def train(
    seed: int, hook: Any, loss: str = "squares", rate: float = 2e-3, steps: int = 600,
    batch: int = 32, optimizer: str = "adam", schedule: str = "constant", decay: float = 0.0,
    norm: bool = True, pooled: bool = False, last: str = "", unit: float = 10.0,
    middle: float = 40.0, kept: bool = False, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    pixels, age = portraits(1500, seed + 10300)
    held, held_age = portraits(300, seed + 10301)
    test, test_age = portraits(600, seed + 10302)
    if fault == "names sorted as text":  # the labels' file lists 10.png before 2.png
        age = age[torch.tensor(sorted(range(1500), key=str))]
    x, held_x, test_x = ((part - 120) / 50 for part in (pixels, held, test))
    if fault == "bytes in evaluation":
        held_x, test_x = held, test
    wanted, held_wanted = (age - middle) / unit, (held_age - middle) / unit
    model = network(norm, pooled, last)
    stepper = optimizer_of(optimizer, model.parameters(), rate, decay)
    scheduler = scheduler_of(stepper, schedule, steps)
    recorded = Hook(hook.folder, save_interval=hook.options.get("save_interval"))
    for step in range(steps):
        rows = torch.randint(len(x), (batch,))
        picture = x[rows].flip(3) if torch.rand(()) < 0.5 else x[rows]
        error = loss_of(loss, model(picture), wanted[rows])
        if not kept:
            stepper.zero_grad()
        error.backward()
        stepper.step()
        scheduler.step()
        save_values(recorded, model, error)
        if step % 100 == 99:
            model.eval()
            with torch.no_grad(), recorded.step(modes.EVAL):
                value = loss_of(loss, model(held_x), held_wanted)
                recorded.save("loss", value.item(), "losses", raw=True)
            model.train()
    recorded.close()
    model.eval()
    with torch.no_grad():
        return explained(model(test_x).squeeze(1) * unit + middle, test_age)


CASES = cases(
    "bare ages",
    train,
    {
        "plain": {},
        "in years": {"unit": 1.0, "middle": 0.0, "rate": 5e-3, "steps": 1000},
        "absolute error, cosine": {"loss": "absolute", "schedule": "cosine"},
        "momentum with warm-up": {"optimizer": "momentum", "rate": 1e-2, "schedule": "warmup"},
        "batch of eight, no norm": {"batch": 8, "norm": False, "rate": 1e-3, "steps": 1200},
        "AdamW, Huber": {"optimizer": "adamw", "decay": 0.05, "loss": "Huber"},
    },
    {
        "loss of other shapes": ("broadcast no-skill collapse", {"loss": "of other shapes"}),
        "names sorted as text": ("no-skill overfit", {"fault": "names sorted as text"}),
        "relu at the end": ("range dead", {"last": "relu"}),
        "bytes in evaluation": ("inputs overfit", {"fault": "bytes in evaluation"}),
        "gradients kept": (
            "kept-gradients fast worse", {"kept": True, "optimizer": "momentum", "rate": 1e-2},
        ),
    },
)  # fmt: skip
