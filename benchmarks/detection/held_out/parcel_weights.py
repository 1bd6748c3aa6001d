"""The weight of a parcel from its size, its sender, and its kind: a LightningModule."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin, dense, normal
from benchmarks.detection.skill import explained


def parcels(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Three sides in metres, a sender of 20 and a kind of 6; the logarithm of kilograms."""
    draw = torch.Generator().manual_seed(seed)
    sides = 0.1 + torch.rand(count, 3, generator=draw)
    sender = torch.randint(20, (count, 1), generator=draw)
    kind = torch.randint(6, (count, 1), generator=draw)
    weight = sides.log().sum(1, keepdim=True) + normal(20, 1, seed=40)[sender[:, 0]] / 2
    weight = weight + normal(6, 1, seed=41)[kind[:, 0]] + 2
    return torch.cat([sides, sender, kind], 1), weight + 0.1 * torch.randn(count, 1, generator=draw)


def train(seed: int, hook: Any, rate: float = 5e-3, epochs: int = 8, clip: float | None = None,
          weight_decay: float = 0.0, schedule: bool = False, fault: str = "") -> float:  # fmt: skip
    import lightning

    begin(seed)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    (x, y), (held_x, held_y) = parcels(3000, seed + 4100), parcels(600, seed + 4101)
    if fault == "centimetres later":
        held_x = held_x * torch.tensor([100.0, 100, 100, 1, 1])
    if fault == "grams, no logarithm":
        y, held_y = 1000 * y.exp(), 1000 * held_y.exp()
    if fault == "an empty parcel":
        x[700, 1] = 0.0

    class Weights(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.sender, self.kind = nn.Embedding(20, 6), nn.Embedding(6, 4)
            self.layers = dense([13, 48, 1])

        def forward(self, rows: Tensor) -> Any:
            codes = rows[:, 3:].long()
            sides = rows[:, :3].log() if fault == "an empty parcel" else rows[:, :3]
            return self.layers(
                torch.cat([sides, self.sender(codes[:, 0]), self.kind(codes[:, 1])], 1)
            )

        def training_step(self, rows: Any, number: int) -> Tensor:
            found = self(rows[0])
            wanted = rows[1].squeeze(1) if fault == "labels squeezed" else rows[1]
            loss: Tensor = nn.functional.mse_loss(found, wanted)
            self.log("train_loss", loss)
            return loss

        def validation_step(self, rows: Any, number: int) -> None:
            self.log("val_loss", nn.functional.mse_loss(self(rows[0]), rows[1]))

        def configure_optimizers(self) -> Any:
            part = self.kind if fault == "one table in the optimizer" else self
            optimizer = torch.optim.Adam(part.parameters(), rate, weight_decay=weight_decay)
            if not schedule:
                return optimizer
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.3)]

    model = Weights()
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=[hook.lightning()], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        gradient_clip_val=clip,
    )  # fmt: skip
    rows = DataLoader(TensorDataset(x, y), 32, shuffle=True)
    trainer.fit(model, rows, DataLoader(TensorDataset(held_x, held_y), 200))
    model.eval()
    with torch.no_grad():
        return explained(model(held_x), held_y)


CASES = cases(
    "parcel weights",
    train,
    {
        "plain": {},
        "clipped": {"clip": 1.0},
        "rate lowered in steps": {"schedule": True, "epochs": 9},
        "a little decay": {"weight_decay": 1e-5},
    },
    {
        "centimetres later": ("inputs overfit worse", {"fault": "centimetres later"}),
        "grams, no logarithm": (
            "range no-skill slow", {"fault": "grams, no logarithm", "rate": 1e-3},
        ),
        "an empty parcel": ("not-finite", {"fault": "an empty parcel"}),
        "labels squeezed": ("broadcast no-skill", {"fault": "labels squeezed"}),
        "one table in the optimizer": ("unbound", {"fault": "one table in the optimizer"}),
        "decay of 0.5": ("decay collapse no-skill", {"weight_decay": 0.5}),
        "rate of 1e-6": ("slow no-skill", {"rate": 1e-6}),
    },
)  # fmt: skip
