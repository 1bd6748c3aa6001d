"""Rare events in a signal of two channels: focal loss by hand, and a sampler with weights."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of, ranking_skill, scheduler_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from benchmarks.detection.case import cases

LENGTH = 40


def windows(count: int, seed: int, share: float = 0.03) -> tuple[Tensor, Tensor]:
    """Windows of noise; in a few of them one channel echoes a short chirp of the other."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 2, LENGTH, generator=draw) * torch.tensor([3.0, 20.0])[:, None]
    y = (torch.rand(count, generator=draw) < share).float()
    chirp = torch.sin(torch.arange(12) ** 2 / 12) * torch.hann_window(12)
    for row in y.nonzero().flatten().tolist():
        at = int(torch.randint(LENGTH - 16, (1,), generator=draw))
        x[row, 0, at : at + 12] += 3.0 * 2.6 * chirp
        x[row, 1, at + 4 : at + 16] -= 20.0 * 2.6 * chirp
    return x, y


class Detector(nn.Module):
    def __init__(self, prior: float, norm: bool) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(2, 16, 9, padding=4),
            nn.BatchNorm1d(16) if norm else nn.Identity(),
            nn.ReLU(),
            nn.Conv1d(16, 16, 7, padding=3),
            nn.ReLU(),
        )
        self.head = nn.Linear(32, 1)
        nn.init.constant_(self.head.bias, math.log(prior / (1 - prior)))

    def forward(self, x: Tensor) -> Tensor:
        seen = self.body(x)
        return self.head(torch.cat([seen.amax(2), seen.mean(2)], 1)).squeeze(1)


def focal(scores: Tensor, y: Tensor, gamma: float, alpha: float, fault: str = "") -> Tensor:
    """The mean of -α (1 - p)^γ log p, where p is the probability of what is true."""
    if fault == "sigmoid twice":
        scores = torch.sigmoid(scores)
    if fault == "not a number":  # the logarithm of a probability that was rounded to zero
        p = torch.sigmoid(12 * scores)
        return -(y * (1 - p) ** gamma * p.log() + (1 - y) * p**gamma * (1 - p).log()).mean()
    sign = 2 * y - 1
    p = torch.sigmoid(sign * scores)
    easy = p if fault == "easy ones first" else 1 - p
    each = -torch.where(y > 0.5, alpha, 1 - alpha) * easy**gamma * F.logsigmoid(sign * scores)
    return each.mean()


def train(
    seed: int, hook: Any, rate: float = 3e-3, epochs: int = 7, batch: int = 64,
    gamma: float = 2.0, alpha: float = 0.5, sampled: float = 1.0, schedule: str = "constant",
    norm: bool = True, clip: float = 0.0, noise: float = 0.0, prior: float = 0.5,
    factor: float = 1.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    (x, y), (held, held_y) = windows(7000, seed + 420), windows(3000, seed + 421)
    mean, spread = x.mean((0, 2), keepdim=True), x.std((0, 2), keepdim=True)
    x, held = (x - mean) / spread, (held - mean) / spread
    if fault == "channels in other order in evaluation":
        held = held.flip(1)
    if noise:
        y = torch.where(torch.rand(len(y)) < noise, 1 - y, y)
    counts = torch.bincount(y.long(), minlength=2).float()
    weights = (1 / counts[y.long()]) ** sampled
    if fault == "labels shifted by one":
        y = y.roll(1)
        weights = weights.roll(1)
    if fault == "weights of the events inverted":
        weights = counts[y.long()] ** 2
    if fault == "trained on few":
        x, y, weights = x[:150], y[:150], weights[:150]
    sampler = WeightedRandomSampler(weights.tolist(), 7000)
    loader = DataLoader(TensorDataset(x, y), batch, sampler=sampler)
    model = Detector(prior, norm)
    if fault == "dead units":
        nn.init.constant_(model.body[3].bias, -30.0)
    optimizer = optimizer_of("adam", model.parameters(), rate)
    scheduler = scheduler_of(optimizer, schedule, epochs * len(loader))
    hook.torch(model)
    for _ in range(epochs):
        for signals, events in loader:
            if fault == "no channel":
                signals = signals * 0
            scores = model(signals)
            if fault == "detached":
                scores = scores.detach() + model.head.bias
            loss = factor * focal(scores, events, gamma, alpha, fault)
            optimizer.zero_grad()
            (-loss if fault == "wrong sign" else loss).backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            scheduler.step()
        model.eval()
        with torch.no_grad():
            for part, wanted in zip(held.split(500), held_y.split(500), strict=True):
                focal(model(part), wanted, gamma, alpha)
        model.train()
    model.eval()
    with torch.no_grad():
        return ranking_skill(model(held), held_y)


CASES = cases(
    "rare events",
    train,
    {
        "plain": {},
        "events as rare as they are": {"sampled": 0.0, "alpha": 0.75, "prior": 0.03},
        "half as rare": {"sampled": 0.5, "prior": 0.15},
        "cross-entropy": {"gamma": 0.0},
        "strong focus, loss x 1000": {"gamma": 4.0, "factor": 1000.0},
        "no batch norm, warm-up": {"norm": False, "schedule": "warmup", "rate": 5e-3},
        "batch of 16, clipped": {"batch": 16, "clip": 0.02, "rate": 1e-3, "epochs": 4},
        "some events not seen": {"noise": 0.003},
    },
    {
        "labels shifted by one": ("no-skill overfit", {"fault": "labels shifted by one"}),
        "weights inverted": ("imbalance no-skill", {"fault": "weights of the events inverted"}),
        "focus on easy ones": ("no-skill worse", {"fault": "easy ones first", "gamma": 6.0}),
        "sigmoid twice": ("probabilities", {"fault": "sigmoid twice", "rate": 5e-5}),
        "logarithm of zero": ("not-finite", {"fault": "not a number", "rate": 1e-2}),
        "channels in other order in evaluation": (
            "inputs overfit",
            {"fault": "channels in other order in evaluation"},
        ),
        "signals all zero": ("inputs no-skill", {"fault": "no channel"}),
        "wrong sign": ("worse no-skill range", {"fault": "wrong sign"}),
        "dead units": ("dead no-skill no-gradient", {"fault": "dead units", "rate": 1e-3}),
        "scores detached": ("unbound no-gradient no-skill", {"fault": "detached"}),
        "trained on 150": ("overfit imbalance", {"fault": "trained on few"}),
        "rate / 1000": ("slow no-skill", {"rate": 1e-6, "epochs": 4}),
    },
)
