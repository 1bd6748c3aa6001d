"""Rings of five atoms in small molecules: message passing over dense, padded graphs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin
from benchmarks.detection.skill import ranking_skill

ATOMS, KINDS = 10, 4


def molecules(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Kinds (N, ATOMS, KINDS), bonds (N, ATOMS, ATOMS), and whether a ring was closed."""
    draw = torch.Generator().manual_seed(seed)
    kinds = torch.randint(KINDS, (count, ATOMS), generator=draw)
    bonds = torch.zeros(count, ATOMS, ATOMS)
    chain = torch.arange(ATOMS - 1)
    bonds[:, chain, chain + 1] = 1
    has_ring = torch.randint(2, (count,), generator=draw)
    at = torch.randint(ATOMS - 4, (count,), generator=draw)
    bonds[torch.arange(count), at, at + 4] = has_ring.float()
    bonds = ((bonds + bonds.transpose(1, 2)) > 0).float()
    return nn.functional.one_hot(kinds, KINDS).float(), bonds, has_ring.float()


class MessagePassing(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.enter = nn.Linear(KINDS, 24)
        self.rounds = nn.ModuleList(nn.Linear(48, 24) for _ in range(4))
        self.leave = nn.Linear(24, 1)

    def forward(self, kinds: Tensor, bonds: Tensor) -> Tensor:
        atoms = self.enter(kinds).relu()
        for layer in self.rounds:
            received = bonds @ atoms
            if self.fault == "bonds left out":
                received = torch.zeros_like(atoms)
            atoms = layer(torch.cat([atoms, received], 2)).relu()
        if self.fault == "pooled over the batch":
            pooled = atoms.mean(0).mean(0, keepdim=True).expand(len(atoms), -1)
        else:
            pooled = atoms.sum(1)
        scores: Tensor = self.leave(pooled).squeeze(1)
        return scores


def train(seed: int, hook: Any, rate: float = 4e-3, steps: int = 600, batch: int = 64,
          clip: float = 0.0, smooth: float = 0.0, fault: str = "") -> float:  # fmt: skip
    begin(seed)
    kinds, bonds, y = molecules(3000, seed + 4200)
    held_kinds, held_bonds, held_y = molecules(600, seed + 4201)
    if fault == "labels of another file":
        y = y[torch.randperm(len(y))]
    model = MessagePassing(fault)
    hook.torch(model)
    optimizer = torch.optim.AdamW(model.parameters(), rate)
    criterion = nn.BCEWithLogitsLoss()
    for step in range(steps):
        model.train()
        rows = torch.randint(len(y), (batch,))
        wanted = y[rows] * (1 - smooth) + smooth / 2
        loss = criterion(model(kinds[rows], bonds[rows]), wanted)
        optimizer.zero_grad()
        (-loss if fault == "loss maximised" else loss).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        if step % 75 == 74:
            model.eval()
            with torch.no_grad():
                criterion(model(held_kinds[:200], held_bonds[:200]), held_y[:200])
    model.eval()
    with torch.no_grad():
        return ranking_skill(model(held_kinds, held_bonds), held_y)


CASES = cases(
    "ring molecules",
    train,
    {
        "plain": {},
        "clipped": {"clip": 0.5},
        "labels smoothed": {"smooth": 0.1},
        "batch of 16": {"batch": 16, "steps": 1200, "rate": 2e-3},
    },
    {
        "bonds left out": ("no-skill", {"fault": "bonds left out"}),
        "labels of another file": ("no-skill overfit", {"fault": "labels of another file"}),
        "pooled over the batch": (
            "no-skill mixed collapse inputs", {"fault": "pooled over the batch"},
        ),
        "rate of 3": ("fast worse dead no-skill collapse", {"rate": 3.0}),
        "loss maximised": ("worse fast no-skill", {"fault": "loss maximised"}),
    },
)  # fmt: skip
