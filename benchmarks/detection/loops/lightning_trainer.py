"""A LightningModule, by the Trainer with its callback."""

from __future__ import annotations

import logging
import warnings
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.kit import scheduler_of
from benchmarks.detection.loop import GRADIENTS, Loop, optimizer_of, skill_of
from benchmarks.detection.run_hook import RunHook
from benchmarks.detection.task import Training


def train(t: Training, hook: RunHook) -> float:
    import lightning

    for name in ("lightning", "lightning.pytorch", "lightning.pytorch.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = t.model
            self.automatic_optimization = t.slip != "manual without an update"

        def forward(self, x: Tensor) -> Any:
            return self.model(x)

        def training_step(self, rows: Any, number: int) -> Any:
            loss = t.loss(self(rows[0]), rows[1])
            self.log("train_loss", loss)
            if t.slip == "manual without an update":
                self.optimizers().zero_grad()
                self.manual_backward(loss)
            if t.slip == "returns nothing":
                return None
            return loss.detach().requires_grad_() if t.slip == "returns a detached loss" else loss

        def validation_step(self, rows: Any, number: int) -> None:
            self.log("val_loss", t.loss(self(rows[0]), rows[1]))

        def configure_optimizers(self) -> Any:
            optimizer = optimizer_of(t, self.model)
            scheduler = scheduler_of(optimizer, t.schedule, t.steps)
            by = "epoch" if t.slip == "scheduled by the epoch" else "step"
            return [optimizer], [{"scheduler": scheduler, "interval": by}]

    s = t.samples
    rows = DataLoader(TensorDataset(s.x, s.y), t.batch, shuffle=t.shuffled, drop_last=True)
    held = DataLoader(TensorDataset(s.held_x[:256], s.held_y[:256]), 128)
    module = Module()
    trainer = lightning.Trainer(
        max_steps=t.steps,  # of the optimizer, which a mistake may never call
        max_epochs=-(-t.steps // max(1, len(rows))),
        val_check_interval=max(1, min(len(rows), t.steps // 8)),
        accelerator="cpu",
        callbacks=[hook.lightning()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=None if t.slip.startswith("manual") else t.clip,
    )
    trainer.fit(module, rows, held)
    return skill_of(t, t.model)


LOOP = Loop(
    train,
    without=frozenset(["adversarial", "episodes", "contrastive", "graph", "ctc"]),
    parts=GRADIENTS | {"lightning"},
)
