"""Cracks in pictures of roads: a small convolutional network, Dice and cross-entropy by hand.

A crack is a thin dark line that wanders through the picture, among grains and shadows.
It covers few of the pixels. The skill is the Dice coefficient above that of cracks everywhere.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, scheduler_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

SIDE = 20


def roads(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Pictures (N, 1, SIDE, SIDE) of 0 to 255, and masks of 0 and 1 of the same shape."""
    draw = torch.Generator().manual_seed(seed)
    steps = (0.9 * torch.randn(count, SIDE, generator=draw)).cumsum(1)
    at = 4 + (SIDE - 8) * torch.rand(count, 1, generator=draw) + steps
    place = torch.arange(SIDE).float()
    masks = ((place - at[..., None]).abs() < 0.8).float()
    turned = torch.rand(count, 1, 1, generator=draw) < 0.5
    masks = torch.where(turned, masks.transpose(1, 2), masks)
    light = 110 + 60 * torch.rand(count, 1, 1, generator=draw)
    shadow = 50 * torch.rand(count, 1, 1, generator=draw) * (place[:, None] < place).float()
    picture = light - shadow - 60 * masks + 15 * torch.randn(count, SIDE, SIDE, generator=draw)
    return picture.clamp(0, 255)[:, None], masks[:, None]


def dice(shares: Tensor, masks: Tensor, over: str = "") -> Tensor:
    """One less the Dice coefficient of shares from 0 to 1."""
    axes = (0, 1, 2, 3) if over == "batch" else (1, 2, 3)
    both = (shares * masks).sum(axes)
    return (1 - (2 * both + 1) / (shares.sum(axes) + masks.sum(axes) + 1)).mean()


def loss_of(kind: str, scores: Tensor, masks: Tensor, weight: float) -> Tensor:
    shares = scores.sigmoid()
    if kind == "thresholded":
        return dice((shares > 0.5).float() + 0 * scores, masks)
    if kind == "Dice as the loss":
        return 1 - dice(shares, masks)
    error = -(masks * (shares + 1e-6).log() + (1 - masks) * (1 - shares + 1e-6).log())
    if kind == "weighted":
        error = error * (1 + 3 * masks)
    if kind == "focal":
        error = error * (masks - shares).abs() ** 2 * 4
    if kind == "Dice alone":
        return dice(shares, masks)
    if kind == "negative Dice":
        return dice(shares, masks, "batch") - 1
    return weight * error.mean() + dice(shares, masks)


def network(norm: bool) -> nn.Sequential:
    def block(inputs: int, outputs: int, wide: int = 1) -> list[nn.Module]:
        layer = nn.Conv2d(inputs, outputs, 3, padding=wide, dilation=wide)
        return [layer, nn.BatchNorm2d(outputs) if norm else nn.Identity(), nn.ReLU()]

    return nn.Sequential(*block(1, 8), *block(8, 12, 2), *block(12, 8), nn.Conv2d(8, 1, 1))


def train(
    seed: int, hook: Any, loss: str = "", rate: float = 5e-3, epochs: int = 8, batch: int = 8,
    count: int = 400, optimizer: str = "adam", schedule: str = "constant", norm: bool = True,
    weight: float = 1.0, precision: str = "32-true", accumulate: int = 1, evaluated: bool = True,
    noise: float = 0.0, fault: str = "",
) -> float:  # fmt: skip
    import lightning

    begin(seed)
    for name in ("lightning", "lightning.pytorch", "lightning.pytorch.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    (x, masks), (held, held_masks), (test, test_masks) = (
        roads(n, seed + 38100 + at) for at, n in enumerate((count, 60, 200))
    )
    x, held, test = ((of - 120) / 40 for of in (x, held, test))
    if noise:  # pixels at the edges that were drawn or forgotten
        flips = torch.rand_like(masks) < noise
        masks = torch.where(flips, masks.roll(1, 3), masks)
    if fault == "masks divided by 255":  # although they are 0 and 1 already
        masks, held_masks = masks / 255, held_masks / 255
    if fault == "bytes in evaluation":
        held, test = held * 40 + 120, test * 40 + 120
    loader: Any = DataLoader(TensorDataset(x, masks), batch, shuffle=True)

    class Cracks(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = network(norm)

        def training_step(self, rows: Any, number: int) -> Tensor:
            error = loss_of(loss, self.net(rows[0]), rows[1], weight)
            self.log("train_loss", error)
            return error

        def validation_step(self, rows: Any, number: int) -> None:
            scores = self.net(rows[0])
            self.log("val_loss", loss_of(loss, scores, rows[1], weight))
            self.log("val_dice", 1 - dice((scores > 0).float(), rows[1]))

        def configure_optimizers(self) -> Any:
            chosen: Any = torch.optim.Adam(self.parameters(), rate)
            if optimizer == "momentum":
                chosen = torch.optim.SGD(self.parameters(), rate, momentum=0.9)
            steps = epochs * len(loader) // accumulate
            planned = scheduler_of(chosen, schedule, steps)
            return [chosen], [{"scheduler": planned, "interval": "step"}]

    cracks = Cracks()
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=[hook.lightning()], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        accumulate_grad_batches=accumulate, precision=precision,
        limit_val_batches=1.0 if evaluated else 0,
    )  # fmt: skip
    trainer.fit(cracks, loader, DataLoader(TensorDataset(held, held_masks), 30))
    cracks.eval()
    with torch.no_grad():
        found = 1 - dice((cracks.net(test) > 0).float(), test_masks).item()
    nothing = 1 - dice(torch.ones_like(test_masks), test_masks).item()
    return float((found - nothing) / (1 - nothing))


CASES = cases(
    "road cracks",
    train,
    {
        "plain": {},
        "Dice alone": {"loss": "Dice alone"},
        "Dice of the batch below zero": {"loss": "negative Dice"},
        "cracks weigh more": {"loss": "weighted"},
        "momentum, cosine": {"optimizer": "momentum", "rate": 5e-2, "schedule": "cosine"},
        "batch of two, accumulated": {"batch": 2, "accumulate": 4, "epochs": 5},
        "no norms, not evaluated": {"norm": False, "evaluated": False, "epochs": 10},
    },
    {
        "thresholded before the loss": ("no-gradient no-skill", {"loss": "thresholded"}),
        "Dice as the loss": ("worse no-skill collapse", {"loss": "Dice as the loss"}),
        "masks divided by 255": ("range ignored collapse", {"fault": "masks divided by 255"}),
        "bytes in evaluation": ("inputs overfit", {"fault": "bytes in evaluation"}),
        "rate x 1000, no norms": ("fast no-skill dead collapse", {"rate": 5.0, "norm": False}),
    },
)
