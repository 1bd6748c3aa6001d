"""A frozen model learns a new task by low-rank adapters beside its layers, made by hand."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin, normal, optimizer_of, scheduler_of
from benchmarks.detection.skill import class_skill

SIZE, KINDS, WIDTH = 24, 6, 64


def samples(count: int, turn: float, seed: int) -> tuple[Tensor, Tensor]:
    x = normal(count, SIZE, seed=seed)
    hidden = torch.tanh(x @ (normal(SIZE, 6, seed=31) + turn * normal(SIZE, 6, seed=32)) / 2)
    return x, (hidden @ normal(6, KINDS, seed=33)).argmax(1)


class Adapted(nn.Module):
    def __init__(self, layer: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.randn(rank, layer.in_features) / layer.in_features**0.5)
        self.lora_b = nn.Parameter(torch.zeros(layer.out_features, rank))
        self.alpha = alpha / rank

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x) + self.alpha * (x @ self.lora_a.T) @ self.lora_b.T
        return out


def pretrained(seed: int) -> nn.Sequential:
    model = nn.Sequential(
        nn.Linear(SIZE, WIDTH),
        nn.GELU(),
        nn.Linear(WIDTH, WIDTH),
        nn.GELU(),
        nn.Linear(WIDTH, KINDS),
    )
    x, y = samples(6000, 0.0, seed)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(500):
        rows = torch.randint(len(x), (64,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
    return model


def train(
    seed: int,
    hook: Any,
    rate: float = 5e-3,
    steps: int = 1000,
    batch: int = 32,
    rank: int = 8,
    schedule: str = "constant",
    accumulate: int = 1,
    train_head: bool = True,
    turn: float = 0.8,
    fault: str = "",
    noise: float = 0.0,
    scale: float = 1.0,
) -> float:
    begin(seed)
    base = pretrained(seed + 110)
    (x, y), (held, held_y) = samples(6000, turn, seed + 111), samples(1000, turn, seed + 112)
    if fault == "shuffled":
        y = y[torch.randperm(len(y))]
    if fault == "off by one":
        y = (y + 1) % KINDS
    if noise:
        y = torch.where(torch.rand(len(y)) < noise, torch.randint(KINDS, (len(y),)), y)
    model = copy.deepcopy(base)
    model[0], model[2] = Adapted(model[0], rank, 16), Adapted(model[2], rank, 16)
    model[4].requires_grad_(train_head)
    if fault == "both halves zero":
        for part in (model[0], model[2]):
            nn.init.zeros_(part.lora_a)
    old = copy.deepcopy(model)  # an optimizer made before the adapters were put in place
    source = old if fault == "other model" else model
    named = [(n, p) for n, p in source.named_parameters() if p.requires_grad]
    parameters = [p for n, p in named if fault != "left out" or "lora" not in n]
    optimizer = optimizer_of("adamw", parameters, rate)
    scheduler = scheduler_of(optimizer, schedule, steps)
    criterion = nn.CrossEntropyLoss()
    hook.torch(model)
    for step in range(steps):
        optimizer.zero_grad()
        for _ in range(accumulate):
            rows = torch.randint(len(x), (batch,))
            scores = model(x[rows])
            scores = scores.softmax(1) if fault == "softmax" else scores
            (criterion(scores, y[rows]) / accumulate).backward()
        optimizer.step()
        scheduler.step()
        if step % 200 == 199:
            model.eval()
            with torch.no_grad():
                for start in range(0, 1000, 250):
                    criterion(model(held[start : start + 250] * scale), held_y[start : start + 250])
            model.train()
    model.eval()
    with torch.no_grad():
        return class_skill(model(held * scale), held_y)


CASES = cases(
    "low-rank adapters",
    train,
    {
        "plain": {},
        "head frozen": {"train_head": False, "steps": 1400},
        "rank two": {"rank": 2, "steps": 2000},
        "warm-up": {"schedule": "warmup"},
        "accumulation": {"batch": 8, "accumulate": 4},
        "labels with noise": {"noise": 0.05},
        "nearly the same task": {"turn": 0.4},
    },
    {
        "labels shuffled": ("no-skill overfit worse", {"fault": "shuffled"}),
        "both halves zero": (
            "no-gradient dead slow no-skill",
            {"fault": "both halves zero", "train_head": False, "turn": 3.0},
        ),
        "optimizer of the old model": ("unbound slow", {"fault": "other model"}),
        "adapters in no optimizer": ("unbound", {"fault": "left out", "turn": 3.0}),
        "evaluation x 255": ("inputs", {"scale": 255.0}),
        "rate x 1000": ("fast no-skill", {"rate": 5.0}),
        "rate / 1000": ("slow no-skill", {"rate": 5e-6}),
        "softmax before the loss": ("probabilities", {"fault": "softmax", "rate": 1e-4}),
    },
)
