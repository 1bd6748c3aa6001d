"""What a course does to a person's income: one body, two heads (TARNet), each with its own group.

Who takes the course is not left to chance, and of each person one outcome alone is known. The skill
is the share of the variance of the effects that is explained in a third set.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, dense, explained, optimizer_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

COLUMNS = 10


class Outcomes(nn.Module):
    """Income without the course, and with it."""

    def __init__(self, inputs: int, dropout: float) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(inputs, 64), nn.ELU(), nn.Dropout(dropout), nn.Linear(64, 64), nn.ELU()
        )
        self.without = dense([64, 32, 1], nn.ELU)
        self.treated = dense([64, 32, 1], nn.ELU)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = self.body(x)
        return self.without(h), self.treated(h), h


def people(count: int, seed: int, share: float = 0.4) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    z = torch.randn(count, COLUMNS, generator=draw)
    z[:, 1] = 0.5 * z[:, 0] + 0.87 * z[:, 1]
    effect = 1.5 + 1.6 * torch.sin(1.2 * z[:, 0]) + 0.9 * z[:, 2] - 0.7 * z[:, 1] * (z[:, 3] > 0)
    base = 1.2 * z[:, 1] + (0.6 * z[:, 4]).exp() - 0.5 * z[:, 0] * z[:, 5]
    chance = torch.sigmoid(math.log(share / (1 - share)) + 0.5 * z[:, 0] - 0.4 * z[:, 4])
    takes = (torch.rand(count, generator=draw) < chance).float()
    income = base + takes * effect + 0.4 * torch.randn(count, generator=draw)
    centre = torch.tensor([38.0, 11.0, 1.5, 0.0, 9.0, 9.0, 3.0, 40.0, 2.0, 0.0])
    spread = torch.tensor([9.0, 2.5, 1.0, 1.0, 6e3, 6e3, 2.0, 8.0, 1.0, 1.0])
    after = (income + 0.2 * torch.randn(count, generator=draw))[:, None]
    parts = {"x": centre + spread * z, "t": takes, "y": income, "effect": effect, "after": after}
    return {name: part.clone() for name, part in parts.items()}


def factual_loss(
    outcomes: tuple[Tensor, Tensor, Tensor], t: Tensor, y: Tensor, kind: str, share: float
) -> Tensor:
    zero, one, h = outcomes
    if kind == "shapes":
        found = t[:, None] * one + (1 - t[:, None]) * zero
        return ((found - y) ** 2).mean()
    zero, one = zero.squeeze(1), one.squeeze(1)
    if kind == "both heads on all":
        return F.mse_loss(zero, y) + F.mse_loss(one, y)
    if kind == "mean of each group":
        first = ((zero - y) ** 2 * (1 - t)).sum() / (1 - t).sum()
        return first + ((one - y) ** 2 * t).sum() / t.sum()
    found = torch.where(t > 0.5, one, zero)
    if kind == "Huber":
        return F.huber_loss(found, y)
    weights = t / (2 * share) + (1 - t) / (2 * (1 - share))
    loss = (weights * (found - y) ** 2).mean()
    if kind == "balanced":
        apart = (h * t[:, None]).sum(0) / t.sum() - (h * (1 - t)[:, None]).sum(0) / (1 - t).sum()
        loss = loss + 0.005 * apart.square().sum()
    return loss


def train(
    seed: int, hook: Any, loss: str = "weighted", optimizer: str = "adam", rate: float = 2e-3,
    batch: int = 100, steps: int = 1000, dropout: float = 0.0, decay: float = 1e-4,
    count: int = 3000, share: float = 0.4, unit: float = 1.0, raw: bool = False,
    after: bool = False, evaluated: bool = True,
) -> float:  # fmt: skip
    begin(seed)
    parts = [people(n, seed + 9100 + i, share) for i, n in enumerate((count, 500, 2000))]
    mean, spread = parts[0]["x"].mean(0), parts[0]["x"].std(0)
    for part in parts:
        part["x"] = part["x"] if raw else (part["x"] - mean) / spread
        if after:
            part["x"] = torch.cat([part["x"], part["after"]], 1)
        part["y"] = part["y"] * unit
    data, held, test = parts
    model = Outcomes(data["x"].shape[1], dropout)
    hook.torch(model)
    updates = optimizer_of(optimizer, model.parameters(), rate, decay)
    treated = data["t"].mean().item()
    for step in range(1, steps + 1):
        rows = torch.randint(count, (batch,))
        x, t, y = (data[name][rows] for name in ("x", "t", "y"))
        updates.zero_grad()
        error = factual_loss(model(x), t, y, loss, treated)
        error.backward()
        updates.step()
        if evaluated and step % 100 == 0:
            model.eval()
            with torch.no_grad():
                factual_loss(model(held["x"]), held["t"], held["y"], loss, treated)
            model.train()
    model.eval()
    with torch.no_grad():
        zero, one, _ = model(test["x"])
    return explained((one - zero).squeeze(1) / unit, test["effect"])


CASES = cases(
    "treatment effect",
    train,
    {
        "plain": {},
        "groups made alike": {"loss": "balanced"},
        "Huber, not evaluated": {"loss": "Huber", "evaluated": False},
        "income in a smaller unit": {"unit": 100.0, "rate": 5e-3, "steps": 1500},
        "a mean of each group": {"loss": "mean of each group", "batch": 500, "steps": 700},
        "SGD with momentum": {"optimizer": "momentum", "rate": 1e-2},
    },
    {
        "both heads on all": ("ignored collapse no-skill", {"loss": "both heads on all"}),
        "column against row": ("broadcast no-skill", {"loss": "shapes"}),
        "mean of nobody": (
            "not-finite", {"loss": "mean of each group", "batch": 16, "share": 0.08},
        ),
        "income in dollars": ("inputs no-skill fast dead saturated", {"raw": True}),
        "income after the course": ("leak", {"after": True}),
    },
)  # fmt: skip
