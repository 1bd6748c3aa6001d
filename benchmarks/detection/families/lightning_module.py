"""A LightningModule, by the Trainer with its callback."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import torch
from benchmarks.detection.families.kit import (
    begin,
    class_skill,
    dense,
    normal,
    optimizer_of,
    scheduler_of,
)
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIZE, KINDS = 18, 5


def train(
    seed: int, hook: Any, rate: float = 3e-3, epochs: int = 6, batch: int = 32,
    accumulate: int = 1, clip: float | None = None, schedule: str = "constant", noise: float = 0.0,
    batch_norm: bool = False, fault: str = "", frozen: bool = False,
) -> float:  # fmt: skip
    import lightning

    begin(seed)
    for name in ("lightning", "lightning.pytorch", "lightning.pytorch.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    count = 50 if fault == "memorises" else 4000
    x, held = normal(count, SIZE, seed=seed + 350), normal(800, SIZE, seed=seed + 351)
    mixing, kinds = normal(SIZE, 5, seed=121), normal(5, KINDS, seed=122)
    y, held_y = ((torch.tanh(p @ mixing / 3) @ kinds).argmax(1) for p in (x, held))
    if fault == "shuffled":
        y = y[torch.randperm(count)]
    if noise:
        y = torch.where(torch.rand(count) < noise, torch.randint(KINDS, (count,)), y)
    if fault == "not a number":
        x[count // 2, 0] = float("nan")

    class Classifier(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Linear(SIZE, 64), nn.BatchNorm1d(64) if batch_norm else nn.Identity(), nn.ReLU()
            )
            self.head = dense([64, 64, KINDS])
            self.body.requires_grad_(not frozen)
            self.criterion = nn.CrossEntropyLoss()

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.body(x))

        def training_step(self, rows: Any, number: int) -> Tensor:
            scores = self(rows[0])
            if fault == "softmax":
                scores = scores.softmax(1)
            loss: Tensor = self.criterion(scores, rows[1])
            self.log("train_loss", loss)
            return loss

        def validation_step(self, rows: Any, number: int) -> None:
            scores = self(rows[0] * (255 if fault == "scaled evaluation" else 1))
            self.log("val_loss", self.criterion(scores, rows[1]))
            self.log("val_accuracy", (scores.argmax(1) == rows[1]).float().mean())

        def configure_optimizers(self) -> Any:
            part = self.body if fault == "head left out" else self
            chosen = [p for p in part.parameters() if p.requires_grad]
            optimizer = optimizer_of("adam", chosen, rate)
            steps = epochs * count // batch // accumulate
            scheduler = scheduler_of(optimizer, schedule, steps)
            return [optimizer], [{"scheduler": scheduler, "interval": "step"}]

    rows = torch.utils.data.TensorDataset(x, y)
    loader = torch.utils.data.DataLoader(rows, batch, shuffle=True)
    held_rows = torch.utils.data.TensorDataset(held, held_y)
    model = Classifier()
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=[hook.lightning()], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        accumulate_grad_batches=accumulate, gradient_clip_val=clip,
    )  # fmt: skip
    trainer.fit(model, loader, torch.utils.data.DataLoader(held_rows, 200))
    model.eval()
    with torch.no_grad():
        return class_skill(model(held * (255 if fault == "scaled evaluation" else 1)), held_y)


CASES = cases(
    "lightning",
    train,
    {
        "plain": {},
        "accumulation": {"batch": 8, "accumulate": 4, "epochs": 5},
        "batch norm and clipping": {"batch_norm": True, "clip": 1.0},
        "restarts": {"schedule": "restarts", "rate": 5e-3},
        "body frozen": {"frozen": True, "epochs": 8},
        "labels with noise": {"noise": 0.05},
    },
    {
        "labels shuffled": ("no-skill overfit", {"fault": "shuffled"}),
        "softmax before the loss": ("probabilities", {"fault": "softmax", "rate": 1e-4}),
        "head in no optimizer": ("unbound", {"fault": "head left out", "rate": 1e-3}),
        "not a number": ("not-finite", {"fault": "not a number"}),
        "evaluation x 255": ("inputs", {"fault": "scaled evaluation"}),
        "memorises 50": ("overfit", {"fault": "memorises", "epochs": 300}),
        "rate x 1000": ("fast no-skill dead", {"rate": 3.0}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
    },
)
