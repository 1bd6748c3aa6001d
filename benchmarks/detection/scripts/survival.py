"""Lifetimes, compared: Cox's partial likelihood by hand, where some lives are seen in part only."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin, dense, normal, optimizer_of, scheduler_of

SIZE = 10


def lives(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Features, how long each was watched, and whether the end was seen."""
    x = normal(count, SIZE, seed=seed)
    risk = 1.5 * torch.sin(x[:, 0]) + x[:, 1] * x[:, 2] + x[:, 3]
    draw = torch.Generator().manual_seed(seed + 1)
    end = -torch.rand(count, generator=draw).log() / (1.5 * risk).exp()
    watched = -torch.rand(count, generator=draw).log() * 3
    return x, torch.minimum(end, watched), (end <= watched).float()


def partial_likelihood(risk: Tensor, time: Tensor, seen: Tensor) -> Tensor:
    order = time.argsort(descending=True)
    risk, seen = risk[order], seen[order]
    return -((risk - risk.logcumsumexp(0)) * seen).sum() / seen.sum().clamp(min=1)


def concordance(risk: Tensor, time: Tensor, seen: Tensor) -> float:
    """The share of comparable pairs that are in order, less that of those out of order."""
    known = (time[:, None] < time[None]) & (seen[:, None] > 0)
    return torch.sign(risk[:, None] - risk[None])[known].double().mean().item()


def train(
    seed: int, hook: Any, rate: float = 2e-3, steps: int = 1500, batch: int = 64,
    schedule: str = "constant", decay: float = 1e-4, dropout: float = 0.0, fault: str = "",
    scale: float = 1.0, clip: float = 0.0, optimizer: str = "adamw", recorded: bool = False,
) -> float:  # fmt: skip
    begin(seed)
    (x, time, seen), held = lives(6000, seed + 210), lives(800, seed + 212)
    if fault == "shuffled":
        order = torch.randperm(len(x))
        time, seen = time[order], seen[order]
    if fault == "memorises":
        x, time, seen = x[:40], time[:40], seen[:40]
    if fault == "no end is seen":
        seen = torch.zeros_like(seen)
    layers = dense([SIZE, 48, 48, 1])
    model = nn.Sequential(*layers[:2], nn.Dropout(dropout), *layers[2:]) if dropout else layers
    if fault == "dead units":
        nn.init.constant_(model[0].bias, -40.0)
    source = dense([SIZE, 48, 48, 1]) if fault == "other model" else model
    stepper = optimizer_of(optimizer, source.parameters(), rate, decay)
    scheduler = scheduler_of(stepper, schedule, steps)
    watched = hook.torch(model)
    for step in range(steps):
        rows = torch.randint(len(x), (min(batch, len(x)),))
        inputs = x[rows] * (scale if fault == "train" else 1)
        if fault == "not a number" and step == 500:
            inputs = inputs / 0
        risk = model(inputs).squeeze(1)
        loss = partial_likelihood(-risk if fault == "wrong sign" else risk, time[rows], seen[rows])
        if recorded:
            watched.record_loss(loss)
        stepper.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        stepper.step()
        scheduler.step()
        if step % 300 == 299:
            model.eval()
            with torch.no_grad():
                partial_likelihood(model(held[0] * scale).squeeze(1), held[1], held[2])
            model.train()
    model.eval()
    with torch.no_grad():
        risk = model(held[0] * scale).squeeze(1)
    if not bool(torch.isfinite(risk).all()):
        return float("nan")
    return concordance(risk, held[1], held[2])


CASES = cases(
    "survival",
    train,
    {
        "plain": {},
        "loss recorded": {"recorded": True},
        "warm-up": {"schedule": "warmup", "rate": 4e-3},
        "dropout": {"dropout": 0.1},
        "batch of sixteen": {"batch": 16, "steps": 2400, "rate": 1e-3},
        "clipped": {"clip": 0.5},
    },
    {
        "lives shuffled": ("no-skill", {"fault": "shuffled"}),
        "wrong sign": ("no-skill", {"fault": "wrong sign"}),
        "no end is seen": ("no-gradient ignored no-skill", {"fault": "no end is seen"}),
        "memorises 40": ("overfit", {"fault": "memorises"}),
        "dead units": ("dead no-skill", {"fault": "dead units"}),
        "optimizer of another model": ("unbound slow", {"fault": "other model"}),
        "not a number": ("not-finite", {"fault": "not a number"}),
        "rate x 1000": ("fast no-skill dead", {"rate": 5.0}),
        "rate / 1000": ("slow no-skill", {"rate": 2e-6}),
    },
)
