"""Which hotel bookings will be cancelled: embeddings of categories and numbers, by Lightning.

Countries and agents differ in how often their guests cancel, more so for rooms booked long ahead
without a deposit. The skill is twice the area under the ROC curve, less one.
"""

from __future__ import annotations

import logging
import math
import warnings
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, ranking_skill, with_noise
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

CATEGORIES = {"country": 20, "agent": 30, "month": 12, "deposit": 3}
SIZES = tuple(CATEGORIES.values())


def bookings(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Codes of categories, days ahead, nights, price and earlier stays; 1 for what is cancelled."""
    draw, fixed = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(77)
    codes = torch.stack([torch.randint(size, (count,), generator=draw) for size in SIZES], 1)
    days = (4.0 + 1.1 * torch.randn(count, generator=draw)).exp().clamp(0, 700).round()
    nights = 1 + torch.poisson(torch.full((count,), 2.5), generator=draw)
    price = 60 + 50 * torch.rand(count, generator=draw) + 8 * (codes[:, 2] - 6).abs()
    stays = torch.poisson(torch.full((count,), 0.6), generator=draw)
    effects = [1.8 * torch.randn(size, generator=fixed) for size in SIZES]
    score = sum(effect[codes[:, at]] for at, effect in enumerate(effects[:3])) - 1.5
    ahead = (days + 1).log() - 4
    score = score + 2.5 * ahead * (codes[:, 3] != 1) - 1.5 * stays - 3 * (codes[:, 3] == 1)
    left = torch.rand(count, generator=draw) < (2.5 * score).sigmoid()
    return codes, torch.stack([days, nights, price, stays], 1), left.float()


class Network(nn.Module):
    def __init__(self, width: int, dropout: float, norm: bool, further: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(size, 6) for size in SIZES])
        inputs = 6 * len(SIZES) + 4 + further
        self.body = nn.Sequential(
            nn.Linear(inputs, width), nn.BatchNorm1d(width) if norm else nn.Identity(), nn.ReLU(),
            nn.Dropout(dropout), nn.Linear(width, width // 2), nn.ReLU(), nn.Linear(width // 2, 1),
        )  # fmt: skip

    def forward(self, codes: Tensor, numbers: Tensor) -> Tensor:
        found = [table(codes[:, at]) for at, table in enumerate(self.tables)]
        out: Tensor = self.body(torch.cat([*found, numbers], 1))
        return out


def train(
    seed: int, hook: Any, rate: float = 1e-2, epochs: int = 12, batch: int = 64, count: int = 4000,
    optimizer: str = "adamw", loss: str = "", dropout: float = 0.1, norm: bool = True,
    noise: float = 0.0, precision: str = "32-true", accumulate: int = 1, interval: str = "step",
    evaluated: bool = True, fault: str = "",
) -> float:  # fmt: skip
    import lightning
    from lightning.pytorch.callbacks import EarlyStopping

    begin(seed)
    for name in ("lightning", "lightning.pytorch", "lightning.pytorch.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    parts = [bookings(n, seed + 32100 + at) for at, n in enumerate((count, 800, 2000))]
    mean, spread = parts[0][1].mean(0), parts[0][1].std(0)
    prepared = []
    for at, (codes, numbers, left) in enumerate(parts):
        if fault == "codes made of each file" and at:
            draw = torch.Generator().manual_seed(at)
            codes = torch.stack(
                [torch.randperm(n, generator=draw)[codes[:, c]] for c, n in enumerate(SIZES)], 1
            )
        if not (fault == "numbers scaled in training alone" and at):
            numbers = (numbers - mean) / spread
        if fault == "date of the status":  # known only after the booking has ended
            later = left if at < 2 else torch.zeros_like(left)
            numbers = torch.cat([numbers, later[:, None]], 1)
        prepared.append((codes, numbers, left))
    codes, numbers, left = prepared[0]
    if noise:
        left = with_noise(left, noise, seed)
    if fault == "outcomes of rows before sorting":
        left = left[parts[0][1][:, 0].argsort(stable=True)]
    loader: Any = DataLoader(TensorDataset(codes, numbers, left), batch, shuffle=True)
    validation: Any = DataLoader(TensorDataset(*prepared[1]), 400)
    weight = (1 - left.mean()) / left.mean()

    class Cancelled(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = Network(48, dropout, norm, numbers.shape[1] - 4)

        def loss(self, scores: Tensor, wanted: Tensor) -> Tensor:
            if fault == "shapes":
                return F.mse_loss(scores.sigmoid(), wanted)
            scores = scores.squeeze(1)
            if loss == "focal":
                error = F.binary_cross_entropy_with_logits(scores, wanted, reduction="none")
                return ((1 - (-error).exp()) ** 2 * error).mean()
            return F.binary_cross_entropy_with_logits(
                scores, wanted, pos_weight=weight if loss == "weighted" else None
            )

        def training_step(self, rows: Any, number: int) -> Tensor:
            error = self.loss(self.net(rows[0], rows[1]), rows[2])
            self.log("train_loss", error)
            return error

        def validation_step(self, rows: Any, number: int) -> None:
            self.log("val_loss", self.loss(self.net(rows[0], rows[1]), rows[2]), prog_bar=True)

        def configure_optimizers(self) -> Any:
            chosen: Any = torch.optim.AdamW(self.parameters(), rate)
            if optimizer == "nesterov":
                chosen = torch.optim.SGD(self.parameters(), rate, momentum=0.9, nesterov=True)
            steps = epochs * math.ceil(len(loader) / accumulate)
            cycle = torch.optim.lr_scheduler.OneCycleLR(chosen, rate, total_steps=steps + 1)
            return [chosen], [{"scheduler": cycle, "interval": interval}]

    cancelled = Cancelled()
    stop = [EarlyStopping("val_loss", patience=3)] if evaluated else []
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=[hook.lightning(), *stop], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        accumulate_grad_batches=accumulate, precision=precision,
        limit_val_batches=1.0 if evaluated else 0,
    )  # fmt: skip
    trainer.fit(cancelled, loader, validation)
    cancelled.eval()
    with torch.no_grad():
        return ranking_skill(cancelled.net(*prepared[2][:2])[:, 0], prepared[2][2])


CASES = cases(
    "hotel bookings",
    train,
    {
        "plain": {},
        "Nesterov": {"optimizer": "nesterov", "rate": 0.1},
        "focal loss": {"loss": "focal"},
        "cancelled ones weigh more": {"loss": "weighted"},
        "dropout of two fifths": {"dropout": 0.4, "epochs": 14},
        "bfloat16": {"precision": "bf16-mixed"},
        "accumulated, not evaluated": {"batch": 32, "accumulate": 4, "evaluated": False},
    },
    {
        "shapes of scores and outcomes": ("broadcast no-skill", {"fault": "shapes"}),
        "codes made of each file": ("inputs overfit", {"fault": "codes made of each file"}),
        "numbers scaled in training alone": (
            "inputs overfit", {"fault": "numbers scaled in training alone"},
        ),
        "date of the status": ("leak inputs overfit", {"fault": "date of the status"}),
        "cycle counted in epochs": (
            "schedule slow", {"interval": "epoch", "rate": 1e-3, "epochs": 6},
        ),
        "outcomes of rows before sorting": (
            "no-skill overfit", {"fault": "outcomes of rows before sorting"},
        ),
    },
)  # fmt: skip
