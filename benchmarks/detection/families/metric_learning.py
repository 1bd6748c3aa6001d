"""Embeddings in which samples of one kind lie near each other, by triplets."""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.detection.families.kit import begin, dense, normal, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

KINDS, SIZE = 10, 24


def samples(count: int, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    centres = normal(KINDS, 6, seed=3)
    mixing = normal(6, SIZE, seed=4)
    kinds = torch.randint(KINDS, (count,), generator=draw)
    hidden = centres[kinds] + 0.35 * torch.randn(count, 6, generator=draw)
    noise = torch.randn(count, SIZE, generator=draw)
    return torch.tanh(hidden @ mixing) + 0.6 * noise, kinds


def neighbours(points: Tensor, kinds: Tensor) -> float:
    """How often the nearest other sample is of the same kind, above chance."""
    apart = torch.cdist(points, points) + 1e9 * torch.eye(len(points))
    right = (kinds[apart.argmin(1)] == kinds).double().mean().item()
    return (right - 1 / KINDS) / (1 - 1 / KINDS)


def train(
    seed: int,
    hook: Any,
    rate: float = 2e-3,
    steps: int = 1000,
    batch: int = 32,
    margin: float = 0.5,
    schedule: str = "constant",
    cosine: bool = False,
    shuffled: bool = False,
    swapped: bool = False,
    pulls: float = 0.0,
    frozen: bool = False,
    other: bool = False,
    train_scale: float = 1.0,
    activation: type[nn.Module] = nn.ReLU,
    bias: float = 0.0,
) -> float:
    begin(seed)
    (x, kinds), (held, held_kinds) = samples(2000, seed + 30), samples(500, seed + 31)
    if shuffled:
        kinds = kinds[torch.randperm(len(kinds))]
    of_kind = [torch.nonzero(kinds == kind).flatten() for kind in range(KINDS)]
    model = dense([SIZE, 48, 48, 8], activation)
    if bias:
        nn.init.constant_(model[0].bias, bias)
    if frozen:
        model[0].requires_grad_(False)
    plain = nn.TripletMarginLoss(margin)
    angle = nn.TripletMarginWithDistanceLoss(
        distance_function=lambda a, b: 1 - torch.cosine_similarity(a, b), margin=margin
    )
    optimizer = optimizer_of("adam", (dense([SIZE, 8]) if other else model).parameters(), rate)
    scheduler = scheduler_of(optimizer, schedule, steps)
    hook.torch(model)
    for _ in range(steps):
        rows = torch.randint(len(x), (batch,))
        near = torch.stack(
            [g[torch.randint(len(g), ())] for g in (of_kind[k] for k in kinds[rows])]
        )
        far = torch.randint(len(x), (batch,))
        three = model(torch.cat([x[rows], x[near], x[far]]) * train_scale).split(batch)
        anchor, positive, negative = (three[0], three[2], three[1]) if swapped else three
        loss = (angle if cosine else plain)(anchor, positive, negative)
        if pulls:
            loss = loss + pulls * sum(part.square().mean() for part in three)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    model.eval()
    with torch.no_grad():
        return neighbours(model(held), held_kinds)


CASES = cases(
    "metric learning",
    train,
    {
        "plain": {},
        "cosine distance": {"cosine": True},
        "warm-up": {"schedule": "warmup"},
        "batch of four": {"batch": 4, "steps": 2500, "rate": 1e-3},
        "first layer frozen": {"frozen": True, "steps": 1500},
    },
    {
        "shuffled labels": ("no-skill", {"shuffled": True}),
        "pairs swapped": ("no-skill collapse worse", {"swapped": True}),
        "embeddings collapse": ("collapse no-skill", {"pulls": 1000.0}),
        "rate x 1000": ("fast no-skill collapse dead", {"rate": 2.0}),
        "rate / 1000": ("slow no-skill", {"rate": 2e-6}),
        "dead units": ("dead", {"bias": -30.0}),
        "optimizer of another model": ("unbound slow", {"other": True}),
        "not normalised": ("inputs fast", {"train_scale": 255.0, "rate": 0.05}),
    },
)
