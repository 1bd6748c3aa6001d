"""A small transformer names gestures from accelerometers: losses, weights, gradients as values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, class_skill, factor
from tocsin_hooks import Hook, modes
from torch import Tensor, nn

from benchmarks.detection.case import cases

WINDOWS, AXES, GESTURES, WIDTH = 8, 9, 6, 24


def movements(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Windows (N, WINDOWS, AXES) of one gesture, which begins at any time; the rest is padding."""
    draw = torch.Generator().manual_seed(seed)
    shapes = torch.randn(GESTURES, 3, AXES, generator=torch.Generator().manual_seed(431))
    gesture = torch.randint(GESTURES, (count,), generator=draw)
    at = torch.randint(WINDOWS - 3, (count,), generator=draw)
    x = 0.5 * torch.randn(count, WINDOWS, AXES, generator=draw)
    rows = torch.arange(count)
    strength = 1 + 0.3 * torch.randn(count, 1, generator=draw)
    side = torch.where(torch.rand(count, 1, generator=draw) < 0.5, 1.0, -1.0)  # the other hand
    for part in range(3):
        x[rows, at + part] += side * strength * shapes[gesture, part]
    x[rows, -1] = 0.0  # the recording had ended
    return 9.81 * x, gesture


class Norm(nn.Module):
    """By hand, as older code has it."""

    def __init__(self) -> None:
        super().__init__()
        self.gain, self.shift = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return (
            self.gain * centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
            + self.shift
        )


class Layer(nn.Module):
    def __init__(self, way: str, dropout: float) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = Norm(), Norm()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.inner, self.outer = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.way, self.dropout = way, nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.qkv(self.attention_norm(x)).chunk(3, -1)
        scores = query @ key.transpose(-1, -2) / math.sqrt(WIDTH)
        seen = scores.softmax(-1) @ value
        if self.way == "no residuals":
            return torch.sigmoid(self.outer(torch.sigmoid(self.inner(self.out(seen)))))
        x = x + self.dropout(self.out(seen))
        return x + self.dropout(self.outer(F.gelu(self.inner(self.mlp_norm(x)))))


class Recogniser(nn.Module):
    def __init__(self, layers: int = 1, way: str = "", dropout: float = 0.0) -> None:
        super().__init__()
        self.embed, self.places = (
            nn.Linear(AXES, WIDTH),
            nn.Parameter(0.1 * torch.randn(WINDOWS, WIDTH)),
        )
        self.layers = nn.ModuleList(Layer(way, dropout) for _ in range(layers))
        self.norm, self.head = Norm(), nn.Linear(WIDTH, GESTURES)
        self.way = way

    def forward(self, x: Tensor) -> Tensor:
        if self.way == "each window standardised":
            x = (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)
        found = self.embed(x) + self.places
        for layer in self.layers:
            found = layer(found)
        found = self.norm(found).mean(1)
        if self.way == "features detached":
            found = found.detach()
        scores: Tensor = self.head(found)
        return scores


def record(hook: Hook, loss: Tensor, model: nn.Module) -> None:
    with hook.step(modes.TRAIN):
        if not hook.saving:
            return
        hook.save("loss", loss.item(), "losses", raw=True)
        for name, value in model.named_parameters():
            kind = "weights" if value.dim() > 1 else "biases"
            hook.save(name, value.detach().numpy().copy(), kind, raw=True)
            if value.grad is not None:
                hook.save(f"gradient/{name}", value.grad.numpy().copy(), "gradients", raw=True)


