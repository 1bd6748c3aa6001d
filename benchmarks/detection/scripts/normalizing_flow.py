"""A flow of affine couplings; its loss is a likelihood by hand, and may be negative."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin, dense, optimizer_of, scheduler_of


def moons(count: int) -> Tensor:
    turn, side = math.pi * torch.rand(count), torch.randint(2, (count,))
    x = torch.where(side == 0, turn.cos(), 1 - turn.cos()) - 0.5
    y = torch.where(side == 0, turn.sin(), 0.5 - turn.sin()) - 0.25
    return torch.stack([x, y], 1) + 0.05 * torch.randn(count, 2)


class Flow(nn.Module):
    def __init__(self, layers: int = 4) -> None:
        super().__init__()
        self.parts = nn.ModuleList(dense([1, 32, 2], nn.Tanh) for _ in range(layers))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logdet = torch.zeros(len(x))
        for number, part in enumerate(self.parts):
            kept, moved = (x[:, :1], x[:, 1:]) if number % 2 else (x[:, 1:], x[:, :1])
            scale, shift = part(kept).chunk(2, 1)
            scale = 2 * torch.tanh(scale / 2)
            moved = moved * scale.exp() + shift
            logdet = logdet + scale.squeeze(1)
            x = torch.cat([kept, moved] if number % 2 else [moved, kept], 1)
        return x, logdet


def likelihood(z: Tensor, logdet: Tensor) -> Tensor:
    return (-0.5 * z.square().sum(1) - math.log(2 * math.pi) + logdet).mean()


def train(
    seed: int,
    hook: Any,
    rate: float = 3e-3,
    steps: int = 1200,
    batch: int = 64,
    schedule: str = "constant",
    scaled: float = 1.0,
    fault: str = "",
    clip: float = 0.0,
    decay: float = 0.0,
) -> float:
    begin(seed)
    model = Flow()
    chosen = list(model.parts[0].parameters() if fault == "left out" else model.parameters())
    optimizer = optimizer_of("adam", chosen, rate, decay)
    scheduler = scheduler_of(optimizer, schedule, steps)
    few = moons(16)
    hook.torch(model)
    for step in range(steps):
        x = moons(batch)
        if fault == "memorises":
            x = few[torch.randint(16, (batch,))]
        if fault == "mixed":
            x = torch.stack([x[:, 0], x[torch.randperm(batch), 1]], 1)
        if fault == "not a number" and step == steps // 3:
            x = x.log()
        z, logdet = model(x)
        logdet = logdet.detach() if fault == "volume detached" else logdet
        loss = likelihood(z, logdet) * (1 if fault == "wrong sign" else -1)
        optimizer.zero_grad()
        (scaled * loss).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        scheduler.step()
    model.eval()
    torch.manual_seed(98)
    x = moons(3000)
    with torch.no_grad():
        found = likelihood(*model(x)).item()
    plain = torch.distributions.MultivariateNormal(x.mean(0), x.T.cov()).log_prob(x).mean().item()
    return found - plain


CASES = cases(
    "normalizing flow",
    train,
    {
        "plain": {},
        "loss x 1000": {"scaled": 1000.0},
        "cosine": {"schedule": "cosine", "rate": 5e-3},
        "clipped": {"clip": 1.0},
        "batch of sixteen": {"batch": 16, "steps": 2200, "rate": 2e-3},
    },
    {
        "wrong sign": ("worse not-finite", {"fault": "wrong sign"}),
        "volume detached": ("collapse worse no-skill", {"fault": "volume detached"}),
        "memorises 16": ("overfit", {"fault": "memorises"}),
        "not a number": ("not-finite", {"fault": "not a number"}),
        "rate x 1000": ("fast no-skill", {"rate": 3.0}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
        "most in no optimizer": ("unbound", {"fault": "left out"}),
    },
)
