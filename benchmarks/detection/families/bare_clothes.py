"""Pictures of clothes by a small convolutional network; losses, weights and gradients as values."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import (
    begin,
    class_skill,
    factor,
    optimizer_of,
    save_values,
    with_noise,
)
from tocsin_hooks import Hook, modes
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIDE = 16
KINDS = ("shirt", "trousers", "dress", "boot", "bag", "hat")


def pictures(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Silhouettes (N, 1, 16, 16) of 0 to 255 with stripes and noise; kinds (N,)."""
    draw = np.random.default_rng(seed)
    kind = draw.integers(len(KINDS), size=count)
    middle, size, cut = (
        draw.uniform(low, high, (count, 1, 1)) for low, high in ((6.5, 8.5), (0.75, 1.1), (0, 1))
    )
    v, h = np.mgrid[0:SIDE, 0:SIDE]
    v, h = (v - 7.5) / size + 7.5, (h - middle) / size
    wide = np.abs(h)
    tall = (v >= 1) & (v <= 14)
    shapes = (
        ((v >= 3) & (v <= 13) & (wide <= 3.5)) | ((v >= 3) & (v <= 5 + 2 * cut) & (wide <= 7)),
        tall & (wide <= 4) & ((wide >= 1.2) | (v <= 4 + cut)),
        tall & (wide <= 1.8 + 0.27 * v + 0.5 * cut),
        (tall & (h >= -3) & (h <= 1)) | ((v >= 10) & (v <= 14) & (h >= -3) & (h <= 5 + cut)),
        ((v >= 6) & (v <= 13) & (wide <= 5.5)) | ((v >= 2) & (v < 6) & (np.abs(wide - 3) <= 1)),
        ((v >= 4) & (v <= 10) & (wide <= 3)) | ((v > 10) & (v <= 12 + cut) & (wide <= 7)),
    )
    inside = np.choose(kind[:, None, None], shapes)
    tone = draw.uniform(70, 220, (count, 1, 1))
    stripes = 1 + 0.4 * np.sin(draw.uniform(0.5, 2.5, (count, 1, 1)) * np.arange(SIDE)[:, None])
    noisy = inside * tone * stripes + draw.normal(0, 55, inside.shape)
    x = torch.from_numpy(noisy.clip(0, 255).astype(np.float32))
    return x.unsqueeze(1), torch.from_numpy(kind)


