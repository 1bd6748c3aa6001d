"""A convolutional backbone that knew other shapes is fine-tuned on new ones, by Lightning."""

from __future__ import annotations

import copy
import logging
import warnings
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, class_skill
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

SIDE, BEFORE, KINDS = 14, 8, 4
MEAN, STD = 110.0, 60.0


@cache
def stencils() -> Tensor:
    """Twelve shapes of 8 x 8 from random strokes: BEFORE of them to learn from, KINDS new."""
    draw = torch.Generator().manual_seed(77)
    shapes = torch.zeros(BEFORE + KINDS, 8, 8)
    for shape in shapes:
        for _ in range(3):
            row, column = torch.randint(8, (2,), generator=draw).tolist()
            if torch.rand((), generator=draw) < 0.5:
                shape[row, :] = 1.0
            else:
                shape[:, column] = 1.0
    return shapes


def photos(count: int, first: int, kinds: int, seed: int) -> tuple[Tensor, Tensor]:
    """Grey pictures of 0 to 255 (count, 1, SIDE, SIDE) and the kinds they show."""
    draw = torch.Generator().manual_seed(seed)
    kind = torch.randint(kinds, (count,), generator=draw)
    at = torch.randint(SIDE - 7, (count, 2), generator=draw).tolist()
    strength = 60 + 60 * torch.rand(count, 1, 1, generator=draw)
    pictures = 80 + 38 * torch.randn(count, SIDE, SIDE, generator=draw)
    shapes = stencils()[first + kind] * strength
    for picture, shape, (down, right) in zip(pictures, shapes, at, strict=True):
        picture[down : down + 8, right : right + 8] += shape
    return pictures.clamp(0, 255).unsqueeze(1), kind


def convolutions() -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in ((1, 16), (16, 32), (32, 32)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if inputs < 32 else []
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten())


@cache
def weights_before() -> dict[str, Tensor]:
    """The checkpoint: what the backbone learned of the first shapes."""
    torch.manual_seed(1)
    x, y = photos(3000, 0, BEFORE, 5)
    backbone = convolutions()
    model = nn.Sequential(backbone, nn.Linear(128, BEFORE))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(350):
        rows = torch.randint(len(x), (48,))
        optimizer.zero_grad()
        loss: Any = F.cross_entropy(model((x[rows] - MEAN) / STD), y[rows])
        loss.backward()
        optimizer.step()
    return copy.deepcopy(backbone.state_dict())


def scheduler_of(optimizer: Any, kind: str, steps: int) -> Any:
    if kind.startswith("one cycle"):
        highest = [group["lr"] for group in optimizer.param_groups]
        return torch.optim.lr_scheduler.OneCycleLR(optimizer, highest, total_steps=steps + 1)
    if kind == "cosine":
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    return torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)


