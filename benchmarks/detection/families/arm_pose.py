"""The elbow and the hand of a robot's arm in a picture, by Lightning with manual optimization.

The network has an optimizer for its convolutions and one for its head; training_step does all by
itself. The skill is the share of the variance of the joints' places that is explained.
"""

from __future__ import annotations

import logging
import math
import warnings
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, explained
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

SIDE = 12
MEAN, SPREAD = 60.0, 65.0


def arms(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Pictures (N, 1, SIDE, SIDE) from 0 to 255, and places (N, 4) from -1 to 1: x, y, x, y."""
    draw = torch.Generator().manual_seed(seed)
    first = math.pi * (0.15 + 0.7 * torch.rand(count, generator=draw))
    second = first + 2.2 * (torch.rand(count, generator=draw) - 0.5)
    elbow = torch.stack([0.75 * first.cos(), 0.75 * first.sin() - 0.8], 1)
    hand = elbow + 0.6 * torch.stack([second.cos(), second.sin()], 1)
    line = torch.linspace(-1.1, 1.1, SIDE)
    grid = torch.stack([line.expand(SIDE, SIDE), -line.view(-1, 1).expand(SIDE, SIDE)], 2)
    pixels = torch.zeros(count, SIDE, SIDE)
    root = torch.tensor([0.0, -0.8]).expand(count, 2)
    for start, end, light in ((root, elbow, 230.0), (elbow, hand, 170.0)):
        along = (end - start)[:, None, None]
        from_start = grid - start[:, None, None]
        share = ((from_start * along).sum(3) / along.square().sum(3)).clamp(0, 1)
        away = (from_start - share[..., None] * along).square().sum(3)
        pixels = torch.maximum(pixels, light * torch.exp(-away / 0.02))
    pixels = pixels + 30 + 10 * torch.randn(count, SIDE, SIDE, generator=draw)
    return pixels.clamp(0, 255)[:, None], torch.cat([elbow, hand], 1)


def train(
    seed: int, hook: Any, rate: float = 2e-3, epochs: int = 14, batch: int = 32,
    optimizer: str = "adam", loss: str = "mse", times: float = 1.0, clip: float = 0.0,
    accumulate: int = 1, decay: float = 1.0, flip: bool = False, precision: str = "32-true",
    held_back: int = 0, noise: float = 0.0, count: int = 1280, validated: bool = True,
    fault: str = "",
) -> float:  # fmt: skip
    import lightning

    begin(seed)
    for name in ("lightning", "lightning.pytorch", "lightning.pytorch.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    (x, y), (held_x, held_y) = arms(count, seed + 8300), arms(200, seed + 8301)
    test_x, test_y = arms(500, seed + 8302)
    y = y + noise * torch.randn_like(y)
    if fault == "joints of another arm":
        y = y.roll(1, 0)
    if fault == "places in pixels":
        y, held_y = ((places + 1.1) / 2.2 * (SIDE - 1) for places in (y, held_y))
    x = (x - MEAN) / SPREAD
    if fault != "scaled in training only":
        held_x, test_x = (held_x - MEAN) / SPREAD, (test_x - MEAN) / SPREAD

    class ArmPose(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False
            self.body = nn.Sequential(
                nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.Flatten(),
            )  # fmt: skip
            self.head = nn.Sequential(nn.Linear(24 * 36, 64), nn.ReLU(), nn.Linear(64, 4))

        def forward(self, pictures: Tensor) -> Tensor:
            out: Tensor = self.head(self.body(pictures))
            return out.tanh() if fault == "places in pixels" else out

        def error(self, found: Tensor, places: Tensor) -> Tensor:
            if loss == "huber":
                return times * F.smooth_l1_loss(found, places, beta=0.1)
            return times * F.mse_loss(found, places)

        def training_step(self, rows: Any, number: int) -> None:
            pictures, places = rows
            if flip:
                turned = torch.rand(len(pictures)) < 0.5
                pictures = torch.where(turned.view(-1, 1, 1, 1), pictures.flip(-1), pictures)
                if fault != "pictures flipped, joints left":
                    signs = torch.tensor([-1.0, 1.0, -1.0, 1.0])
                    places = torch.where(turned.view(-1, 1), places * signs, places)
            value = self.error(self(pictures), places)
            self.log("train_loss", value)
            self.manual_backward(value / accumulate)
            if (number + 1) % accumulate:
                return
            body, head = self.optimizers()
            if clip:
                nn.utils.clip_grad_norm_(self.parameters(), clip)
            if self.current_epoch >= held_back:
                body.step()
            head.step()
            if fault != "gradients never cleared":
                body.zero_grad()
                head.zero_grad()
            if fault == "schedule of epochs by batch":
                self.decayed()

        def decayed(self) -> None:
            for scheduler in self.lr_schedulers():
                scheduler.step()

        def on_train_epoch_end(self) -> None:
            self.decayed()

        def validation_step(self, rows: Any, number: int) -> None:
            found = self(rows[0])
            self.log("val_loss", self.error(found, rows[1]))
            self.log("val_distance", (found - rows[1]).view(-1, 2, 2).norm(dim=2).mean())

        def configure_optimizers(self) -> Any:
            made: list[Any] = []
            for part in (self.body, self.head):
                if optimizer == "momentum":
                    made.append(torch.optim.SGD(part.parameters(), rate, momentum=0.9))
                else:
                    made.append(torch.optim.Adam(part.parameters(), rate))
            return made, [torch.optim.lr_scheduler.ExponentialLR(each, decay) for each in made]

    loader: Any = DataLoader(TensorDataset(x, y), batch, shuffle=True, drop_last=count > batch)
    held_loader = DataLoader(TensorDataset(held_x, held_y), 100) if validated else None
    model = ArmPose()
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=[hook.lightning()], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        precision=precision,
    )  # fmt: skip
    trainer.fit(model, loader, held_loader)
    model.eval()
    with torch.no_grad():
        found = model(test_x)
    if fault == "places in pixels":
        found = found / (SIDE - 1) * 2.2 - 1.1
    skill = explained(found, test_y)
    return skill if math.isfinite(skill) else math.nan


CASES = cases(
    "arm pose",
    train,
    {
        "plain": {},
        "momentum, clipped": {"optimizer": "momentum", "rate": 0.03, "clip": 1.0},
        "Huber x 1000, decay by epoch": {"loss": "huber", "times": 1e3, "decay": 0.8},
        "sixteen by two": {"batch": 16, "accumulate": 2},
        "flipped with their joints": {"flip": True},
        "bfloat16, no validation": {"precision": "bf16-mixed", "validated": False},
        "convolutions held back, places with noise": {"held_back": 2, "noise": 0.08},
    },
    {
        "joints of another arm": ("no-skill overfit", {"fault": "joints of another arm"}),
        "places in pixels": ("range saturated no-skill", {"fault": "places in pixels"}),
        "scaled in training only": ("inputs overfit", {"fault": "scaled in training only"}),
        "pictures flipped, joints left": (
            "no-skill overfit",
            {"flip": True, "fault": "pictures flipped, joints left"},
        ),
        "gradients never cleared": (
            "kept-gradients fast no-skill",
            {"fault": "gradients never cleared", "optimizer": "momentum", "rate": 0.03},
        ),
        "schedule of epochs by batch": (
            "schedule slow no-skill",
            {"fault": "schedule of epochs by batch", "decay": 0.6, "rate": 5e-4},
        ),
        "rate x 100": ("fast no-skill dead", {"rate": 0.2}),
    },
)
