"""Runs as smdebug wrote them: losses, weights and gradients as values, no inputs and no labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import (
    Split,
    begin,
    class_skill,
    dense,
    normal,
    optimizer_of,
    save_values,
    scheduler_of,
    with_noise,
)
from tocsin_hooks import Hook, modes
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIZE, KINDS = 18, 5


@dataclass
class Recording:
    """Saves as scripts with smdebug's names did."""

    hook: Hook
    model: nn.Module

    def training(self, loss: Tensor) -> None:
        save_values(self.hook, self.model, loss, "CrossEntropyLoss_output_0")

    def evaluation(self, loss: float) -> None:
        with self.hook.step(modes.EVAL):
            self.hook.save("CrossEntropyLoss_output_0", loss, "losses", raw=True)


def samples(seed: int, count: int = 5000) -> Split:
    x, held = normal(count, SIZE, seed=seed), normal(800, SIZE, seed=seed + 1)
    mixing, kinds = normal(SIZE, 5, seed=71), normal(5, KINDS, seed=72)
    y, held_y = ((torch.tanh(part @ mixing / 2) @ kinds).argmax(1) for part in (x, held))
    return Split(x, y, held, held_y)


def train(
    seed: int, hook: Any, rate: float = 3e-3, steps: int = 1500, batch: int = 32,
    optimizer: str = "adam", schedule: str = "constant", noise: float = 0.0, fault: str = "",
    activation: type[nn.Module] = nn.ReLU, only: str = "", depth: int = 2, decay: float = 0.0,
) -> float:  # fmt: skip
    begin(seed)
    data = samples(seed + 220, 60 if fault == "memorises" else 5000)
    x, y = data.x, with_noise(data.y, noise, seed) if noise else data.y
    model = dense([SIZE, *[48] * depth, KINDS], activation)
    if fault == "zero start":
        for value in model.parameters():
            nn.init.zeros_(value)
    if fault == "huge start":
        for layer in model[::2]:
            layer.weight.data.mul_(60)
    if fault == "dead units":
        nn.init.constant_(model[0].bias, -60.0)
    chosen = [p for name, p in model.named_parameters() if only in name]
    stepper = optimizer_of(optimizer, chosen, rate, decay)
    scheduler = scheduler_of(stepper, schedule, steps)
    recorded = Hook(hook.folder, save_interval=hook.options.get("save_interval"))
    recording = Recording(recorded, model)
    for step in range(steps):
        rows = torch.randint(len(x), (min(batch, len(x)),))
        inputs = x[rows] * (float("nan") if fault == "not a number" and step == 700 else 1)
        scores = model(inputs)
        loss = F.cross_entropy(scores.softmax(1) if fault == "softmax" else scores, y[rows])
        if fault != "gradients kept":
            stepper.zero_grad()
        loss.backward()
        stepper.step()
        scheduler.step()
        recording.training(loss)
        if step % 100 == 99:
            with torch.no_grad():
                scale = 255 if fault == "scaled evaluation" else 1
                recording.evaluation(
                    F.cross_entropy(model(data.held_x * scale), data.held_y).item()
                )
    recorded.close()
    with torch.no_grad():
        scale = 255 if fault == "scaled evaluation" else 1
        return class_skill(model(data.held_x * scale), data.held_y)


CASES = cases(
    "bare history",
    train,
    {
        "plain": {},
        "momentum": {"optimizer": "momentum", "rate": 2e-2},
        "restarts": {"schedule": "restarts", "rate": 5e-3},
        "batch of eight": {"batch": 8, "steps": 2200, "rate": 1e-3},
        "tanh": {"activation": nn.Tanh},
        "cosine": {"schedule": "cosine", "rate": 5e-3},
    },
    {
        "labels shuffled": ("no-skill overfit", {"noise": 1.0}),
        "zero start": ("dead no-skill no-gradient collapse", {"fault": "zero start"}),
        "huge start": ("fast dead worse no-skill", {"fault": "huge start"}),
        "dead units": ("dead no-skill no-gradient", {"fault": "dead units", "rate": 1e-3}),
        "vanishing": ("dead no-skill no-gradient", {"activation": nn.Sigmoid, "depth": 9}),
        "not a number": ("not-finite", {"fault": "not a number"}),
        "gradients kept": (
            "kept-gradients fast worse",
            {"fault": "gradients kept", "optimizer": "sgd", "rate": 0.3},
        ),
        "body in no optimizer": ("unbound", {"only": "4."}),
        "memorises 60": ("overfit", {"fault": "memorises"}),
        "evaluation x 255": ("inputs overfit", {"fault": "scaled evaluation"}),
        "rate x 1000": ("fast no-skill dead", {"rate": 3.0}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
        "rate jumps half way": ("fast schedule no-skill dead", {"schedule": "jump"}),
        "decay forgets": ("no-skill collapse worse", {"decay": 1.0}),
    },
)
