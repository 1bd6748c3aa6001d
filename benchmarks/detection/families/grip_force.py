"""The force of a grip from four electrodes on the forearm: convolutions in time, in Lightning.

A window is 64 samples of muscle current in microvolts, with the mains' hum on it; the muscles
share the work and tire. The skill is the share of the force's variance that is explained, of other
windows.
"""

from __future__ import annotations

import logging
import math
import warnings
from typing import Any

import lightning
import torch
from benchmarks.detection.families.kit import begin, explained, optimizer_of
from lightning.pytorch.callbacks import StochasticWeightAveraging
from torch import Tensor, nn
from torch.nn.functional import huber_loss, mse_loss
from torch.utils.data import DataLoader, Dataset

from benchmarks.detection.case import cases

ELECTRODES, SAMPLES = 4, 64
SHARES = torch.tensor([[0.9, 0.3, 0.1, 0.2], [0.2, 0.8, 0.4, 0.1], [0.1, 0.2, 0.7, 0.5]])
STRENGTH = torch.tensor([190.0, 120.0, 90.0])


def windows(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Microvolts as (N, ELECTRODES, SAMPLES), and newtons."""
    draw = torch.Generator().manual_seed(seed)
    effort = torch.rand(count, 1, generator=draw)
    work = (effort + 0.25 * torch.randn(count, 3, generator=draw)).clamp(0, 1.2)
    force = (work**0.8 * STRENGTH).sum(1) + 6 * torch.randn(count, generator=draw)
    white = torch.randn(count, ELECTRODES, SAMPLES + 4, generator=draw)
    current = white[..., 4:] + 0.6 * white[..., 2:-2] - 0.5 * white[..., :-4]
    volts = (12 + 160 * work @ SHARES)[..., None] * current
    hum = torch.rand(count, 1, 1, generator=draw)
    phase = 2 * math.pi * torch.rand(count, 1, 1, generator=draw)
    volts = volts + 60 * hum * torch.sin(0.31 * torch.arange(SAMPLES) + phase)
    return volts, force


class GripWindows(Dataset):
    """Windows, and forces less their mean, as shares of their spread."""

    def __init__(self, volts: Tensor, force: Tensor, mean: Tensor, spread: Tensor) -> None:
        self.volts, self.force = volts, (force - mean) / spread

    def __len__(self) -> int:
        return len(self.force)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.volts[index], self.force[index]


class GripModel(lightning.LightningModule):
    def __init__(self, rate: float, optimizer: str, decay: float, plan: str, loss: str,
                 start: float, fault: str) -> None:  # fmt: skip
        super().__init__()
        self.rate, self.optimizer, self.decay, self.plan = rate, optimizer, decay, plan
        self.loss, self.fault = loss, fault
        self.encoder = nn.Sequential(
            nn.Conv1d(ELECTRODES, 16, 7, stride=2, padding=3), nn.ReLU(),
            nn.Conv1d(16, 16, 5, stride=2, padding=2), nn.ReLU(),
            nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(16, 16), nn.ReLU(),
        )  # fmt: skip
        self.head = nn.Linear(16, 1)
        nn.init.constant_(self.head.bias, start)

    def forward(self, volts: Tensor) -> Tensor:
        force: Tensor = self.head(self.encoder(volts))
        if self.fault == "ReLU after the last layer":
            force = torch.relu(force)
        return force if self.fault == "one column against a row" else force.squeeze(-1)

    def training_step(self, batch: Any, number: int) -> Tensor:
        volts, force = batch
        found = self(volts)
        if self.loss == "huber":
            loss = huber_loss(found, force)
        else:
            loss = mse_loss(found, force, reduction="sum" if self.loss == "sum" else "mean")
        self.log("train/loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: Any, number: int) -> None:
        volts, force = batch
        found = self(volts)
        self.log("val/loss", mse_loss(found, force))
        self.log("val/mae", (found.view(-1) - force).abs().mean(), prog_bar=True)

    def configure_optimizers(self) -> Any:
        steering = optimizer_of(self.optimizer, self.parameters(), self.rate, self.decay)
        plans = torch.optim.lr_scheduler
        if self.plan == "restarts":
            plan: Any = plans.CosineAnnealingWarmRestarts(steering, T_0=162, T_mult=2)
            return [steering], [{"scheduler": plan, "interval": "step"}]
        if self.plan == "plateau":
            groups = [{"params": self.encoder.parameters()},
                      {"params": self.head.parameters(), "lr": 10 * self.rate}]  # fmt: skip
            steering = torch.optim.Adam(groups, self.rate)
            plan = plans.ReduceLROnPlateau(steering, factor=0.3, patience=3)
            return {"optimizer": steering,
                    "lr_scheduler": {"scheduler": plan, "monitor": "val/loss"}}  # fmt: skip
        if self.plan in ("epoch", "step"):
            plan = plans.ExponentialLR(steering, 0.93)
            return [steering], [{"scheduler": plan, "interval": self.plan}]
        return steering


def train(
    seed: int, hook: Any, rate: float = 2e-3, epochs: int = 18, batch: int = 32, count: int = 4000,
    optimizer: str = "adam", decay: float = 0.0, plan: str = "", loss: str = "mse",
    newtons: bool = False, averaged: bool = False, fault: str = "", **settings: Any,
) -> float:  # fmt: skip
    begin(seed)
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    volts, force = windows(count, 11 * seed + 40)
    held_volts, held_force = windows(400, 11 * seed + 41)
    test_volts, test_force = windows(1500, 11 * seed + 42)
    mean, spread = force.mean(), force.std()
    if newtons:
        mean, spread = torch.tensor(0.0), torch.tensor(1.0)
    scale = volts.std((0, 2), keepdim=True)[0]
    volts, test_volts = volts / scale, test_volts / scale
    if fault == "microvolts in evaluation":
        test_volts = test_volts * scale
    else:
        held_volts = held_volts / scale
    start = force.mean().item() if newtons else 0.0
    model = GripModel(rate, optimizer, decay, plan, loss, start, fault)
    callbacks = [hook.lightning()]
    if averaged:
        callbacks.append(StochasticWeightAveraging(swa_lrs=rate / 2, swa_epoch_start=0.6))
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=callbacks, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        **settings,
    )  # fmt: skip
    trainer.fit(
        model,
        DataLoader(GripWindows(volts, force, mean, spread), batch, shuffle=True),
        DataLoader(GripWindows(held_volts, held_force, mean, spread), 200),
    )
    model.eval()
    with torch.no_grad():
        found = model(test_volts).flatten() * spread + mean
    return explained(found, test_force) if bool(found.isfinite().all()) else math.nan


CASES = cases(
    "grip force",
    train,
    {
        "plain": {},
        "sum of squares, clipped": {"loss": "sum", "gradient_clip_val": 5.0},
        "newtons as they are, mean as the first bias": {
            "newtons": True, "loss": "huber", "rate": 5e-3,
        },
        "warm restarts, accumulated": {
            "plan": "restarts", "accumulate_grad_batches": 2, "rate": 5e-3,
        },
        "weights averaged from epoch 11 on": {"averaged": True},
        "head ten times as fast, less on a plateau": {"plan": "plateau", "rate": 1e-3},
        "no validation, bfloat16, strong decay": {
            "limit_val_batches": 0, "precision": "bf16-mixed", "optimizer": "adamw", "decay": 0.3,
        },
    },
    {
        "one column against a row": (
            "broadcast no-skill", {"fault": "one column against a row"},
        ),
        "ReLU after the last layer": (
            "range dead no-skill", {"fault": "ReLU after the last layer"},
        ),
        "microvolts in evaluation": ("inputs worse overfit", {"fault": "microvolts in evaluation"}),
        "rate falls with each step": (
            "schedule slow no-skill", {"plan": "step", "rate": 1e-3},
        ),
        "rate of 0.5": ("fast dead no-skill collapse", {"rate": 0.5}),
        "decay of 0.3 without AdamW": ("collapse dead no-skill", {"decay": 0.3}),
    },
)  # fmt: skip