def train(
    seed: int, hook: Any, epochs: int = 12, batch: int = 32, lr: float = 1e-3, body_lr: float = 0.0,
    samples: int = 600, frozen: bool = False, unfreeze_at: int = -1, optimizer: str = "adam",
    decay: float = 0.0, schedule: str = "", accumulate: int = 1, noise: float = 0.0,
    scale: float = 1.0, mixup: bool = False, dropout: float = 0.0, precision: Any = "32-true",
    still_norms: bool = False, validate: bool = True, swa: bool = False, fault: str = "",
) -> float:  # fmt: skip
    import lightning

    for name in ("lightning", "lightning.pytorch", "lightning.pytorch.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    begin(seed)
    checkpoint = weights_before()
    begin(seed)
    x, y = photos(samples, BEFORE, KINDS, seed + 30)
    held_x, held_y = photos(800, BEFORE, KINDS, seed + 31)
    x, held_x = (x - MEAN) / STD, (held_x - MEAN) / STD
    if fault == "pixels not scaled":
        x, held_x = x * STD + MEAN, held_x * STD + MEAN
    if fault == "validation not scaled":
        held_x = held_x * STD + MEAN
    if fault == "validation turned":
        held_x = held_x.transpose(2, 3)
    if fault == "labels from 1":
        y = (y + 1) % KINDS  # what was the last kind became the first
    if fault == "files sorted apart":
        y = y[torch.tensor(sorted(range(samples), key=str))]
    if fault == "one kind nearly always":
        y = torch.where(torch.rand(samples) < 0.97, 0, y)
    if fault == "broken file":
        x[samples // 2] = float("nan")
    if noise:
        y = torch.where(torch.rand(samples) < noise, torch.randint(KINDS, (samples,)), y)

    class Transfer(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.backbone = convolutions()
            if fault == "prefix in the checkpoint":
                named = {f"module.{name}": value for name, value in checkpoint.items()}
                self.backbone.load_state_dict(named, strict=False)
            else:
                self.backbone.load_state_dict(checkpoint)
            self.head = nn.Sequential(nn.Dropout(dropout), nn.Linear(128, KINDS))
            if frozen or unfreeze_at >= 0:
                self.backbone.requires_grad_(False)
            if fault == "head frozen":
                self.requires_grad_(False)
                self.backbone[0].requires_grad_(True)
            if fault == "norms zero":
                for layer in self.backbone:
                    if isinstance(layer, nn.BatchNorm2d):
                        nn.init.zeros_(layer.weight)
                        nn.init.constant_(layer.bias, -0.5)
            self.criterion = nn.CrossEntropyLoss()

        def on_train_epoch_start(self) -> None:
            if self.current_epoch == unfreeze_at:
                self.backbone.requires_grad_(True)
            if still_norms or frozen:
                self.backbone.eval()

        def forward(self, x: Tensor) -> Tensor:
            scores: Tensor = self.head(self.backbone(x))
            return scores

        def training_step(self, rows: Any, number: int) -> Tensor:
            pictures, kinds = rows
            if mixup:
                share = float(torch.distributions.Beta(0.4, 0.4).sample())
                order = torch.randperm(len(pictures))
                scores = self(share * pictures + (1 - share) * pictures[order])
                loss = share * self.criterion(scores, kinds)
                loss = loss + (1 - share) * self.criterion(scores, kinds[order])
            else:
                loss = self.loss_of(self(pictures), kinds)
            self.log("train_loss", loss)
            scaled: Tensor = loss * scale
            return scaled

        def loss_of(self, scores: Tensor, kinds: Tensor) -> Tensor:
            if fault == "softmax before the loss":
                scores = scores.softmax(1)
            if fault == "logarithm of softmax":
                share = (scores * 60).softmax(1)
                scores = torch.log(share)
                return F.nll_loss(scores, kinds)
            loss: Tensor = self.criterion(scores, kinds)
            return loss

        def validation_step(self, rows: Any, number: int) -> None:
            scores = self(rows[0])
            self.log("val_loss", F.cross_entropy(scores, rows[1]))
            self.log("val_acc", (scores.argmax(1) == rows[1]).float().mean())

        def configure_optimizers(self) -> Any:
            groups: Any = [
                {"params": self.head.parameters()},
                {"params": self.backbone.parameters(), "lr": body_lr or lr},
            ]
            kind: Any = torch.optim.AdamW if optimizer == "adamw" else torch.optim.Adam
            chosen = kind(groups, lr=lr, weight_decay=decay)
            steps = epochs * -(-samples // batch) // accumulate
            interval = "epoch" if schedule == "one cycle by the epoch" else "step"
            way = scheduler_of(chosen, schedule, steps)
            return {"optimizer": chosen, "lr_scheduler": {"scheduler": way, "interval": interval}}

    callbacks = [hook.lightning()]
    if swa:
        callbacks.append(lightning.pytorch.callbacks.StochasticWeightAveraging(lr, 0.6))
    model = Transfer()
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=callbacks, precision=precision,
        logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, accumulate_grad_batches=accumulate,
        num_sanity_val_steps=0,
    )  # fmt: skip
    loader = DataLoader(TensorDataset(x, y), batch, shuffle=True)
    held_loader = DataLoader(TensorDataset(held_x, held_y), 200)
    trainer.fit(model, loader, held_loader if validate else None)
    if fault != "no eval":
        model.eval()
    with torch.no_grad():
        return class_skill(model(held_x), held_y)


CASES = cases(
    "lightning transfer",
    train,
    {
        "plain": {},
        "frozen for three epochs": {"unfreeze_at": 3},
        "backbone ten times slower": {"body_lr": 2e-4, "lr": 2e-3},
        "norms stay as they were": {"still_norms": True},
        "batch of four": {"batch": 4, "epochs": 4, "lr": 5e-4},
        "batch of 200": {"batch": 200, "epochs": 40, "lr": 3e-3},
        "accumulation": {"batch": 8, "accumulate": 4, "epochs": 10},
        "labels with noise": {"noise": 0.05},
        "loss x 10000": {"scale": 1e4},
        "mixup": {"mixup": True},
        "AdamW and cosine": {"optimizer": "adamw", "decay": 0.05, "schedule": "cosine"},
        "one cycle": {"schedule": "one cycle", "lr": 4e-3},
        "bfloat16": {"precision": "bf16-mixed"},
        "mean of weights": {"swa": True},
        "no validation": {"validate": False},
    },
    {
        "pixels not scaled": (
            "inputs no-skill fast",
            {"fault": "pixels not scaled", "frozen": True},
        ),
        "validation not scaled": ("inputs overfit", {"fault": "validation not scaled"}),
        "validation turned": ("inputs overfit", {"fault": "validation turned"}),
        "kinds numbered otherwise": ("overfit worse", {"fault": "labels from 1"}),
        "files sorted apart": ("no-skill overfit", {"fault": "files sorted apart"}),
        "one kind nearly always": (
            "imbalance collapse overfit",
            {"fault": "one kind nearly always"},
        ),
        "broken file": ("not-finite", {"fault": "broken file"}),
        "checkpoint with a prefix": (
            "unbound worse no-skill",
            {"fault": "prefix in the checkpoint", "frozen": True, "epochs": 4},
        ),
        "head frozen": ("unbound worse no-skill slow", {"fault": "head frozen"}),
        "norms start at zero": ("dead no-gradient no-skill", {"fault": "norms zero"}),
        "evaluation without eval": ("mode", {"fault": "no eval", "dropout": 0.95}),
        "softmax before the loss": (
            "probabilities slow worse",
            {"fault": "softmax before the loss", "lr": 1e-4, "frozen": True},
        ),
        "logarithm of softmax": ("not-finite", {"fault": "logarithm of softmax"}),
        "24 pictures": ("overfit", {"samples": 24, "epochs": 80}),
        "rate / 1000": ("slow no-skill", {"lr": 1e-6}),
        "one cycle by the epoch": (
            "schedule slow",
            {"schedule": "one cycle by the epoch", "lr": 1e-3, "frozen": True, "epochs": 6},
        ),
    },
)
