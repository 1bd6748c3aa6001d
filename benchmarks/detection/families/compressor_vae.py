"""Faults of compressors, found by a variational autoencoder of their sensors' healthy hours.

Twelve sensors follow three hidden states of the machine; in a fault some leave that bond, yet none
leaves its usual range. The skill is that of the ranking by the error of the reconstruction.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, ranking_skill, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

SENSORS, HIDDEN = 12, 3


def hours(count: int, seed: int, share: float) -> tuple[Tensor, Tensor]:
    """Readings (N, SENSORS) in units of each sensor, and which hours are faulty."""
    draw = torch.Generator().manual_seed(seed)
    make = torch.Generator().manual_seed(21)
    mix, bend = (torch.randn(HIDDEN, SENSORS, generator=make) for _ in range(2))

    def readings() -> Tensor:
        state = torch.randn(count, HIDDEN, generator=draw)
        return state @ mix + 0.6 * (1.5 * state @ bend).tanh()

    x, other = readings(), readings()
    faulty = torch.rand(count, generator=draw) < share
    broken = (torch.rand(count, SENSORS, generator=draw) < 0.3) & faulty[:, None]
    x = torch.where(broken, other, x) + 0.15 * torch.randn(count, SENSORS, generator=draw)
    unit = torch.tensor([1.0, 0.1, 5, 40, 2, 0.5, 12, 1, 300, 0.02, 7, 3])
    return (x + 3) * unit, faulty


class Machine(nn.Module):
    def __init__(self, width: int, code: int, fault: str) -> None:
        super().__init__()
        self.code, self.fault = code, fault
        self.encoder = nn.Sequential(nn.Linear(SENSORS, width), nn.ELU(), nn.Linear(width, width),
                                     nn.ELU(), nn.Linear(width, 2 * code))  # fmt: skip
        self.decoder = nn.Sequential(nn.Linear(code, width), nn.ELU(), nn.Linear(width, width),
                                     nn.ELU(), nn.Linear(width, SENSORS))  # fmt: skip

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, 1)
        code = mean
        if self.training:
            code = mean + (log_variance / 2).exp() * torch.randn_like(mean)
        x = self.decoder(code)
        return x.sigmoid() if self.fault == "sigmoid at the end" else x, mean, log_variance


def bound(x: Tensor, found: Any, weight: float, averaged: bool, robust: bool) -> Tensor:
    """The negative bound: of sensors and of codes, each summed, as a mean over hours."""
    again, mean, log_variance = found
    if averaged:  # the error as a mean over everything, the divergence as a sum
        far = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()
        return F.mse_loss(again, x) + weight * far
    far = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1)
    error = F.smooth_l1_loss(again, x, reduction="none") if robust else (again - x) ** 2
    return (error.sum(1) / (2 * 0.05) + weight * far).mean()


def train(
    seed: int, hook: Any, steps: int = 2500, batch: int = 64, rate: float = 3e-3, width: int = 32,
    code: int = 4, weight: float = 1.0, rising: bool = False, robust: bool = False,
    schedule: str = "constant", optimizer: str = "adam", decay: float = 0.0, share: float = 0.0,
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    train_x, _ = hours(6000, seed + 9100, share)
    held, held_faulty = hours(800, seed + 9101, 0.2)
    test, test_faulty = hours(2000, seed + 9102, 0.2)
    middle, spread = train_x.mean(0), train_x.std(0)
    if fault == "sensors in their own units":
        middle, spread = torch.zeros(SENSORS), torch.ones(SENSORS)
    train_x, held, test = ((x - middle) / spread for x in (train_x, held, test))
    if fault == "sensors wired in another order":
        held, test = (x.roll(1, 1) for x in (held, test))
    model = Machine(width, code, fault)
    hook.torch(model)
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "rms": torch.optim.RMSprop}
    updates = kinds[optimizer](model.parameters(), rate, weight_decay=decay)
    scheduler = scheduler_of(updates, schedule, steps)
    for step in range(steps):
        x = train_x[torch.randint(len(train_x), (batch,))]
        share_of_far = min(1.0, step / (0.3 * steps)) if rising else 1.0
        averaged = fault == "mean of errors, sum of divergences"
        loss = bound(x, model(x), weight * share_of_far, averaged, robust)
        updates.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 50.0)
        updates.step()
        scheduler.step()
        if step % 500 == 499:
            model.eval()
            with torch.no_grad():
                for x in (held[~held_faulty], held[held_faulty]):
                    bound(x, model(x), weight, averaged, robust)
            model.train()
    model.eval()
    with torch.no_grad():
        errors = ((model(test)[0] - test) ** 2).sum(1)
    return ranking_skill(errors.double(), test_faulty.double())


CASES = cases(
    "compressor vae",
    train,
    {
        "plain": {},
        "divergence comes later": {"rising": True, "schedule": "cosine"},
        "Huber's error": {"robust": True, "weight": 0.5},
        "code of eight, RMSprop": {"code": 8, "optimizer": "rms", "rate": 1e-3},
        "a few faults among healthy hours": {"share": 0.02},
        "batch of 512, weight decay": {"batch": 512, "optimizer": "adamw", "decay": 0.1},
    },
    {
        "mean of errors, sum of divergences": (
            "collapse no-skill",
            {"fault": "mean of errors, sum of divergences"},
        ),
        "sigmoid at the end": ("range saturated", {"fault": "sigmoid at the end"}),
        "sensors in their own units": (
            "inputs no-skill not-finite",
            {"fault": "sensors in their own units"},
        ),
        "divergence with the wrong sign": ("not-finite worse no-skill fast", {"weight": -1.0}),
        "sensors wired in another order": (
            "inputs overfit",
            {"fault": "sensors wired in another order"},
        ),
    },
)
