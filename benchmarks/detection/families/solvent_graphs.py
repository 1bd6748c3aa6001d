"""How well made-up molecules dissolve: a graph isomorphism network over batches of small graphs.

Graphs of a batch are one large graph with a number for each node (as in PyTorch Geometric); nodes
are summed for each graph. The skill is the share of the variance that is explained, of others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, explained, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

KINDS = 5
WORTH = torch.tensor([-0.6, 0.8, 1.1, -1.4, 0.2])


@dataclass
class Graphs:
    """Nodes of all graphs in a row: kinds, whose they are, and edges (both ways)."""

    kinds: Tensor
    graph: Tensor
    edges: Tensor
    y: Tensor


def molecules(count: int, draw: torch.Generator, noise: float = 0.2) -> list[Graphs]:
    """Trees with a ring now and then; like neighbours of a kind hinder, unlike ones help."""
    found = []
    for _ in range(count):
        size = int(torch.randint(5, 16, (1,), generator=draw))
        kinds = torch.randint(KINDS, (size,), generator=draw)
        parent = (torch.rand(size - 1, generator=draw) * torch.arange(1, size)).long()
        one = torch.stack([parent, torch.arange(1, size)])
        edges = torch.cat([one, one.flip(0)], 1)
        pairs = torch.where(kinds[one[0]] == kinds[one[1]], -1.2, 0.25).sum()
        y = WORTH[kinds].sum() + pairs + noise * torch.randn((), generator=draw)
        found.append(Graphs(kinds, torch.zeros(size).long(), edges, 30 + 3 * y.reshape(1)))
    return found


def collate(parts: list[Graphs], shifted: bool = True) -> Graphs:
    starts = torch.tensor([0] + [len(p.kinds) for p in parts]).cumsum(0)
    edges = [p.edges + (starts[i] if shifted else 0) for i, p in enumerate(parts)]
    graph = [torch.full_like(p.kinds, i) for i, p in enumerate(parts)]
    return Graphs(
        torch.cat([p.kinds for p in parts]), torch.cat(graph), torch.cat(edges, 1),
        torch.cat([p.y for p in parts]),
    )  # fmt: skip


class Layer(nn.Module):
    def __init__(self, width: int, norm: bool) -> None:
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(1))
        between = nn.BatchNorm1d(width) if norm else nn.Identity()
        self.mlp = nn.Sequential(
            nn.Linear(width, width), between, nn.ReLU(), nn.Linear(width, width)
        )

    def forward(self, h: Tensor, edges: Tensor) -> Tensor:
        near = torch.zeros_like(h).index_add(0, edges[1], h[edges[0]])
        out: Tensor = self.mlp((1 + self.eps) * h + near)
        return out


class Isomorphism(nn.Module):
    def __init__(self, width: int, layers: int, norm: bool, pool: str, dropout: float) -> None:
        super().__init__()
        self.kinds = nn.Embedding(KINDS, width)
        self.layers = nn.ModuleList(Layer(width, norm) for _ in range(layers))
        self.pool = pool
        self.head = nn.Sequential(nn.Dropout(dropout), nn.Linear(width, 1))

    def forward(self, batch: Graphs) -> Tensor:
        h = self.kinds(batch.kinds)
        for layer in self.layers:
            h = h + layer(h, batch.edges).relu()
        whole = torch.zeros(len(batch.y), h.shape[1]).index_add(0, batch.graph, h)
        if self.pool == "first node":
            first = torch.searchsorted(batch.graph, torch.arange(len(batch.y)))
            whole = h[first]
        out: Tensor = self.head(whole)
        return out


def train(
    seed: int, hook: Any, steps: int = 2000, rate: float = 2e-3, batch: int = 32, width: int = 32,
    layers: int = 2, norm: bool = False, dropout: float = 0.0, optimizer: str = "adam",
    schedule: str = "cosine", decay: float = 0.0, clip: float = 0.0, loss: str = "mse",
    count: int = 1500, evaluation: str = "loss", noise: float = 0.2, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    draw = torch.Generator().manual_seed(seed + 40)
    known, held, test = (molecules(n, draw, noise) for n in (count, 200, 600))
    y = torch.cat([g.y for g in known])
    mean, deviation = y.mean(), y.std()
    pool = "first node" if fault == "the first node for the graph" else "sum"
    model = Isomorphism(width, layers, norm, pool, dropout)
    hook.torch(model)
    criterion = {"mse": nn.MSELoss(), "huber": nn.HuberLoss(), "sum": nn.MSELoss(reduction="sum")}
    steering = optimizer_of(optimizer, model.parameters(), rate, decay)
    scheduler = scheduler_of(steering, schedule, steps)
    for step in range(steps):
        model.train()
        chosen = [known[i] for i in torch.randint(count, (batch,))]
        graphs = collate(chosen, shifted=fault != "edges not shifted")
        out = model(graphs)
        if fault != "outputs as a column":
            out = out.squeeze(1)
        target = (graphs.y - mean) / deviation
        if fault == "batch's labels in another order":
            target = target.sort().values
        if fault == "sigmoid at the end":
            out = out.sigmoid()
        error = criterion[loss](out, target)
        steering.zero_grad()
        error.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        steering.step()
        scheduler.step()
        if evaluation and (step + 1) % 250 == 0:
            model.eval()
            with torch.no_grad():
                graphs = collate(held)
                out = model(graphs).squeeze(1)
                if evaluation == "loss":
                    criterion[loss](out, (graphs.y - mean) / deviation)
                (out * deviation + mean - graphs.y).abs().mean()
    model.eval()
    graphs = collate(test)
    with torch.no_grad():
        out = model(graphs).squeeze(1)
    out = out.sigmoid() if fault == "sigmoid at the end" else out
    return explained(out * deviation + mean, graphs.y) if bool(out.isfinite().all()) else math.nan


CASES = cases(
    "solvent graphs",
    train,
    {
        "plain": {},
        "batch norm, one cycle": {"norm": True, "schedule": "one cycle"},
        "Huber loss, clipped": {"loss": "huber", "clip": 1.0},
        "sum of a batch": {"loss": "sum", "rate": 1e-3},
        "momentum, warmed up": {"optimizer": "momentum", "rate": 2e-3, "schedule": "warmup"},
        "four graphs at a time": {"batch": 4, "steps": 3000, "rate": 1e-3},
        "decay, no evaluation": {"optimizer": "adamw", "decay": 0.1, "evaluation": ""},
    },
    {
        "edges not shifted": ("no-skill worse leak inputs", {"fault": "edges not shifted"}),
        "outputs as a column": ("broadcast no-skill", {"fault": "outputs as a column"}),
        "batch's labels in another order": (
            "no-skill order", {"fault": "batch's labels in another order"}
        ),
        "the first node for the graph": (
            "no-skill", {"fault": "the first node for the graph"}
        ),
        "sigmoid at the end of a regression": (
            "range saturated no-skill", {"fault": "sigmoid at the end"}
        ),
        "rate of 0.3": ("fast no-skill", {"rate": 0.3, "schedule": "constant"}),
        "thirty graphs": ("overfit", {"count": 30}),
    },
)  # fmt: skip
