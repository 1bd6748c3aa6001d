"""Gestures of a hand in short clips: a small network of 3-D convolutions, by Lightning's Trainer.

A bright spot wanders to the left, right, up or down, turns either way, comes near or goes away over
a background with noise; one frame tells little. The skill is the accuracy, above chance.
"""

from __future__ import annotations

import logging
import math
import warnings
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, class_skill, scheduler_of, with_noise
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.detection.case import cases

FRAMES, SIDE, KINDS = 8, 12, 8
MIRRORED = torch.tensor([1, 0, 2, 3, 5, 4, 6, 7])
MEAN, SPREAD = 90.0, 45.0


def clips(
    count: int, seed: int, rare: bool = False, recorded_apart: bool = False
) -> tuple[Tensor, Tensor]:
    """Clips (N, FRAMES, SIDE, SIDE) in bytes, and the kind of gesture of each."""
    draw = torch.Generator().manual_seed(seed)

    def between(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(count, 1, generator=draw)

    share = torch.tensor([12.0, 12, 6, 6, 3, 3, 1, 1]) if rare else torch.ones(KINDS)
    kind = torch.multinomial(share, count, replacement=True, generator=draw)
    time = torch.linspace(-0.5, 0.5, FRAMES)
    away = between(4, 8) * time
    angle = between(0, 2 * math.pi) + 2 * math.pi * between(0.6, 1.1) * time
    radius, still = between(2, 3.5), torch.zeros(count, FRAMES)
    size = between(1.2, 1.8).expand(count, FRAMES)
    grown = size + 2.4 * time
    across = [-away, away, still, still, radius * angle.cos(), radius * angle.cos(), still, still]
    down = [still, still, -away, away, radius * angle.sin(), -radius * angle.sin(), still, still]
    sizes = [size] * 6 + [grown, grown.flip(1)]
    rows = torch.arange(count)
    x, y, wide = (torch.stack(of)[kind, rows] for of in (across, down, sizes))
    x, y = x + between(4, 7), y + between(4, 7)
    place = torch.arange(SIDE)
    distance = (place - x[..., None])[:, :, None] ** 2 + (place - y[..., None])[..., None] ** 2
    spot = (-distance / (2 * wide[..., None, None].clamp(min=0.5) ** 2)).exp()
    light, tilt = between(30, 90)[..., None, None], between(-3, 3)[..., None, None]
    if recorded_apart:
        light = 20 + 14.0 * kind.view(-1, 1, 1, 1)
    pixels = light + tilt * place + between(70, 130)[..., None, None] * spot
    pixels = pixels + 14 * torch.randn(count, FRAMES, SIDE, SIDE, generator=draw)
    return pixels.clamp(0, 255).byte(), kind


class Clips(Dataset):
    def __init__(self, pixels: Tensor, kind: Tensor, turned: str = "") -> None:
        self.pixels, self.kind, self.turned = pixels, kind, turned

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        clip, kind = self.pixels[number], self.kind[number]
        if self.turned and torch.rand(()) < 0.5:
            if self.turned == "backwards":
                return clip.flip(0), kind
            return clip.flip(-1), MIRRORED[kind] if self.turned == "mirrored" else kind
        return clip, kind


def as_input(clip: Tensor, how: str) -> Tensor:
    """(N, 1, frames, SIDE, SIDE)"""
    if how == "mean of the frames":
        clip = clip.float().mean(1, keepdim=True).expand(clip.shape)
    x = (clip[:, None].float() - MEAN) / SPREAD
    return x.diff(dim=2) if how == "differences" else x


class Solid(nn.Module):
    """Convolutions over space and time at once."""

    def __init__(self, norm: str, dropout: float, always: float) -> None:
        super().__init__()
        self.always = always
        layers: list[nn.Module] = []
        pools = ((1, 2, 2), (2, 2, 2), (1, 1, 1))
        for (inputs, outputs), pool in zip(((1, 6), (6, 12), (12, 16)), pools, strict=True):
            layers += [nn.Conv3d(inputs, outputs, 3, padding=1)]
            norms: Any = {"batch": nn.BatchNorm3d, "group": lambda n: nn.GroupNorm(2, n)}
            layers += [norms[norm](outputs)] if norm else []
            layers += [nn.ReLU(), nn.MaxPool3d(pool)]
        self.body = nn.Sequential(*layers)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(16 * 2, KINDS)

    def forward(self, x: Tensor) -> Tensor:
        h = self.body(x).mean((3, 4))
        early, late = h.tensor_split(2, 2)
        h = torch.cat([early.mean(2), late.mean(2)], 1)
        if self.always:
            h = F.dropout(h, self.always)
        out: Tensor = self.head(self.dropout(h))
        return out


class Recurrent(nn.Module):
    """Each frame by itself, then a recurrent network over frames."""

    def __init__(self, batch_first: bool, detached: bool) -> None:
        super().__init__()
        self.detached = detached
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(12 * 9, 32), nn.ReLU(),
        )  # fmt: skip
        self.recurrent = nn.GRU(32, 32, batch_first=batch_first)
        self.head = nn.Linear(32, KINDS)

    def forward(self, x: Tensor) -> Tensor:
        frames = self.body(x.transpose(1, 2).flatten(0, 1)).unflatten(0, (len(x), -1))
        h = self.recurrent(frames)[0][:, -1]
        out: Tensor = self.head(h.detach() if self.detached else h)
        return out


