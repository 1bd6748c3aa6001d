"""A graph network tells the kinds of nodes: a pass sees all, and a mask says which count."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, class_skill, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

NODES, KINDS, SIZE = 600, 5, 16


def graph(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Features, normalised neighbours, kinds: like knows like."""
    draw = torch.Generator().manual_seed(seed)
    kinds = torch.randint(KINDS, (NODES,), generator=draw)
    likely = torch.where(kinds[:, None] == kinds[None], 0.03, 0.004)
    edges = (torch.rand(NODES, NODES, generator=draw) < likely).float()
    edges = ((edges + edges.T + torch.eye(NODES)) > 0).float()
    root = edges.sum(1).rsqrt()
    centres = torch.randn(KINDS, SIZE, generator=draw)
    x = centres[kinds] + 2.0 * torch.randn(NODES, SIZE, generator=draw)
    return x, root[:, None] * edges * root[None], kinds


class Convolved(nn.Module):
    def __init__(self, depth: int, dropout: float) -> None:
        super().__init__()
        sizes = [SIZE, *[32] * (depth - 1), KINDS]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.act = nn.ReLU()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = self.dropout(self.act(edges @ layer(x)))
        scores: Tensor = edges @ self.layers[-1](x)
        return scores


def train(
    seed: int,
    hook: Any,
    rate: float = 1e-2,
    steps: int = 300,
    depth: int = 2,
    dropout: float = 0.5,
    decay: float = 5e-4,
    known: int = 200,
    schedule: str = "constant",
    functional: bool = False,
    noise: float = 0.0,
    fault: str = "",
    evaluate: int = 10,
) -> float:
    begin(seed)
    x, edges, kinds = graph(seed + 100)
    seen, rest = torch.arange(known), torch.arange(300, NODES)
    labels = kinds.clone()
    if fault == "shuffled":
        labels[seen] = labels[seen][torch.randperm(known)]
    if fault == "turned":
        labels = torch.roll(labels, 7)
    if noise:
        wrong = torch.rand(NODES) < noise
        labels[wrong] = torch.randint(KINDS, (int(wrong.sum()),))
    if fault == "not a number":
        x[5, 3] = float("nan")
    model = Convolved(depth, dropout)
    if fault == "constant start":
        for layer in model.layers:
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
    chosen = model.layers[0] if fault == "left out" else model
    optimizer = optimizer_of("adam", chosen.parameters(), rate, decay)
    scheduler = scheduler_of(optimizer, schedule, steps)
    criterion = F.cross_entropy if functional else nn.CrossEntropyLoss()
    hook.torch(model)
    for step in range(steps):
        scores = model(x, edges)[seen]
        scores = scores.softmax(0) if fault == "axis" else scores
        loss = criterion(scores, labels[seen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if evaluate and step % evaluate == 0:
            model.eval()
            with torch.no_grad():
                scale = 255.0 if fault == "scaled evaluation" else 1.0
                criterion(model(x * scale + (scale - 1) / 20, edges)[rest], kinds[rest])
            model.train()
    model.eval()
    with torch.no_grad():
        shift = 254 / 20 if fault == "scaled evaluation" else 0.0
        scale = 255.0 if fault == "scaled evaluation" else 1.0
        return class_skill(model(x * scale + shift, edges)[rest], kinds[rest])


CASES = cases(
    "graph network",
    train,
    {
        "plain": {},
        "functional loss": {"functional": True},
        "cosine": {"schedule": "cosine", "rate": 2e-2},
        "long": {"steps": 1000, "rate": 3e-3, "decay": 5e-3},
        "labels with noise": {"noise": 0.1},
        "no evaluation": {"evaluate": 0},
    },
    {
        "labels shuffled": ("no-skill overfit", {"fault": "shuffled"}),
        "labels of other nodes": ("no-skill overfit", {"fault": "turned"}),
        "softmax over nodes": ("softmax-axis probabilities", {"fault": "axis"}),
        "zero start": ("dead no-skill collapse no-gradient", {"fault": "constant start"}),
        "not a number": ("not-finite", {"fault": "not a number"}),
        "knows ten nodes": ("overfit", {"known": 10, "dropout": 0.0, "decay": 0.0}),
        "rate x 1000": ("fast no-skill dead", {"rate": 10.0}),
        "rate / 1000": ("slow no-skill", {"rate": 1e-5}),
        "smoothed away": ("no-skill collapse no-gradient", {"depth": 14, "dropout": 0.0}),
    },
)
