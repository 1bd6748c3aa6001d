"""Numbers of up to three handwritten digits are read: convolutions, a GRU, a head per position."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin, factor, optimizer_of
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.detection.case import cases

HEIGHT, WIDTH, PLACES, BLANK = 12, 36, 3, 10
HELD_OUT = 4
"""Every fourth of the digits that scikit-learn ships."""


def numbers(count: int, held_out: bool, seed: int, right: bool = False) -> tuple[Any, Any]:
    """Pictures (N, 12, 36) of 0 to 255, and their digits (N, 3), blank where there is none."""
    found = load_digits()
    part = (np.arange(len(found.target)) % HELD_OUT == 0) == held_out
    pictures, kinds = found.images[part] * (255 / 16), found.target[part]
    draw = np.random.default_rng(seed)
    x = np.zeros((count, HEIGHT, WIDTH), np.float32)
    y = np.full((count, PLACES), BLANK)
    for row in range(count):
        length = draw.integers(1, PLACES + 1)
        column = draw.integers(0, 3)
        first = PLACES - length if right else 0
        for place in range(length):
            one = draw.integers(len(kinds))
            down, along = draw.integers(0, HEIGHT - 7), column + 11 * place + draw.integers(0, 3)
            x[row, down : down + 8, along : along + 8] = pictures[one]
            y[row, first + place] = kinds[one]
    noisy = x + draw.normal(0, 8, x.shape)
    return noisy.clip(0, 255).astype(np.float32), y


class NumberDataset(Dataset[tuple[Tensor, Tensor]]):
    def __init__(self, images: Any, labels: Any, scale: float = 255.0) -> None:
        self.images, self.labels, self.scale = images, labels, scale

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        image = torch.from_numpy(self.images[row]).unsqueeze(0) / self.scale
        return image, torch.from_numpy(self.labels[row])


class Reader(nn.Module):
    """Scores (N, 3, 11) of the digit at each position."""

    def __init__(self, dropout: float, wrong: str, units: int = 64) -> None:
        super().__init__()
        self.wrong = wrong
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        features = 24 * (HEIGHT // 4)
        self.rnn = nn.GRU(features, units, batch_first=wrong != "time first")
        self.dropout = nn.Dropout(dropout)
        width = units * (WIDTH // 4)
        self.heads = nn.ModuleList(nn.Linear(width, BLANK + 1) for _ in range(PLACES))

    def forward(self, x: Tensor) -> Tensor:
        maps = self.encoder(x)
        columns = maps.permute(0, 3, 1, 2).flatten(2)
        states, _ = self.rnn(columns)
        if self.wrong == "time first":
            states = states[:, -1:].expand_as(states)
        state = self.dropout(states.flatten(1))
        scores = torch.stack([head(state) for head in self.heads], 1)
        if self.wrong == "relu on scores":
            scores = torch.relu(scores - 3)
        return scores


def criterion_of(kind: str, smoothing: float) -> Any:
    usual = nn.CrossEntropyLoss(label_smoothing=smoothing)
    skipping = nn.CrossEntropyLoss(ignore_index=BLANK)
    over_places, nll = nn.LogSoftmax(dim=1), nn.NLLLoss()

    def loss(scores: Tensor, digits: Tensor) -> Tensor:
        if kind == "log-softmax over places":
            return nll(over_places(scores).flatten(0, 1), digits.flatten())
        total = torch.zeros(())
        for place in range(PLACES):
            one = (skipping if kind == "blanks ignored" else usual)(
                scores[:, place], digits[:, place]
            )
            total = one if kind == "last position alone" else total + one
        return total * (1e4 if kind == "x 1e4" else 1)

    return loss


def evaluate(model: nn.Module, loader: Iterable[Any], criterion: Any) -> tuple[float, float]:
    """The mean loss, and the share of digits that are right at positions."""
    model.eval()
    losses, right = [], []
    with torch.no_grad():
        for images, digits in loader:
            scores = model(images)
            losses.append(criterion(scores, digits).item())
            right.append((scores.argmax(-1) == digits).float().mean().item())
            if not torch.isfinite(scores).all():
                return float("nan"), float("nan")
    return sum(losses) / len(losses), sum(right) / len(right)


def train(
    seed: int, hook: Any, rate: float = 3e-3, epochs: int = 6, batch: int = 32, count: int = 2200,
    optimizer: str = "adam", schedule: str = "constant",
    loss: str = "sum", smoothing: float = 0.0, dropout: float = 0.0, noise: float = 0.0,
    half: bool = False, accumulate: int = 1, easy_first: bool = False, average: float = 0.0,
    wrong: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, y = numbers(count, False, seed + 500)
    held_x, held_y = numbers(512, True, seed + 501, right=wrong == "padded on the other side")
    draw = np.random.default_rng(seed)
    if wrong == "files sorted as text":
        x = x[sorted(range(count), key=str)]
    if noise:
        x_rows = draw.random(count) < noise
        y[x_rows] = y[draw.permutation(count)][x_rows]
    if wrong == "standardised by picture":
        x[draw.integers(count, size=4)] = 0
        x = (x - x.mean((1, 2), keepdims=True)) / x.std((1, 2), keepdims=True)
    if easy_first:
        order = np.argsort((y != BLANK).sum(1), kind="stable")
        x, y = x[order], y[order]
    train_set = NumberDataset(x, y)
    held_scale = 1.0 if wrong == "evaluation not divided by 255" else 255.0
    loader = DataLoader(train_set, batch, shuffle=True)
    held_loader = DataLoader(NumberDataset(held_x, held_y, held_scale), 128)
    model = Reader(dropout, wrong)
    criterion = criterion_of(loss, smoothing)
    trained = copy.deepcopy(model) if wrong == "optimizer of a copy" else model
    stepper = optimizer_of(optimizer, trained.parameters(), rate)
    steps = epochs * len(loader) // accumulate
    scheduler = torch.optim.lr_scheduler.LambdaLR(stepper, lambda s: factor(schedule, s, steps))
    mean = copy.deepcopy(model) if average else model
    hook.torch(model)
    for epoch in range(epochs):
        model.train()
        if easy_first and epoch == 0:
            batches: Any = DataLoader(torch.utils.data.Subset(train_set, range(count // 2)), batch,
                                      shuffle=True)  # fmt: skip
        else:
            batches = loader
        for number, (images, digits) in enumerate(batches, 1):
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                scores = model(images)
            one = criterion(scores.float(), digits)
            (one / accumulate).backward()
            if number % accumulate:
                continue
            stepper.step()
            scheduler.step()
            if wrong != "gradients kept":
                stepper.zero_grad()
            if average:
                for kept, now in zip(mean.state_dict().values(), model.state_dict().values(),
                                     strict=True):  # fmt: skip
                    kept.lerp_(now, 1 - average) if kept.is_floating_point() else kept.copy_(now)
        evaluate(mean, held_loader, criterion)
    accuracy = evaluate(mean, held_loader, criterion)[1]
    guess = sum(np.bincount(held_y[:, p]).max() / len(held_y) for p in range(PLACES)) / PLACES
    return float((accuracy - guess) / (1 - guess))


CASES = cases(
    "digit strings",
    train,
    {
        "plain": {},
        "one cycle": {"schedule": "one cycle", "rate": 4e-3},
        "batch of eight": {"batch": 8, "rate": 1e-3, "epochs": 4},
        "batch of 200": {"batch": 200, "rate": 1e-2, "epochs": 12, "schedule": "warmup"},
        "loss x 1e4": {"loss": "x 1e4"},
        "label smoothing and dropout": {"smoothing": 0.1, "dropout": 0.2, "epochs": 8},
        "five percent of labels wrong": {"noise": 0.05},
        "bfloat16": {"half": True},
        "accumulation": {"batch": 16, "accumulate": 2},
        "short numbers first": {"easy_first": True},
        "average of weights": {"average": 0.98},
        "restarts": {"schedule": "restarts", "rate": 3e-3},
    },
    {
        "files sorted as text": ("no-skill overfit", {"wrong": "files sorted as text"}),
        "padded on the other side": ("inputs overfit", {"wrong": "padded on the other side"}),
        "blanks ignored": ("ignored", {"loss": "blanks ignored"}),
        "loss of the last position alone": (
            "no-gradient unbound ignored",
            {"loss": "last position alone"},
        ),
        "log-softmax over places": ("softmax-axis", {"loss": "log-softmax over places"}),
        "recurrence over the batch": ("no-skill worse", {"wrong": "time first"}),
        "optimizer of a copy": ("unbound slow", {"wrong": "optimizer of a copy"}),
        "evaluation not divided by 255": (
            "inputs overfit",
            {"wrong": "evaluation not divided by 255"},
        ),
        "standard deviation of an empty picture": (
            "not-finite inputs",
            {"wrong": "standardised by picture"},
        ),
        "gradients kept": (
            "kept-gradients fast worse",
            {"wrong": "gradients kept", "optimizer": "sgd", "rate": 0.1},
        ),
        "relu on scores": ("dead no-gradient range", {"wrong": "relu on scores"}),
        "rate of one": ("fast worse no-skill", {"rate": 1.0}),
    },
)
