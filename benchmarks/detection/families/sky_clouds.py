"""Kinds of clouds on small photos of the sky: a convolutional network in Lightning.

A photo of 16 x 16 grey values is filtered noise: heaps, small heaps, streaks, layers or a veil,
lighter or darker with the hour. A data module scales the photos, a module trains. The skill is
accuracy above the most frequent kind, on other photos.
"""

from __future__ import annotations

import logging
import math
import warnings
from typing import Any

import lightning
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, class_skill, optimizer_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

SIDE, KINDS = 16, 5
WIDE = torch.tensor([2.2, 0.9, 3.0, 6.0, 0.0])  # how far a cloud reaches, across and down
HIGH = torch.tensor([2.2, 0.9, 0.5, 1.5, 0.0])


def photos(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Grey values 0 to 255 as (N, 1, SIDE, SIDE), and kinds."""
    draw = torch.Generator().manual_seed(seed)
    kind = torch.randint(KINDS, (count,), generator=draw)
    noise = torch.randn(count, SIDE, SIDE, generator=draw)
    waves = 2 * math.pi * torch.fft.fftfreq(SIDE)
    size = 0.85 + 0.3 * torch.rand(count, 1, 1, generator=draw)
    across, down = (size * reach[kind][:, None, None] for reach in (WIDE, HIGH))
    kept = torch.exp(-0.5 * ((across * waves) ** 2 + (down * waves[:, None]) ** 2))
    clouds = torch.fft.ifft2(torch.fft.fft2(noise) * kept).real
    clouds = clouds / clouds.std((1, 2), keepdim=True).clamp(min=1e-3)
    clouds = clouds * (15 + 25 * torch.rand(count, 1, 1, generator=draw))
    hour = 90 + 80 * torch.rand(count, 1, 1, generator=draw)
    grain = 6 * torch.randn(count, SIDE, SIDE, generator=draw)
    return (hour + clouds + grain).clamp(0, 255)[:, None], kind


class SkyData(lightning.LightningDataModule):
    """Photos for training and for validation, and how both are scaled."""

    def __init__(self, seed: int, count: int, batch: int, noise: float, fault: str) -> None:
        super().__init__()
        (x, y), (held_x, held_y) = photos(count, 7 * seed + 1), photos(300, 7 * seed + 2)
        self.mean, self.std = x.mean(), x.std()
        if fault == "grey values as they are":
            self.mean, self.std = torch.tensor(0.0), torch.tensor(1.0)
        if noise:
            y = torch.where(torch.rand(count) < noise, torch.randint(KINDS, y.shape), y)
        self.batch, self.fault = batch, fault
        self.train_set = TensorDataset((x - self.mean) / self.std, y)
        self.val_set = TensorDataset(*self.prepared(held_x, held_y))

    def prepared(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Photos of validation and of the test."""
        if self.fault == "folders listed in another order":
            y = torch.tensor([2, 0, 4, 1, 3])[y]
        if self.fault == "shares of 255 in evaluation":
            return x / 255, y
        return (x - self.mean) / self.std, y

    def train_dataloader(self) -> Any:
        few = len(self.train_set) < self.batch
        return DataLoader(self.train_set, self.batch, shuffle=True, drop_last=not few)

    def val_dataloader(self) -> Any:
        return DataLoader(self.val_set, 150)


class SkyModule(lightning.LightningModule):
    def __init__(self, rate: float, optimizer: str, schedule: str, norm: bool, smoothing: float,
                 by_hand: bool, clip: float, frozen: int, fault: str) -> None:  # fmt: skip
        super().__init__()
        self.automatic_optimization = not by_hand
        self.rate, self.optimizer, self.schedule = rate, optimizer, schedule
        self.clip, self.frozen, self.fault = clip, frozen, fault
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8) if norm else nn.Identity(),
            nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(),
            nn.MaxPool2d(2), nn.Flatten(),
        )  # fmt: skip
        self.head: nn.Module = nn.Linear(16 * 16, KINDS)
        if fault == "softmax over the batch":
            self.head = nn.Sequential(self.head, nn.Softmax(dim=0))
        self.criterion = nn.CrossEntropyLoss(label_smoothing=smoothing)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.body(x))
        return scores

    def on_train_epoch_start(self) -> None:
        self.body.requires_grad_(self.current_epoch >= self.frozen)

    def training_step(self, batch: Any, number: int) -> Tensor:
        x, y = batch
        loss: Tensor = self.criterion(self(x), y)
        self.log("train_loss", loss)
        if not self.automatic_optimization:
            steering: Any = self.optimizers()
            if self.fault != "gradients kept by hand":
                steering.zero_grad()
            self.manual_backward(loss)
            if self.clip:
                nn.utils.clip_grad_norm_(self.parameters(), self.clip)
            steering.step()
        return loss

    def validation_step(self, batch: Any, number: int) -> None:
        x, y = batch
        scores = self(x)
        self.log("val_loss", F.cross_entropy(scores, y))
        self.log("val_accuracy", (scores.argmax(1) == y).float().mean())

    def configure_optimizers(self) -> Any:
        steering = optimizer_of(self.optimizer, self.parameters(), self.rate)
        if not self.schedule:
            return steering
        plans, steps = torch.optim.lr_scheduler, int(self.trainer.estimated_stepping_batches)
        plan: Any = (
            plans.OneCycleLR(steering, 3 * self.rate, total_steps=steps)
            if self.schedule == "one cycle"
            else plans.StepLR(steering, step_size=8, gamma=0.1)
        )
        return {"optimizer": steering, "lr_scheduler": {"scheduler": plan, "interval": "step"}}


