"""A LightningModule that optimizes by itself: one optimizer for a table, one for the network."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, explained, normal, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

PLACES, SIZE = 60, 8


def trips(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """From and to (N, 2), circumstances (N, F), and how long it takes."""
    draw = torch.Generator().manual_seed(seed)
    ends = torch.randint(PLACES, (count, 2), generator=draw)
    x = torch.randn(count, SIZE, generator=draw)
    where = normal(PLACES, 2, seed=61)
    far = (where[ends[:, 0]] - where[ends[:, 1]]).norm(dim=1)
    slow = 1 + 0.5 * torch.sin(x[:, 0]) + 0.4 * torch.tanh(x[:, 1] * x[:, 2])
    return ends, x, far * slow + 0.1 * torch.randn(count, generator=draw)


def train(
    seed: int, hook: Any, rate: float = 4e-3, table_rate: float = 0.1, epochs: int = 8,
    batch: int = 40, clip: float = 0.0, accumulate: int = 1, schedule: str = "constant",
    turns: bool = False, seldom: int = 1, noise: float = 0.0,
    table_kind: str = "sparse", fault: str = "",
) -> float:  # fmt: skip
    import lightning

    begin(seed)
    for name in ("lightning", "lightning.pytorch", "lightning.pytorch.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    count = 80 if fault == "memorises" else 5000
    (ends, x, y), (held_ends, held_x, held_y) = trips(count, seed + 540), trips(800, seed + 541)
    if fault == "times of the trip before":
        y = y.roll(1)
    if fault == "places numbered otherwise":
        held_ends = torch.randperm(PLACES)[held_ends]
    if noise:
        y = torch.where(torch.rand(count) < noise, y[torch.randperm(count)], y)
    if fault == "not a number":
        x[count // 3, 1] = float("nan")

    class Duration(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False
            self.table = nn.Embedding(PLACES, 8, sparse=table_kind == "sparse")
            self.net = nn.Sequential(
                nn.Linear(16 + SIZE, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 1)
            )

        def forward(self, ends: Tensor, x: Tensor) -> Tensor:
            seen = self.table(ends)
            if fault == "table detached":
                seen = seen.detach()
            pairs = torch.cat([seen[:, 0] - seen[:, 1], (seen[:, 0] - seen[:, 1]).abs()], 1)
            return self.net(torch.cat([pairs, x], 1)).squeeze(1)

        def error(self, found: Tensor, y: Tensor) -> Tensor:
            error = (found[:, None] if fault == "each against all" else found) - y
            return (error.abs() + 1).log().mean() if noise else (error**2).mean()

        def training_step(self, rows: Any, number: int) -> Tensor:
            table, net = self.optimizers()
            loss = self.error(self(*rows[:2]), rows[2])
            self.manual_backward(-loss if fault == "wrong sign" else loss / accumulate)
            self.log("train_loss", loss)
            if (number + 1) % accumulate:
                return loss.detach()
            if clip:
                nn.utils.clip_grad_norm_(self.net.parameters(), clip)
            if not turns or number // 50 % 2:
                net.step()
            turn = not turns or number // 50 % 2 == 0
            if turn and number % seldom == 0 and fault != "table never stepped":
                table.step()
            if fault != "gradients of the network kept":
                net.zero_grad()
            table.zero_grad()
            for scheduler in self.lr_schedulers():
                scheduler.step()
            return loss.detach()

        def validation_step(self, rows: Any, number: int) -> None:
            self.log("val_loss", self.error(self(*rows[:2]), rows[2]))

        def configure_optimizers(self) -> Any:
            place = list(self.table.parameters())
            if table_kind == "sparse":
                table: Any = torch.optim.SparseAdam(place, table_rate / 5)
            else:
                table = torch.optim.Adagrad(place, table_rate)
            weights = (self.table if fault == "network forgotten" else self.net).parameters()
            kept = fault == "gradients of the network kept"
            net = torch.optim.SGD(weights, rate) if kept else torch.optim.Adam(weights, rate)
            steps = epochs * count // batch // accumulate
            both: list[Any] = [scheduler_of(each, schedule, steps) for each in (table, net)]
            if fault == "decays by batch":  # it was meant by epoch
                both = [torch.optim.lr_scheduler.ExponentialLR(each, 0.9) for each in (table, net)]
            return [table, net], both

    rows = torch.utils.data.TensorDataset(ends, x, y)
    loader = torch.utils.data.DataLoader(rows, batch, shuffle=True, drop_last=count > batch)
    held_rows = torch.utils.data.TensorDataset(held_ends, held_x, held_y)
    model = Duration()
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=[hook.lightning()], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(model, loader, torch.utils.data.DataLoader(held_rows, 400))
    model.eval()
    with torch.no_grad():
        return explained(model(held_ends, held_x), held_y)


CASES = cases(
    "two optimizers",
    train,
    {
        "plain": {},
        "dense table, adagrad": {"table_kind": "dense", "table_rate": 0.4},
        "clipped": {"clip": 0.1},
        "accumulation": {"batch": 10, "accumulate": 4},
        "in turns": {"turns": True, "epochs": 12},
        "table every third step": {"seldom": 3, "table_rate": 0.2},
        "one cycle": {"schedule": "one cycle", "rate": 8e-3, "table_rate": 0.2},
        "some times wrong": {"noise": 0.05},
    },
    {
        "times of the trip before": ("no-skill overfit", {"fault": "times of the trip before"}),
        "network in no optimizer": (
            "unbound",
            {"fault": "network forgotten", "table_kind": "dense"},
        ),
        "table never stepped": ("unbound no-gradient", {"fault": "table never stepped"}),
        "table detached": ("unbound no-gradient", {"fault": "table detached"}),
        "gradients of the network kept": (
            "kept-gradients fast worse not-finite",
            {"fault": "gradients of the network kept", "rate": 2e-2},
        ),
        "wrong sign": ("worse not-finite", {"fault": "wrong sign"}),
        "each against all": ("broadcast no-skill", {"fault": "each against all"}),
        "places numbered otherwise": ("inputs overfit", {"fault": "places numbered otherwise"}),
        "decays by batch": (
            "schedule slow no-skill",
            {"fault": "decays by batch", "rate": 1e-3, "table_rate": 0.02},
        ),
        "not a number": ("not-finite", {"fault": "not a number"}),
        "memorises 80": ("overfit", {"fault": "memorises", "epochs": 200}),
        "rate x 500": ("fast worse no-skill dead", {"rate": 2.0, "table_rate": 50.0}),
    },
)