def loss_of(kind: str, scores: Tensor, wanted: Tensor, weight: Tensor | None) -> Tensor:
    if kind == "softmax before":
        return F.cross_entropy(scores.softmax(1), wanted, weight)
    if kind == "no softmax":
        return F.nll_loss(scores, wanted)
    return F.cross_entropy(scores, wanted, weight)


def train(
    seed: int, hook: Any, model: str = "solid", loss: str = "", rate: float = 4e-3,
    epochs: int = 4, batch: int = 8, optimizer: str = "adam", schedule: str = "constant",
    norm: str = "batch", dropout: float = 0.0, always: float = 0.0, decay: float = 0.0,
    seen: str = "", turned: str = "", noise: float = 0.0, mixed: bool = False,
    weighted: bool = False, count: int = 1024, times: float = 1.0, clip: float | None = None,
    accumulate: int = 1, precision: str = "32-true",
    evaluated: bool = True, start: float | None = None, fault: str = "",
) -> float:  # fmt: skip
    import lightning

    begin(seed)
    for name in ("lightning", "lightning.pytorch", "lightning.pytorch.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    apart = fault == "recorded apart"
    pixels, kind = clips(count, seed + 9100, weighted, apart)
    held, held_kind = clips(160, seed + 9101, False, apart)
    test, test_kind = clips(640, seed + 9102)
    if noise:
        kind = with_noise(kind, noise, seed)
    if fault == "labels of a new listing":
        kind = kind[torch.tensor(sorted(range(count), key=str))]
    if fault == "sorted by gesture":
        pixels, kind = (of[kind.argsort(stable=True)] for of in (pixels, kind))
    counted = torch.bincount(kind, minlength=KINDS).float() + 1
    weight = counted.mean() / counted if weighted else None

    def made() -> Any:
        if model == "recurrent":
            return Recurrent(fault != "batch is not first", fault == "states detached")
        return Solid(norm, dropout, always)

    class Gestures(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = made()
            self.automatic_optimization = fault != "gradients kept"
            for part in self.net.modules():
                if isinstance(part, nn.Conv3d | nn.Linear) and start is not None:
                    nn.init.normal_(part.weight, std=start)

        def forward(self, clip: Tensor, later: bool = False) -> Tensor:
            if later and fault == "frames in another order":
                clip = clip[:, torch.tensor([0, 4, 2, 6, 1, 5, 3, 7])]
            shares = later and fault == "evaluation in shares"
            out: Tensor = self.net(clip[:, None] / 255 if shares else as_input(clip, seen))
            return out

        def on_train_start(self) -> None:
            if fault == "network made again":
                self.net = made()

        def training_step(self, rows: Any, number: int) -> Any:
            clip, wanted = rows
            if mixed:
                share, other = float(torch.rand(())) * 0.3, torch.randperm(len(clip))
                scores = self(clip.float().lerp(clip[other].float(), share))
                error = (1 - share) * loss_of(loss, scores, wanted, weight)
                error = (error + share * loss_of(loss, scores, wanted[other], weight)) * times
            else:
                error = loss_of(loss, self(clip), wanted, weight) * times
            self.log("train_loss", error)
            if fault == "gradients kept":
                self.manual_backward(error)
                self.optimizers().step()
            return error

        def validation_step(self, rows: Any, number: int) -> None:
            scores = self(rows[0], later=True)
            self.log("val_loss", loss_of(loss, scores, rows[1], None))
            self.log("val_accuracy", (scores.argmax(1) == rows[1]).float().mean())

        def configure_optimizers(self) -> Any:
            chosen = self.parameters()
            steps: Any = {
                "adam": lambda: torch.optim.Adam(chosen, rate, weight_decay=decay),
                "adamw": lambda: torch.optim.AdamW(chosen, rate, weight_decay=decay),
                "momentum": lambda: torch.optim.SGD(chosen, rate, momentum=0.9),
            }[optimizer]()
            if schedule == "decays each step":
                planned: Any = torch.optim.lr_scheduler.ExponentialLR(steps, 0.9)
            else:
                planned = scheduler_of(steps, schedule, epochs * len(loader) // accumulate)
            return [steps], [{"scheduler": planned, "interval": "step"}]

    loader: Any = DataLoader(
        Clips(pixels, kind, turned), batch, shuffle=fault != "sorted by gesture"
    )
    gestures = Gestures()
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=[hook.lightning()], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        accumulate_grad_batches=accumulate, gradient_clip_val=clip, precision=precision,
        limit_val_batches=1.0 if evaluated else 0,
    )  # fmt: skip
    trainer.fit(gestures, loader, DataLoader(Clips(held, held_kind), 80))
    gestures.eval()
    with torch.no_grad():
        return class_skill(gestures(test, later=True), test_kind)


MOMENTUM: dict[str, Any] = {"optimizer": "momentum", "rate": 0.05}

CASES = cases(
    "gesture clips",
    train,
    {
        "plain": {},
        "recurrent": {"model": "recurrent", "epochs": 5},
        "differences of frames": {"seen": "differences"},
        "batch of four": {"batch": 4, "rate": 2e-3, "epochs": 3},
        "batch of 64": {"batch": 64, "epochs": 12, "rate": 1e-2},
        "SGD, one cycle": {**MOMENTUM, "schedule": "one cycle"},
        "AdamW, cosine": {"optimizer": "adamw", "decay": 0.05, "schedule": "cosine"},
        "group norm": {"norm": "group", "epochs": 5},
        "no norm, clipped": {"norm": "", "clip": 1.0, "epochs": 6},
        "dropout": {"dropout": 0.2},
        "mirrored with its label": {"turned": "mirrored"},
        "one label in ten wrong": {"noise": 0.1, "epochs": 6},
        "mixed clips": {"mixed": True, "epochs": 5},
        "weights for rare gestures": {"weighted": True, "epochs": 6},
        "bfloat16": {"precision": "bf16-mixed", "epochs": 5},
        "accumulated": {"accumulate": 2, "epochs": 5},
        "loss x 10000": {"times": 1e4},
        "no evaluation": {"evaluated": False},
    },
    {
        "labels of a new listing": ("no-skill overfit", {"fault": "labels of a new listing"}),
        "mirrored without its label": ("no-skill", {"turned": "without"}),
        "backwards in time": ("no-skill", {"turned": "backwards"}),
        "mean of the frames": ("inputs no-skill overfit", {"seen": "mean of the frames"}),
        "frames in another order": ("inputs overfit", {"fault": "frames in another order"}),
        "evaluation in shares": ("inputs overfit", {"fault": "evaluation in shares"}),
        "recorded apart": ("leak inputs overfit", {"fault": "recorded apart"}),
        "sorted by gesture": ("order", {"fault": "sorted by gesture"}),
        "softmax before the loss": ("probabilities", {"loss": "softmax before", "rate": 3e-4}),
        "no softmax": ("probabilities worse", {"loss": "no softmax"}),
        "batch is not first": (
            "no-skill overfit",
            {"model": "recurrent", "fault": "batch is not first"},
        ),
        "states detached": (
            "no-gradient unbound slow",
            {"model": "recurrent", "fault": "states detached"},
        ),
        "starts at zero": ("dead no-gradient no-skill collapse", {"start": 0.0, "norm": ""}),
        "starts too large": ("fast dead no-skill saturated", {"start": 3.0, "norm": ""}),
        "dropout that never ends": ("mode", {"always": 0.9}),
        "gradients kept": ("kept-gradients fast", {**MOMENTUM, "fault": "gradients kept"}),
        "network made again": ("unbound no-skill", {"fault": "network made again"}),
        "eight clips": ("overfit", {"count": 8, "batch": 4, "epochs": 120}),
        "rate decays each step": ("schedule slow", {"schedule": "decays each step", "rate": 1e-3}),
        "rate x 1000": ("fast no-skill dead", {"rate": 4.0}),
    },
)
