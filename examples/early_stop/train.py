"""One trial of a search: trains a network that reads scikit-learn's digits, until it is stopped."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from tocsin_hooks import TrainingStopped, modes
from tocsin_hooks.torch import TorchHook
from torch import Tensor, nn

WATCH = Path(__file__).parent / "watch.yaml"
OPTIMIZERS = ("sgd", "momentum", "adam")


@dataclass(frozen=True)
class Settings:
    """The hyperparameters of a trial. decay: of the weights."""

    optimizer: str
    learning_rate: float
    decay: float
    width: int
    layers: int
    dropout: float
    batch: int


def drawn(random: np.random.Generator) -> Settings:
    """Draw a trial: learning rate and decay over five decades, the rest among usual values."""
    return Settings(
        optimizer=str(random.choice(OPTIMIZERS)),
        learning_rate=float(10 ** random.uniform(-5, 0)),
        decay=float(10 ** random.uniform(-6, -1)),
        width=int(random.choice((16, 32, 64, 128, 256))),
        layers=int(random.choice((1, 2, 3))),
        dropout=float(random.choice((0.0, 0.2, 0.5))),
        batch=int(random.choice((16, 32, 64, 128))),
    )


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return pixels (n, 64) from 0 to 1 and labels (n,): 60 % to train, the rest held out."""
    pixels, labels = map(torch.as_tensor, load_digits(return_X_y=True))
    order = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(0))
    pixels, labels = pixels[order].float() / 16, labels[order]
    split = len(pixels) * 6 // 10
    return pixels[:split], labels[:split], pixels[split:], labels[split:]


def network(settings: Settings) -> nn.Sequential:
    sizes = [64] + [settings.width] * settings.layers
    hidden: list[nn.Module] = []
    for before, after in pairwise(sizes):
        hidden += [nn.Linear(before, after), nn.ReLU(), nn.Dropout(settings.dropout)]
    return nn.Sequential(*hidden, nn.Linear(settings.width, 10))


def optimizer(settings: Settings, model: nn.Module) -> torch.optim.Optimizer:
    rate, decay = settings.learning_rate, settings.decay
    if settings.optimizer == "adam":
        return torch.optim.AdamW(model.parameters(), rate, weight_decay=decay)
    momentum = 0.9 if settings.optimizer == "momentum" else 0.0
    return torch.optim.SGD(model.parameters(), rate, momentum=momentum, weight_decay=decay)


def train(
    out: Path, settings: Settings, *, seed: int, epochs: int, seconds: float, stops: bool
) -> tuple[list[float], str]:
    """Return the accuracy on the held-out digits after each epoch, and the rule that stopped it.

    seconds: that an epoch lasts at least, as if the network were larger.
    stops: whether rules may stop it; the rule is "" if none did.
    """
    torch.manual_seed(seed)
    pixels, labels, held_out, expected = digits()
    model, criterion = network(settings), nn.CrossEntropyLoss()
    hook = TorchHook.attach(
        model,
        out,
        watch=WATCH,
        save_interval={modes.TRAIN: 10, modes.EVAL: 1},
        max_overhead=None,
        judge="stop" if stops else False,
    )
    updates, accuracies, rule = optimizer(settings, model), list[float](), ""
    try:
        for _ in range(epochs):
            end = time.monotonic() + seconds
            model.train()
            for batch in torch.randperm(len(pixels)).split(settings.batch):
                updates.zero_grad()
                criterion(model(pixels[batch]), labels[batch]).backward()
                updates.step()
            model.eval()
            with torch.no_grad():
                scores = model(held_out)
                criterion(scores, expected)
            accuracies.append(float((scores.argmax(dim=1) == expected).float().mean()))
            time.sleep(max(0.0, end - time.monotonic()))
    except TrainingStopped as stopped:
        rule = str(stopped).split()[0]
    hook.close()
    return accuracies, rule