def batches(
    x: Tensor, y: Tensor, size: int, steps: int, mixed: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    """Epoch after epoch, in another order each time if mixed."""
    done = 0
    while True:
        order = torch.randperm(len(x)) if mixed else torch.arange(len(x))
        for rows in order.split(size):
            if done == steps:
                return
            yield x[rows], y[rows]
            done += 1


def train(
    seed: int, hook: Any, rate: float = 3e-3, steps: int = 700, batch: int = 32,
    optimizer: str = "adamw", schedule: str = "cosine", decay: float = 0.01, clip: float = 0.0,
    accumulate: int = 1, layers: int = 1, dropout: float = 0.0, noise: float = 0.0,
    smoothing: float = 0.0, units: float = 1.0, rows_used: int = 6000, way: str = "",
    frozen: str = "", evaluate: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    (x, y), (held, held_y) = movements(rows_used, seed + 7100), movements(1000, seed + 7101)
    unit = 9.81 if fault != "not scaled, wide start" else 1.0
    x, held = x / unit, held / unit
    if fault == "columns in another order":
        held = held.flip(-1)
    if noise or fault == "joined by the wrong key":
        other = torch.rand(len(y)) < (noise or 1.0)
        y = torch.where(other, y[torch.randperm(len(y))], y)
    if fault == "one gesture nearly alone":
        keep = (y == 0) | (torch.rand(len(y)) < 0.008)
        x, y = x[keep], y[keep]
    if fault == "sorted by gesture":
        order = y.argsort(stable=True)
        x, y = x[order], y[order]
    model = Recogniser(layers, way, dropout)
    if fault == "not scaled, wide start":
        for value in model.parameters():
            nn.init.normal_(value, 0.0, 3.0)
    for name, value in model.named_parameters():
        value.requires_grad_(not frozen or frozen not in name)
    chosen: Any = [value for value in model.parameters() if value.requires_grad]
    if fault == "layers in a list":  # a plain one, so the optimizer has the head alone
        chosen = list(model.head.parameters())
    stepper: Any = torch.optim.AdamW(chosen, rate, weight_decay=decay)
    if optimizer == "momentum":
        stepper = torch.optim.SGD(chosen, rate, momentum=0.9, weight_decay=decay)
    recorded = Hook(hook.folder, save_interval=hook.options.get("save_interval"))
    mixed, warm = fault != "sorted by gesture", 1e6 if schedule == "endless warm-up" else 0
    model.train()
    for number, (inputs, labels) in enumerate(batches(x, y, batch, steps * accumulate, mixed)):
        step = number // accumulate
        scores = model(inputs)
        loss = F.cross_entropy(scores, labels, label_smoothing=smoothing)
        (units * loss / accumulate).backward()
        if fault == "gradients zeroed before the step":
            stepper.zero_grad(set_to_none=False)
        if (number + 1) % accumulate:
            continue
        if clip:
            nn.utils.clip_grad_norm_(chosen, clip)
        for group in stepper.param_groups:
            group["lr"] = rate * (step / warm if warm else factor(schedule, step, steps))
        stepper.step()
        record(recorded, units * loss, model)
        stepper.zero_grad()
        if evaluate and step % 150 == 149:
            model.eval()
            with torch.no_grad(), recorded.step(modes.EVAL):
                value = units * F.cross_entropy(model(held), held_y).item()
                recorded.save("loss", value, "losses", raw=True)
            model.train()
    recorded.close()
    model.eval()
    with torch.no_grad():
        return class_skill(model(held), held_y)


CASES = cases(
    "bare transformer",
    train,
    {
        "plain": {},
        "two thousand updates": {"steps": 2000, "rate": 1e-3},
        "momentum, clipped": {"optimizer": "momentum", "rate": 0.1, "clip": 1.0, "decay": 0.0},
        "batch of four": {"batch": 4, "steps": 2000, "rate": 2e-3},
        "batch of 512": {"batch": 512, "steps": 200, "rate": 1e-2},
        "loss x 10,000": {"units": 1e4},
        "labels wrong, 5 %": {"noise": 0.05},
        "label smoothing, no evaluation": {"smoothing": 0.1, "evaluate": False},
        "dropout": {"dropout": 0.1},
        "three layers, one cycle": {"layers": 3, "schedule": "one cycle", "steps": 500},
        "accumulated": {"batch": 8, "accumulate": 4, "steps": 500},
        "embedding frozen": {"frozen": "embed"},
    },
    {
        "joined by the wrong key": ("no-skill overfit", {"fault": "joined by the wrong key"}),
        "columns in another order": ("inputs overfit", {"fault": "columns in another order"}),
        "padding standardised": ("not-finite inputs", {"way": "each window standardised"}),
        "eight layers without residuals": (
            "dead saturated no-skill no-gradient slow collapse",
            {"way": "no residuals", "layers": 8, "steps": 300},
        ),
        "sorted by gesture": (
            "order worse",
            {"fault": "sorted by gesture", "schedule": "constant"},
        ),
        "gradients zeroed before the step": (
            "no-gradient no-skill",
            {"fault": "gradients zeroed before the step", "decay": 0.0},
        ),
        "layers in no optimizer": ("unbound no-skill slow", {"fault": "layers in a list"}),
        "features detached": (
            "no-gradient unbound slow",
            {"way": "features detached", "decay": 0.0},
        ),
        "not scaled, wide start": (
            "saturated worse slow no-skill",
            {"fault": "not scaled, wide start", "rate": 3e-4},
        ),
        "one gesture nearly alone": ("imbalance overfit", {"fault": "one gesture nearly alone"}),
        "forty recordings": ("overfit", {"rows_used": 40, "decay": 0.0}),
        "decay of 30": ("no-skill dead collapse", {"decay": 30.0}),
        "endless warm-up": ("schedule slow", {"schedule": "endless warm-up"}),
        "rate x 300": ("fast worse no-skill dead", {"rate": 0.9}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
    },
)
