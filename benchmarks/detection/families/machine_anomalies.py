"""An autoencoder of windows of two sensors: what it cannot rebuild is an anomaly."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin, optimizer_of, ranking_skill, scheduler_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

LENGTH = 16


def windows(count: int, seed: int, broken: bool = False) -> Any:
    """(N, 2, LENGTH): a load, and a temperature that follows it, unless that is broken."""
    draw = np.random.default_rng(seed)
    times = np.arange(LENGTH) / LENGTH

    def loads() -> Any:
        phase, height = draw.uniform(0, 2 * np.pi, (count, 1)), draw.uniform(0.5, 1.5, (count, 1))
        return phase, height, height * np.sin(2 * np.pi * times + phase)

    phase, height, load = loads()
    if broken:
        phase, height, _ = loads()
    heat = height**2 * np.cos(2 * (2 * np.pi * times + phase)) * 0.7 + 0.3 * height
    both = np.stack([40 + 12 * load, 350 + 25 * heat], 1)
    return both + draw.normal(0, 1, both.shape) * np.array([[[0.8], [1.7]]])


class Autoencoder(nn.Module):
    def __init__(
        self, width: int, code: int, activation: type[nn.Module], last: str, start: float,
        convolutional: bool, fault: str,
    ) -> None:  # fmt: skip
        super().__init__()
        if convolutional:
            self.encoder = nn.Sequential(
                nn.Conv1d(2, 16, 4, 2, 1), activation(), nn.Conv1d(16, 32, 4, 2, 1), activation(),
                nn.Flatten(), nn.Linear(32 * LENGTH // 4, code),
            )  # fmt: skip
        else:
            self.encoder = nn.Sequential(
                nn.Flatten(), nn.Linear(2 * LENGTH, width), activation(),
                nn.Linear(width, width), activation(), nn.Linear(width, code),
            )  # fmt: skip
        ends: Any = {"": nn.Identity, "sigmoid": nn.Sigmoid, "relu": nn.ReLU, "tanh": nn.Tanh}
        self.decoder = nn.Sequential(
            nn.Linear(code, width), activation(), nn.Linear(width, width), activation(),
            nn.Linear(width, 2 * LENGTH), ends[last](), nn.Unflatten(1, (2, LENGTH)),
        )  # fmt: skip
        if start:
            for layer in self.modules():
                if isinstance(layer, nn.Linear):
                    nn.init.normal_(layer.weight, std=start)
        self.fault = fault

    def forward(self, x: Tensor) -> Tensor:
        code = self.encoder(x)
        if self.fault == "code detached":
            code = code.detach()
        if self.fault == "dead code":
            code = torch.relu(code - 30)
        rebuilt: Tensor = self.decoder(code)
        return rebuilt


def scaled(x: Any, how: str, mean: Any, deviation: Any) -> Tensor:
    if how == "none":
        out = x
    elif how == "unit":  # to 0 and 1, with some room
        out = (x - mean) / (8 * deviation) + 0.5
    elif how == "by window":
        out = (x - x.mean((1, 2), keepdims=True)) / x.std((1, 2), keepdims=True)
    elif how == "spread of zero":  # of each row, by a wrong axis
        out = (x - mean) / (deviation - deviation)
    else:
        out = (x - mean) / deviation
    return torch.from_numpy(out).float()


def train(
    seed: int, hook: Any, epochs: int = 32, rate: float = 2e-3, batch: int = 32, count: int = 2000,
    optimizer: str = "adam", schedule: str = "constant", width: int = 48,
    code: int = 4, activation: type[nn.Module] = nn.ReLU, last: str = "", start: float = 0.0,
    convolutional: bool = False, scaling: str = "standard",
    test_scaling: str = "", loss: str = "mse", denoise: float = 0.0,
    sparsity: float = 0.0, clip: float = 0.0, scale: float = 1.0, accumulate: int = 1,
    ema: bool = False, validate: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x = windows(count, seed + 700)
    test = np.concatenate([windows(500, seed + 701), windows(500, seed + 702, True)])
    is_bad = torch.arange(1000) >= 500
    mean, deviation = x.mean((0, 2), keepdims=True), x.std((0, 2), keepdims=True)
    data = scaled(x, scaling, mean, deviation)
    test_data = scaled(test, test_scaling or scaling, mean, deviation)
    target = data
    if fault == "target of another window":
        target = data[torch.randperm(count)]
    if fault == "not a number in a window":
        data[count // 3, 1, 5] = float("nan")
    loader = DataLoader(TensorDataset(data, target), batch_size=batch, shuffle=True)
    held = DataLoader(TensorDataset(test_data[:500]), batch_size=250)
    model = Autoencoder(width, code, activation, last, start, convolutional, fault)
    hook.torch(model)
    average = copy.deepcopy(model) if ema else model
    chosen = list(model.parameters())
    if fault == "last layer alone":
        chosen = list(model.decoder[-3].parameters())
    optim = optimizer_of(optimizer, chosen, rate)
    scheduler = scheduler_of(optim, schedule, epochs * len(loader))
    criteria: Any = {
        "mse": nn.MSELoss(), "l1": nn.L1Loss(), "huber": nn.SmoothL1Loss(),
        "bce": nn.BCELoss(), "sum": nn.MSELoss(reduction="sum"),
        "to the mean": lambda out, y: ((out - y.mean(0)) ** 2).mean(),
        "root": lambda out, y: ((out - y) ** 2).mean((1, 2)).sub(0.05).sqrt().mean(),
    }  # fmt: skip
    criterion = criteria[loss]
    number = 0
    for _ in range(epochs):
        model.train()
        for x_batch, y_batch in loader:
            noisy = x_batch + denoise * torch.randn_like(x_batch)
            if fault != "no zero_grad" and number % accumulate == 0:
                optim.zero_grad()
            out = model(noisy)
            error = criterion(out, y_batch)
            if sparsity:
                error = error + sparsity * model.encoder(noisy).abs().mean()
            (error * scale / accumulate).backward()
            number += 1
            if number % accumulate:
                continue
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optim.step()
            scheduler.step()
            if ema:
                with torch.no_grad():
                    for old, new in zip(average.parameters(), model.parameters(), strict=True):
                        old.lerp_(new, 0.01)
        if validate:
            model.eval()
            with torch.no_grad():
                sum(criterion(model(rows), rows).item() for (rows,) in held)
    average.eval()
    with torch.no_grad():
        errors = ((average(test_data) - test_data) ** 2).mean((1, 2))
    return ranking_skill(errors, is_bad)


CASES = cases(
    "machine anomalies",
    train,
    {
        "plain": {},
        "no validation": {"validate": False},
        "long": {"epochs": 60},
        "convolutional encoder": {"convolutional": True},
        "ELU, momentum": {"activation": nn.ELU, "optimizer": "momentum", "rate": 0.05},
        "batch of 4": {"batch": 4, "rate": 5e-4, "epochs": 5},
        "batch of 512": {"batch": 512, "rate": 6e-3, "epochs": 200},
        "between 0 and 1": {"scaling": "unit", "last": "sigmoid", "rate": 4e-3, "epochs": 35},
        "absolute error": {"loss": "l1"},
        "sum of squares": {"loss": "sum"},
        "cross entropy of values": {
            "loss": "bce", "scaling": "unit", "last": "sigmoid", "rate": 4e-3, "epochs": 35,
        },
        "denoising": {"denoise": 0.3},
        "sparse code": {"sparsity": 0.002, "code": 8},
        "moving average": {"ema": True},
        "warm-up and clipping": {"schedule": "warmup", "rate": 4e-3, "clip": 0.5},
        "accumulation": {"batch": 8, "accumulate": 4, "epochs": 14},
        "loss x 10,000": {"scale": 1e4},
    },
    {
        "values as they are": ("inputs range slow", {"scaling": "none"}),
        "ends with a ReLU": ("range dead", {"last": "relu"}),
        "a sigmoid for standardized values": ("range saturated", {"last": "sigmoid"}),
        "each window scaled in the test": ("inputs overfit", {"test_scaling": "by window"}),
        "not scaled in the test": ("inputs overfit", {"test_scaling": "none"}),
        "target of another window": (
            "no-skill collapse",
            {"fault": "target of another window"},
        ),
        "target is the mean": ("no-skill collapse", {"loss": "to the mean"}),
        "code detached, small code": ("no-gradient", {"fault": "code detached", "code": 2}),
        "dead code": ("dead no-gradient no-skill collapse", {"fault": "dead code"}),
        "last layer alone": ("unbound slow", {"fault": "last layer alone"}),
        "not a number in a window": ("not-finite", {"fault": "not a number in a window"}),
        "root of a negative": ("not-finite", {"loss": "root"}),
        "spread of zero": ("not-finite", {"scaling": "spread of zero"}),
        "wide start with tanh": (
            "saturated slow", {"start": 6.0, "activation": nn.Tanh, "optimizer": "sgd"},
        ),
        "rate / 2000": ("slow", {"rate": 1e-6}),
        "rate ends early": ("schedule slow", {"schedule": "ends early"}),
        "no zero_grad": (
            "kept-gradients", {"fault": "no zero_grad", "optimizer": "momentum", "rate": 0.05},
        ),
    },
)  # fmt: skip
