"""A recurrent network for signals: losses, weights and gradients as values, and nothing else."""

from __future__ import annotations

from typing import Any

import torch
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

LENGTH, CHANNELS, WIDTH = 16, 3, 24


def signals(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Three channels, and how long the first was positive while the second rose."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, LENGTH, CHANNELS, generator=draw)
    x[:, 1:] = 0.6 * x[:, :-1] + 0.8 * x[:, 1:]
    active = torch.sigmoid(4 * x[:, :, 0]) * torch.tanh(x[:, :, 1])
    late = torch.linspace(0.5, 1.5, LENGTH)
    y = (active * late).sum(1, keepdim=True) / 2
    return x, y + 0.1 * torch.randn(count, 1, generator=draw)


class Counter(nn.Module):
    def __init__(self, cell: str) -> None:
        super().__init__()
        kinds = {"gru": nn.GRU, "lstm": nn.LSTM, "plain": nn.RNN}
        self.rnn = kinds[cell](CHANNELS, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(x)[0][:, -1])


def huber(found: Tensor, y: Tensor, turn: float = 1.0) -> Tensor:
    error = (found - y).abs()
    return torch.where(error < turn, error**2 / 2, turn * (error - turn / 2)).mean()


def train(
    seed: int, hook: Any, cell: str = "gru", rate: float = 5e-3, steps: int = 900, batch: int = 48,
    clip: float = 1.0, schedule: str = "constant", lessons: bool = False, unit: float = 1.0,
    noise: float = 0.0, rows_used: int = 4000, evaluate: bool = True,
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    (x, y), (held, held_y) = signals(4000, seed + 620), signals(1000, seed + 621)
    x, y = x[:rows_used], y[:rows_used]
    if lessons:  # those with little to count first
        order = y.abs().flatten().argsort()
        x, y = x[order], y[order]
    if fault == "times turned":
        x = x.flip(1) * torch.tensor([1.0, -1.0, 1.0])
    if fault == "targets shifted by one":
        y = y.roll(1, 0)
    if noise:
        y = torch.where(torch.rand(len(y), 1) < noise, y[torch.randperm(len(y))], y)
    if fault == "evaluation not scaled":
        held = held * 50 + 20
    y, held_y = unit * y, unit * held_y
    model = Counter(cell)
    if fault == "gates shut":  # a GRU that keeps its first state
        model.rnn.bias_ih_l0.data[WIDTH : 2 * WIDTH] = 40.0
    if fault == "saturated":
        for name, value in model.rnn.named_parameters():
            value.data.mul_(100.0 if "weight" in name else 1.0)
    chosen = model.head if fault == "body left out" else model
    kind = "sgd" if fault == "gradients kept" else "adam"
    optimizer = optimizer_of(kind, chosen.parameters(), rate)
    scheduler = scheduler_of(optimizer, schedule, steps)
    recorded = Hook(hook.folder, save_interval=hook.options.get("save_interval"))
    for step in range(steps):
        known = len(x) if not lessons else min(len(x), 500 + int(1.5 * step * len(x) / steps))
        rows = torch.randint(known, (min(batch, known),))
        inputs = x[rows]
        if fault == "not a number" and step == 400:
            inputs = inputs / 0.0 * 0.0
        loss = huber(model(inputs), y[rows].T if fault == "each against all" else y[rows], unit)
        if fault != "gradients kept":
            optimizer.zero_grad()
        (-loss if fault == "wrong sign" else loss).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        scheduler.step()
        save_values(recorded, model, loss, "huber_loss")
        if evaluate and step % 100 == 99:
            with torch.no_grad(), recorded.step(modes.EVAL):
                value = huber(model(held), held_y, unit).item()
                recorded.save("huber_loss", value, "losses", raw=True)
    recorded.close()
    with torch.no_grad():
        return explained(model(held) / unit, held_y / unit)


CASES = cases(
    "bare recurrent",
    train,
    {
        "plain": {},
        "lstm": {"cell": "lstm", "rate": 1e-2},
        "lessons in order": {"lessons": True},
        "clipped at each step": {"clip": 0.02},
        "one cycle, no evaluation": {"schedule": "one cycle", "rate": 1e-2, "evaluate": False},
        "targets x 1000": {"unit": 1000.0, "rate": 3e-2, "steps": 1500, "clip": 0.0},
        "batch of eight": {"batch": 8, "rate": 3e-3, "steps": 1500},
        "some targets wrong": {"noise": 0.05},
    },
    {
        "targets shifted by one": ("no-skill overfit", {"fault": "targets shifted by one"}),
        "times turned in training": ("inputs overfit", {"fault": "times turned"}),
        "evaluation not scaled": ("inputs overfit", {"fault": "evaluation not scaled"}),
        "gates shut": ("saturated dead no-skill no-gradient", {"fault": "gates shut"}),
        "saturated": ("saturated dead no-skill", {"fault": "saturated", "rate": 1e-3}),
        "body in no optimizer": ("unbound", {"fault": "body left out"}),
        "each against all": ("broadcast no-skill", {"fault": "each against all"}),
        "wrong sign": ("worse", {"fault": "wrong sign"}),
        "gradients kept": (
            "kept-gradients fast worse",
            {"fault": "gradients kept", "rate": 0.1, "clip": 0.0},
        ),
        "not a number": ("not-finite", {"fault": "not a number"}),
        "memorises 50": ("overfit", {"rows_used": 50}),
        "rate / 1000": ("slow no-skill", {"rate": 5e-6, "steps": 600}),
        "rate x 200": ("fast worse no-skill dead saturated", {"rate": 1.0, "clip": 0.0}),
    },
)
