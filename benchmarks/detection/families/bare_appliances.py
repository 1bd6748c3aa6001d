"""Which appliance was switched on, by its current: a 1D network; saved as values, without a hook.

Made-up curves of 64 samples of the current, in ampere: kettle, fridge, drill, oven, lamp, washer.
Each begins at another moment and lies above the current of the rest of the house. The skill is
accuracy above the most frequent.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from benchmarks.detection.families.kit import (
    begin,
    class_skill,
    optimizer_of,
    save_values,
    scheduler_of,
)
from tocsin_hooks import Hook, modes
from torch import Tensor, nn

from benchmarks.detection.case import cases

KINDS, LENGTH = 6, 64


def curves(count: int, seed: int, rare: bool = False) -> tuple[Tensor, Tensor]:
    """Currents (N, 1, LENGTH) and kinds."""
    draw = torch.Generator().manual_seed(seed)
    share = torch.tensor([0.8, 0.1, 0.04, 0.03, 0.02, 0.01]) if rare else torch.ones(KINDS)
    kind = torch.multinomial(share, count, replacement=True, generator=draw)
    begins = torch.randint(4, 24, (count, 1), generator=draw)
    t = (torch.arange(LENGTH) - begins).clamp(min=0).float()
    on = (torch.arange(LENGTH) >= begins).float()
    size = 2.0 * (0.4 * torch.randn(count, 1, generator=draw)).exp()
    phase = 6.28 * torch.rand(count, 1, generator=draw)
    shapes = torch.stack(
        [
            torch.ones_like(t),  # even
            0.6 + 2.0 * (-t / 2).exp(),  # an inrush
            0.8 + 0.4 * torch.sin(1.6 * t + phase),  # a hum
            ((t % 16) < 8).float(),  # a thermostat
            1 - (-t / 10).exp(),  # comes up
            0.7 + 0.5 * torch.sin(0.35 * t + phase),  # turns slowly
        ]
    )
    own = shapes[kind, torch.arange(count)] * on * size
    house = 10 + 5 * torch.rand(count, 1, generator=draw)
    x = house + own + 0.35 * torch.randn(count, LENGTH, generator=draw)
    return x[:, None], kind


class Net(nn.Module):
    def __init__(self, norm: str, dropout: float, fault: str) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(1, 12, 7, stride=2), nn.Conv1d(12, 24, 5, stride=2)
        self.norm = nn.GroupNorm(4, 24) if norm == "group" else nn.Identity()
        self.drop = nn.Dropout(dropout)
        self.fc = nn.Linear(24 * 2, KINDS)
        self.softmax = nn.Softmax(dim=0 if fault == "softmax over the batch" else 1)
        self.fault = fault
        if fault == "all weights alike":
            for p in self.parameters():
                nn.init.constant_(p, 0.01)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.norm(self.conv2(torch.relu(self.conv1(x)))))
        h = self.drop(torch.cat([h.mean(2), h.amax(2)], 1))
        scores: Tensor = self.fc(h)
        if self.fault in ("softmax over the batch", "softmax twice"):
            scores = self.softmax(scores)
        return scores


def train(
    seed: int, hook: Any, steps: int = 1000, rate: float = 5e-3, batch: int = 32,
    optimizer: str = "adam", decay: float = 0.0, schedule: str = "constant", smoothing: float = 0.0,
    norm: str = "", dropout: float = 0.0, accumulate: int = 1, frozen_until: int = 0,
    rare: bool = False, noise: float = 0.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    (x, y), (held_x, held_y) = curves(3000, 70 + seed, rare), curves(300, 170 + seed)
    test_x, test_y = curves(1500, 270 + seed)
    mean, std = x.mean(), x.std()
    x, held_x, test_x = (x - mean) / std, (held_x - mean) / std, (test_x - mean) / std
    if fault == "currents in milliampere":  # nobody scaled them
        x, held_x, test_x = ((part * std + mean) * 1000 for part in (x, held_x, test_x))
    if noise:
        y = torch.where(torch.rand(len(y)) < noise, torch.randint(KINDS, y.shape), y)
    if fault == "curves shuffled alone":
        x = x[torch.randperm(len(x))]
    model = Net(norm, dropout, fault)
    criterion = nn.CrossEntropyLoss(label_smoothing=smoothing)
    opt = optimizer_of(optimizer, model.parameters(), rate, decay)
    scheduler = scheduler_of(opt, schedule, steps)
    recorded = Hook(hook.folder, save_interval=hook.options.get("save_interval"))
    for step in range(steps):
        model.train()
        for name, p in model.named_parameters():
            p.requires_grad_(step >= frozen_until or name.startswith("fc"))
        opt.zero_grad()
        for _ in range(accumulate):
            rows = torch.randint(len(x), (batch,))
            loss = criterion(model(x[rows]), y[rows])
            (loss / accumulate).backward()
        opt.step()
        scheduler.step()
        save_values(recorded, model, loss, name="train_loss")
        if (step + 1) % 100 == 0:
            model.eval()
            with torch.no_grad(), recorded.step(modes.EVAL):
                scores = model(held_x)
                recorded.save("val_loss", criterion(scores, held_y).item(), "losses", raw=True)
    recorded.close()
    model.eval()
    with torch.no_grad():
        scores = model(test_x)
    return class_skill(scores, test_y) if bool(scores.isfinite().all()) else math.nan


CASES = cases(
    "bare appliances",
    train,
    {
        "plain": {},
        "group norm, one cycle": {"norm": "group", "schedule": "one cycle", "rate": 1e-2},
        "label smoothing, dropout": {"smoothing": 0.1, "dropout": 0.1, "steps": 1300},
        "eight accumulated": {"batch": 8, "accumulate": 4},
        "convolutions frozen at first": {"frozen_until": 200, "steps": 1400},
        "momentum with restarts": {
            "optimizer": "momentum", "rate": 5e-2, "schedule": "restarts", "steps": 1500,
        },
        "some labels at random": {"noise": 0.15, "steps": 2000, "schedule": "cosine"},
    },
    {
        "currents in milliampere": (
            "inputs fast dead no-skill",
            {"fault": "currents in milliampere", "optimizer": "momentum", "rate": 1e-2},
        ),
        "all weights alike": ("dead no-skill collapse", {"fault": "all weights alike"}),
        "curves shuffled alone": ("no-skill overfit", {"fault": "curves shuffled alone"}),
        "softmax over the batch": (
            "softmax-axis probabilities slow",
            {"fault": "softmax over the batch", "optimizer": "momentum", "rate": 1e-2},
        ),
        "softmax twice, plain descent": (
            "probabilities slow no-skill",
            {"fault": "softmax twice", "optimizer": "sgd", "rate": 1e-2},
        ),
        "mostly kettles": ("imbalance", {"rare": True, "steps": 300}),
        "rate of 0.5": ("fast dead no-skill", {"rate": 0.5}),
    },
)  # fmt: skip
