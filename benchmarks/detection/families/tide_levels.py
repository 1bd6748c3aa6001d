"""Levels of the tide in the next six hours, at a gauge in a bay, by a small network in Lightning.

The moon and the sun move the water, wind pushes it into the bay some hours later. A window has the
last 24 hours of levels in centimetres, and wind along and across. The skill is the share of the
levels' variance that is explained in the record's last part, above the mean.
"""

from __future__ import annotations

import logging
import math
import warnings
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, explained, optimizer_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.detection.case import cases

PAST, AHEAD = 24, 6


def record(hours: int, seed: int) -> Tensor:
    """(hours, 3): the level in centimetres, and the wind along and across the bay in m/s."""
    draw = torch.Generator().manual_seed(seed)
    time = torch.arange(hours).float()
    phases = 2 * math.pi * torch.rand(3, generator=draw)
    moon = 90 * torch.cos(2 * math.pi * time / 12.42 + phases[0])
    sun = 30 * torch.cos(2 * math.pi * time / 12.0 + phases[1])
    daily = 20 * torch.cos(2 * math.pi * time / 23.93 + phases[2])
    gusts = torch.randn(hours, 2, generator=draw)
    wind = torch.zeros(hours, 2)
    for hour in range(1, hours):
        wind[hour] = 0.96 * wind[hour - 1] + 1.6 * gusts[hour]
    push = torch.zeros(hours)
    for hour in range(6, hours):
        push[hour] = 0.8 * push[hour - 1] + 0.12 * wind[hour - 4, 0] * wind[hour - 4].norm()
    tide = moon + sun + daily
    level = 300 + tide + 0.0012 * tide**2 + push + 2 * torch.randn(hours, generator=draw)
    return torch.cat([level[:, None], wind], 1)[50:]


class Windows(Dataset[tuple[Tensor, Tensor]]):
    """The last hours, and the levels that follow in metres above the middle."""

    def __init__(self, series: Tensor, mean: Tensor, spread: Tensor) -> None:
        self.series, self.levels = (series - mean) / spread, series[:, 0]

    def __len__(self) -> int:
        return len(self.series) - PAST - AHEAD

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        now = row + PAST
        return self.series[row : row + PAST], (self.levels[now : now + AHEAD] - 300) / 100


def network(width: int, dropout: float, last: str) -> nn.Module:
    inside: list[nn.Module] = [nn.Flatten(), nn.Linear(PAST * 3, width), nn.GELU()]
    inside += [nn.Dropout(dropout), nn.Linear(width, width), nn.GELU(), nn.Linear(width, AHEAD)]
    if last:
        inside += [{"softmax": nn.Softmax(1), "sigmoid": nn.Sigmoid()}[last]]
    return nn.Sequential(*inside)


def train(
    seed: int, hook: Any, rate: float = 1e-3, epochs: int = 12, batch: int = 16, width: int = 48,
    optimizer: str = "adam", decay: float = 0.0, schedule: str = "",
    dropout: float = 0.0, last: str = "", loss: str = "mse", hours: int = 3000,
    evaluated: bool = True, fault: str = "", **settings: Any,
) -> float:  # fmt: skip
    import lightning

    begin(seed)
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    series = record(6100, 11 * seed + 5)
    past, later, end = series[:hours], series[3000:3600], series[3600:6000]
    mean, spread = past.mean(0), past.std(0)
    here = (mean, spread)
    if fault == "gauge scaled otherwise":  # a level's mean and spread are those of metres
        here = (mean * torch.tensor([0.01, 1, 1]), spread * torch.tensor([0.01, 1, 1]))
    errors = {"mse": nn.MSELoss(), "huber": nn.SmoothL1Loss(beta=0.1), "mae": nn.L1Loss()}

    class Tides(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = network(width, dropout, last)

        def forward(self, x: Tensor) -> Tensor:
            found: Tensor = self.net(x)
            return found

        def error(self, rows: tuple[Tensor, Tensor]) -> Tensor:
            x, y = rows
            found = self(x)
            if loss == "log-cosh":
                gap = found - y
                return (gap + nn.functional.softplus(-2 * gap) - math.log(2)).mean()
            error: Tensor = errors[loss](found, y)
            return error

        def training_step(self, rows: Any, number: int) -> Tensor:
            error = self.error(rows)
            if fault == "item in the loss":
                x = rows[0]
                error = error.detach() + 1e-4 * self(x).abs().mean()
            self.log("train_loss", error)
            return error

        def validation_step(self, rows: Any, number: int) -> None:
            self.log("val_loss", self.error(rows))
            self.log("val_mae", 100 * (self(rows[0]) - rows[1]).abs().mean())

        def configure_optimizers(self) -> Any:
            steering = optimizer_of(optimizer, self.parameters(), rate, decay)
            if not schedule:
                return steering
            plans = torch.optim.lr_scheduler
            steps = int(self.trainer.estimated_stepping_batches)
            plan: Any = {
                "one cycle": lambda: plans.OneCycleLR(steering, 5 * rate, total_steps=steps),
                "restarts": lambda: plans.CosineAnnealingWarmRestarts(steering, steps // 4),
                "per step": lambda: plans.ExponentialLR(steering, 0.95),
            }[schedule]()
            return {
                "optimizer": steering,
                "lr_scheduler": {"scheduler": plan, "interval": "step"},
            }

    model = Tides()
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=[hook.lightning()], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        num_sanity_val_steps=0, limit_val_batches=None if evaluated else 0, **settings,
    )  # fmt: skip
    data = Windows(past, mean, spread)
    if fault == "levels of another day":
        data.levels = data.levels[torch.randperm(len(data.levels))]
    loader = DataLoader(data, batch, shuffle=True, drop_last=len(data) > batch)
    trainer.fit(model, loader, DataLoader(Windows(later, *here), 100))
    model.eval()
    rows = [Windows(end, *here)[row] for row in range(0, 2300, 3)]
    x, y = torch.stack([x for x, _ in rows]), torch.stack([y for _, y in rows])
    with torch.no_grad():
        found = model(x)
    return explained(found, y) if bool(found.isfinite().all()) else math.nan


CASES = cases(
    "tide levels",
    train,
    {
        "plain": {},
        "one cycle, log-cosh": {"schedule": "one cycle", "loss": "log-cosh"},
        "warm restarts": {"schedule": "restarts", "rate": 3e-3},
        "batch of four, clipped": {"batch": 4, "epochs": 4, "gradient_clip_val": 0.5},
        "accumulated, bfloat16": {
            "accumulate_grad_batches": 4, "precision": "bf16-mixed", "rate": 3e-3,
        },
        "AdamW, much decay, dropout": {
            "optimizer": "adamw", "decay": 0.3, "dropout": 0.05, "schedule": "restarts",
        },
        "momentum, not evaluated": {"optimizer": "momentum", "rate": 0.02, "evaluated": False},
    },
    {
        "gauge scaled otherwise": ("inputs overfit worse", {"fault": "gauge scaled otherwise"}),
        "sigmoid at the end": ("range saturated no-skill", {"last": "sigmoid"}),
        "levels of another day": ("no-skill overfit", {"fault": "levels of another day"}),
        "item in the loss": ("no-gradient no-skill collapse", {"fault": "item in the loss"}),
        "decay meant for epochs": ("schedule slow", {"schedule": "per step"}),
        "rate of 1": ("fast no-skill worse dead", {"rate": 1.0}),
    },
)  # fmt: skip