def network(
    activation: type[nn.Module], norm: bool, dropout: float, wide: int, extra: int
) -> nn.Module:
    deeper: list[nn.Module] = []
    for _ in range(extra):
        deeper += [nn.Conv2d(2 * wide, 2 * wide, 3, padding=1), activation()]
    return nn.Sequential(
        nn.Conv2d(1, wide, 3, padding=1), nn.BatchNorm2d(wide) if norm else nn.Identity(),
        activation(), nn.MaxPool2d(2), nn.Conv2d(wide, 2 * wide, 3, padding=1), activation(),
        *deeper, nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(dropout),
        nn.Linear(2 * wide * (SIDE // 4) ** 2, 32), activation(), nn.Linear(32, len(KINDS)),
    )  # fmt: skip


def log_loss(share: Tensor, y: Tensor) -> Tensor:
    """The cross entropy as many write it: of one-hot labels, without a guard."""
    wanted = F.one_hot(y, len(KINDS)).float()
    return -(wanted * share.log()).sum(1).mean()


def loss_of(kind: str, scores: Tensor, y: Tensor) -> Tensor:
    if kind == "by hand":
        return log_loss(scores.softmax(1), y)
    if kind == "by hand, sigmoid":
        return log_loss(torch.sigmoid(scores), y)
    if kind == "relu":
        return F.cross_entropy(F.relu(scores - 4), y)
    if kind == "squares":
        return F.mse_loss(scores.softmax(1), F.one_hot(y, len(KINDS)).float())
    return F.cross_entropy(scores, y) * (1e4 if kind == "x 1e4" else 1)


def prepared(x: Tensor, wrong: str) -> Tensor:
    if wrong == "pixels not scaled":
        return x * 40
    if wrong == "root of what is below the mean":
        return (x / 255 - 0.3).sqrt()
    return (x / 255 - 0.3) / 0.3


def train(
    seed: int, hook: Any, rate: float = 2e-3, steps: int = 1200, batch: int = 16,
    optimizer: str = "adam", schedule: str = "constant", decay: float = 0.0, loss: str = "ce",
    noise: float = 0.0, count: int = 3000, activation: type[nn.Module] = nn.ReLU,
    norm: bool = False, dropout: float = 0.0, wide: int = 8, extra: int = 0, frozen: str = "",
    average: float = 0.0, wrong: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, y = pictures(count, seed + 900)
    held_x, held_y = pictures(600, seed + 901)
    if noise:
        y = with_noise(y, noise, seed)
    if wrong == "sorted":
        x, y = x[y.argsort()], y[y.argsort()]
    x = prepared(x, wrong)
    held_x = prepared(held_x, wrong)
    if wrong == "evaluation lies on its side":
        held_x = held_x.transpose(2, 3)
    model = network(activation, norm, dropout, wide, extra)
    if wrong == "start of N(0, 1)":
        for parameter in model.parameters():
            nn.init.normal_(parameter)
    if wrong == "negative bias":
        nn.init.constant_(model[0].bias, -30.0)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not frozen or not name.startswith(frozen))
    chosen = [p for p in model.parameters() if p.requires_grad]
    stepper = optimizer_of(optimizer, chosen, rate, decay)
    scheduler = torch.optim.lr_scheduler.LambdaLR(stepper, lambda s: factor(schedule, s, steps))
    if wrong == "epoch's scheduler at each step":
        scheduler = torch.optim.lr_scheduler.StepLR(stepper, 5, 0.5)
    mean = copy.deepcopy(model) if average else model
    recorded = Hook(hook.folder, save_interval=hook.options.get("save_interval"))
    order = torch.empty(0, dtype=torch.long)
    for step in range(steps):
        if len(order) < min(batch, count):
            order = torch.arange(count) if wrong == "sorted" else torch.randperm(count)
        rows, order = order[:batch], order[batch:]
        model.train()
        one = loss_of(loss, model(x[rows]), y[rows])
        if wrong != "gradients kept":
            stepper.zero_grad()
        one.backward()
        stepper.step()
        scheduler.step()
        if average:
            for kept, now in zip(mean.parameters(), model.parameters(), strict=True):
                kept.data.lerp_(now.data, 1 - average)
        save_values(recorded, model, one, "SoftmaxCELoss_output_0")
        if step % 150 == 149:
            mean.eval()
            with torch.no_grad(), recorded.step(modes.EVAL):
                value = loss_of(loss, mean(held_x), held_y).item()
                recorded.save("SoftmaxCELoss_output_0", value, "losses", raw=True)
    recorded.close()
    mean.eval()
    with torch.no_grad():
        return class_skill(mean(held_x), held_y)


CASES = cases(
    "bare clothes",
    train,
    {
        "plain": {},
        "momentum and one cycle": {"optimizer": "momentum", "rate": 3e-2, "schedule": "one cycle"},
        "batch of four": {"batch": 4, "rate": 7e-4, "steps": 2000},
        "batch of 256": {"batch": 256, "rate": 5e-3, "steps": 250},
        "loss x 1e4": {"loss": "x 1e4"},
        "squares of shares": {"loss": "squares"},
        "labels with noise": {"noise": 0.05, "rate": 1e-3},
        "batch norm": {"norm": True},
        "dropout": {"dropout": 0.4},
        "first layer frozen": {"frozen": "0."},
        "restarts": {"schedule": "restarts", "rate": 3e-3},
        "average of weights": {"average": 0.99},
        "logarithm by hand": {"loss": "by hand", "rate": 1e-3},
    },
    {
        "labels of other pictures": ("no-skill overfit", {"noise": 1.0}),
        "start of N(0, 1)": (
            "fast worse dead no-skill",
            {"wrong": "start of N(0, 1)", "rate": 1e-4},
        ),
        "negative bias": ("dead no-gradient no-skill", {"wrong": "negative bias", "rate": 1e-3}),
        "sigmoid, deep": (
            "dead no-gradient saturated no-skill",
            {"activation": nn.Sigmoid, "extra": 4, "steps": 900},
        ),
        "pixels not scaled": (
            "inputs fast dead worse",
            {"wrong": "pixels not scaled", "rate": 1e-2},
        ),
        "root of what is below the mean": (
            "not-finite inputs",
            {"wrong": "root of what is below the mean"},
        ),
        "sigmoid in place of softmax": (
            "no-skill saturated probabilities",
            {"loss": "by hand, sigmoid"},
        ),
        "relu on scores": ("dead no-gradient no-skill", {"loss": "relu"}),
        "sorted by kind": ("order", {"wrong": "sorted"}),
        "gradients kept": (
            "kept-gradients fast worse",
            {"wrong": "gradients kept", "optimizer": "sgd", "rate": 0.2},
        ),
        "epoch's scheduler at each step": (
            "schedule slow",
            {"wrong": "epoch's scheduler at each step", "optimizer": "sgd", "rate": 2e-2},
        ),
        "evaluation lies on its side": (
            "inputs overfit",
            {"wrong": "evaluation lies on its side"},
        ),
        "rate of 0.3": ("fast dead no-skill", {"rate": 0.3}),
    },
)