def train(
    seed: int, hook: Any, rate: float = 2e-3, epochs: int = 14, batch: int = 16, count: int = 2000,
    optimizer: str = "adam", schedule: str = "", norm: bool = False, smoothing: float = 0.0,
    by_hand: bool = False, clip: float = 0.0, frozen: int = 0, noise: float = 0.0,
    fault: str = "", **settings: Any,
) -> float:  # fmt: skip
    begin(seed)
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    data = SkyData(seed, count, batch, noise, fault)
    module = SkyModule(rate, optimizer, schedule, norm, smoothing, by_hand, clip, frozen, fault)
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=[hook.lightning()], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        num_sanity_val_steps=0, **settings,
    )  # fmt: skip
    trainer.fit(module, datamodule=data)
    x, y = data.prepared(*photos(1200, 7 * seed + 3))
    module.eval()
    with torch.no_grad():
        return class_skill(module(x), y)


CASES = cases(
    "sky clouds",
    train,
    {
        "plain": {},
        "one cycle, label smoothing": {"schedule": "one cycle", "smoothing": 0.1},
        "accumulated, bfloat16": {
            "accumulate_grad_batches": 4, "precision": "bf16-mixed", "rate": 5e-3,
        },
        "optimised by hand, clipped": {"by_hand": True, "clip": 1.0},
        "batch norm, momentum, batches of 64": {
            "norm": True, "optimizer": "momentum", "rate": 5e-2, "batch": 64, "epochs": 24,
        },
        "body frozen at first": {"frozen": 3},
        "some labels at random": {"noise": 0.1, "schedule": "one cycle", "rate": 1e-3},
    },
    {
        "softmax over the batch": (
            "softmax-axis probabilities slow",
            {"fault": "softmax over the batch", "optimizer": "sgd", "rate": 1e-2},
        ),
        "shares of 255 in evaluation": (
            "inputs worse overfit", {"fault": "shares of 255 in evaluation"},
        ),
        "folders listed in another order": (
            "overfit worse inputs", {"fault": "folders listed in another order"},
        ),
        "grey values as they are": (
            "inputs fast dead no-skill not-finite",
            {"fault": "grey values as they are", "optimizer": "momentum", "rate": 1e-2},
        ),
        "gradients kept by hand": (
            "kept-gradients fast worse",
            {"fault": "gradients kept by hand", "by_hand": True, "optimizer": "momentum"},
        ),
        "steps of the schedule meant for epochs": ("schedule slow no-skill", {"schedule": "step"}),
        "thirty photos": ("overfit", {"count": 30, "epochs": 400}),
    },
)  # fmt: skip
