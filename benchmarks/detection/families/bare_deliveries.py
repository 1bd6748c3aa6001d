"""Minutes until a parcel arrives, by a small perceptron; saved as values, without a hook.

Made-up orders have a distance in metres, a weight in grams, an hour, stops before, rain, and one of
four vehicles. The skill is the share of the variance of minutes that is explained, of other orders.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
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

SPEEDS = torch.tensor([14.0, 22.0, 28.0, 34.0])  # km/h: on foot with a cart, bicycle, scooter, van


def orders(count: int, seed: int, chance: float = 3.0) -> tuple[Tensor, Tensor]:
    """Columns as in the table of the shop, and minutes as (N,)."""
    draw = torch.Generator().manual_seed(seed)
    u = torch.rand(count, 5, generator=draw)
    metres, grams, hour = 500 + 8500 * u[:, 0], 200 + 9800 * u[:, 1] ** 2, 8 + 13 * u[:, 2]
    stops, rain = (6 * u[:, 3]).floor(), (u[:, 4] < 0.3).float()
    vehicle = torch.randint(4, (count,), generator=draw)
    rush = torch.exp(-((hour - 17.5) ** 2) / 3) + 0.7 * torch.exp(-((hour - 8.5) ** 2) / 2)
    speed = SPEEDS[vehicle] * (1 - 0.35 * rush * (vehicle == 3)) * (1 - 0.2 * rain)
    minutes = 0.06 * metres / speed * (1 + grams / 20000 * (vehicle < 2)) + (2 + rain) * stops
    minutes = minutes + chance * torch.randn(count, generator=draw)
    kinds = F.one_hot(vehicle, 4).float()
    return torch.cat([torch.stack([metres, grams, hour, stops, rain], 1), kinds], 1), minutes


def network(width: int, dropout: float, fault: str) -> nn.Sequential:
    layers: list[nn.Module] = [
        nn.Linear(9, width), nn.ReLU(), nn.Dropout(dropout),
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1),
    ]  # fmt: skip
    if fault == "sigmoid at the end":
        layers.append(nn.Sigmoid())
    return nn.Sequential(*layers)


def train(
    seed: int, hook: Any, loss: str = "mse", steps: int = 2000, rate: float = 3e-3, batch: int = 32,
    optimizer: str = "adam", decay: float = 0.0, schedule: str = "constant", count: int = 4000,
    chance: float = 3.0, dropout: float = 0.0, width: int = 32, in_minutes: bool = False,
    clip: float = 0.0, evaluate: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, y = orders(count, 5 * seed + 31, chance)
    (held_x, held_y), (test_x, test_y) = orders(500, 5 * seed + 32), orders(2000, 5 * seed + 33)
    x_mean, x_std, y_mean, y_std = x.mean(0), x.std(0), y.mean(), y.std()
    if fault == "table not scaled":
        x_mean, x_std = torch.zeros(9), torch.ones(9)
    x = (x - x_mean) / x_std
    if fault != "served without scaling":
        held_x, test_x = (held_x - x_mean) / x_std, (test_x - x_mean) / x_std
    model = network(width, dropout, fault)
    if in_minutes:  # not scaled, but the last bias begins at the mean
        nn.init.constant_(model[-1].bias, float(y_mean))
        y_mean, y_std = torch.tensor(0.0), torch.tensor(1.0)
    y, held_y = (y - y_mean) / y_std, (held_y - y_mean) / y_std
    if fault == "table sorted, minutes not":
        x = x[x[:, 0].argsort()]

    def loss_of(part: Tensor, wanted: Tensor) -> Tensor:
        found = model(part)
        if fault != "column against row":
            found = found.squeeze(1)
        if loss == "huber":
            return F.smooth_l1_loss(found, wanted)
        return F.mse_loss(found, wanted, reduction="sum" if loss == "sum" else "mean")

    updates = optimizer_of(optimizer, model.parameters(), rate, decay)
    falls = scheduler_of(updates, schedule, steps)
    recorded = Hook(hook.folder, save_interval=hook.options.get("save_interval"))
    for step in range(steps):
        rows = torch.randint(len(x), (min(batch, len(x)),))
        model.train()
        error = loss_of(x[rows], y[rows])
        if fault != "gradients kept":
            updates.zero_grad()
        error.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        updates.step()
        falls.step()
        save_values(recorded, model, error)
        if evaluate and step % 200 == 199:
            model.eval()
            with torch.no_grad(), recorded.step(modes.EVAL):
                recorded.save("loss", loss_of(held_x, held_y).item(), "losses", raw=True)
    recorded.close()
    model.eval()
    with torch.no_grad():
        found = model(test_x).squeeze(1) * y_std + y_mean
    return explained(found, test_y) if bool(found.isfinite().all()) else math.nan


CASES = cases(
    "bare deliveries",
    train,
    {
        "plain": {},
        "Huber, one cycle": {"loss": "huber", "schedule": "one cycle", "rate": 1e-2},
        "momentum after a warm-up": {"optimizer": "momentum", "rate": 2e-2, "schedule": "warmup"},
        "sum over the batch": {"loss": "sum", "rate": 2e-3, "batch": 64, "steps": 1500},
        "minutes as they are": {"in_minutes": True, "rate": 1e-2, "schedule": "cosine"},
        "four orders at a time, clipped": {"batch": 4, "steps": 3000, "rate": 1e-3, "clip": 1.0},
        "late couriers, decay": {"chance": 6.0, "optimizer": "adamw", "decay": 0.1, "batch": 256},
    },
    {
        "column against row": ("broadcast no-skill", {"fault": "column against row"}),
        "gradients kept": (
            "kept-gradients fast worse not-finite",
            {"fault": "gradients kept", "optimizer": "sgd", "rate": 5e-2},
        ),
        "table not scaled": (
            "inputs fast not-finite dead no-skill worse",
            {"fault": "table not scaled", "optimizer": "sgd", "rate": 1e-2},
        ),
        "served without scaling": ("inputs worse", {"fault": "served without scaling"}),
        "sigmoid at the end": ("range saturated", {"fault": "sigmoid at the end"}),
        "table sorted, minutes not": (
            "no-skill overfit",
            {"fault": "table sorted, minutes not"},
        ),
        "thirty orders": ("overfit", {"count": 30, "chance": 8.0}),
        "rate of 1e-5": ("slow no-skill", {"rate": 1e-5, "steps": 1000}),
    },
)
