"""Which loans default: categories embedded beside numbers of a table, one of six defaults."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

LEVELS = (24, 12, 8, 5)  # region, occupation, purpose, housing
NUMBERS = ("income", "debt", "age", "utilisation", "late", "amount", "years", "recovered")


@dataclass(frozen=True)
class Loans:
    categories: Any
    numbers: Any
    default: Any


def loans(count: int, seed: int) -> Loans:
    draw, world = np.random.default_rng(seed), np.random.default_rng(77)
    effects = [world.normal(0, 1.1, levels) for levels in LEVELS]
    categories = np.stack([draw.integers(0, levels, count) for levels in LEVELS], 1)
    income = np.exp(draw.normal(10.4, 0.6, count)) * (draw.random(count) > 0.004)
    debt = draw.gamma(2.0, 0.15, count)
    age = draw.integers(19, 75, count)
    utilisation = draw.beta(1.5, 2.0, count)
    late = draw.poisson(0.6, count)
    amount = np.exp(draw.normal(9.0, 0.7, count))
    years = draw.exponential(5.0, count)
    burden = np.log(amount) - np.log(np.maximum(income, 3000.0)) + 1.4
    score = sum(effect[categories[:, i]] for i, effect in enumerate(effects)) - 4.2
    score = score + 1.3 * burden + 2.5 * debt + 1.0 * np.minimum(late, 3) - 0.15 * years
    score = score + 3.0 * (utilisation - 0.4) ** 2 + 1.5 * (age < 26) * (late > 0)
    default = (draw.random(count) < 1 / (1 + np.exp(-1.6 * score))).astype(np.float32)
    recovered = default * amount * draw.uniform(0.1, 0.5, count)
    table = [income, debt, age, utilisation, late, amount, years, recovered]
    return Loans(categories, np.stack(table, 1), default)


class Preprocessor:
    """Logarithms of money, then standard scores with the training's mean and deviation."""

    def __init__(self, columns: int, fault: str) -> None:
        self.columns, self.fault = columns, fault

    def fit(self, numbers: Any) -> Preprocessor:
        prepared = self.prepare(numbers)
        self.mean, self.std = prepared.mean(0), prepared.std(0)
        return self

    def prepare(self, numbers: Any) -> Any:
        numbers = numbers[:, : self.columns].copy()
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.fault != "raw":
                logarithm = np.log if self.fault == "log of zero" else np.log1p
                numbers[:, [0, 5]] = logarithm(numbers[:, [0, 5]])
        return numbers

    def transform(self, numbers: Any) -> Any:
        prepared = self.prepare(numbers)
        if self.fault == "raw":
            return prepared.astype(np.float32)
        with np.errstate(invalid="ignore"):
            return ((prepared - self.mean) / self.std).astype(np.float32)


class CreditNet(nn.Module):
    def __init__(self, columns: int, norm: bool, dropout: float) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList([nn.Embedding(levels, 4) for levels in LEVELS])
        self.drop = nn.Dropout(dropout)
        widths = (columns + 4 * len(LEVELS), 48, 24)
        layers: list[nn.Module] = []
        for inputs, units in pairwise(widths):
            layers += [nn.Linear(inputs, units), nn.ReLU()]
            layers += [nn.BatchNorm1d(units)] if norm else []
            layers.append(nn.Dropout(dropout))
        self.mlp = nn.Sequential(*layers)
        self.out = nn.Linear(widths[-1], 1)

    def forward(self, categories: Tensor, numbers: Tensor) -> Tensor:
        embedded = [table(categories[:, i]) for i, table in enumerate(self.embeddings)]
        logit: Tensor = self.out(
            self.mlp(torch.cat([self.drop(torch.cat(embedded, 1)), numbers], 1))
        )
        return logit


def roc_auc(score: Any, default: Any) -> float:
    """By the ranks of the scores; equal ones share theirs."""
    _, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    bad = int(default.sum())
    above = ranks[default == 1].sum() - bad * (bad + 1) / 2
    return float(above / (bad * (len(default) - bad)))


def focal(logit: Tensor, y: Tensor) -> Tensor:
    entropy = F.binary_cross_entropy_with_logits(logit, y, reduction="none")
    return ((1 - torch.exp(-entropy)) ** 2 * entropy).mean()


def hand_written(logit: Tensor, y: Tensor) -> Tensor:
    p = torch.sigmoid(logit)
    return -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()


def losses(kind: str, smoothing: float) -> Any:
    bce = nn.BCEWithLogitsLoss()
    return {
        "bce": lambda z, y: bce(z, y * (1 - 2 * smoothing) + smoothing),
        "weighted": nn.BCEWithLogitsLoss(pos_weight=torch.tensor(5.0)),
        "focal": focal,
        "brier": lambda z, y: 4 * ((torch.sigmoid(z) - y) ** 2).mean(),
        "sigmoid twice": lambda z, y: bce(torch.sigmoid(z), y),
        "by hand": hand_written,
        "row against column": lambda z, y: ((torch.sigmoid(z) - y.squeeze(1)) ** 2).mean(),
        "softmax of one": lambda z, y: F.binary_cross_entropy(z.softmax(1), y),
    }[kind]


def table_for_training(seed: int, fault: str, noise: float) -> Loans:
    data = loans(150 if fault == "few rows" else 6000, seed + 800)
    draw = np.random.default_rng(seed)
    x, numbers, y = data.categories, data.numbers, data.default
    if fault == "rows dropped":
        keep = draw.random(len(y)) > 0.01
        x, numbers, y = x[keep], numbers[keep], y[: keep.sum()]
    if fault == "two codes of default":
        y = np.where(np.arange(len(y)) % 2 == 0, y, 1 - y)
    if noise:
        y = np.where(draw.random(len(y)) < noise, 1 - y, y)
    return Loans(x, numbers, y.astype(np.float32))


def train(
    seed: int, hook: Any, rate: float = 2e-3, epochs: int = 22, batch: int = 64,
    optimizer: str = "adamw", schedule: str = "cosine", decay: float = 1e-2, loss: str = "bce",
    scale: float = 1.0, smoothing: float = 0.0, noise: float = 0.0, dropout: float = 0.1,
    norm: bool = False, average: bool = False, oversample: bool = False,
    columns: int = 7, evaluates: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    rng = np.random.default_rng(seed)
    data, held = table_for_training(seed, fault, noise), loans(2500, seed + 801)
    scaler = Preprocessor(columns, fault).fit(data.numbers)
    categories = torch.as_tensor(data.categories)
    numbers = torch.as_tensor(scaler.transform(data.numbers))
    y = torch.as_tensor(data.default)[:, None]
    held_numbers = scaler.transform(held.numbers)
    held_categories = held.categories.copy()
    if fault == "raw in scoring":
        held_numbers = held.numbers[:, :columns].astype(np.float32)
    if columns == len(NUMBERS):
        held_numbers[:, -1] = held_numbers[:, -1].min()  # nothing is recovered before a default
    if fault == "codes by appearance":
        for i, levels in enumerate(LEVELS):
            held_categories[:, i] = rng.permutation(levels)[held_categories[:, i]]
    model = CreditNet(columns, norm, dropout)
    learned = list(model.parameters())
    if fault == "model made again":
        model = CreditNet(columns, norm, dropout)
    made: dict[str, Any] = {
        "adamw": lambda: torch.optim.AdamW(learned, rate, weight_decay=decay),
        "sgd": lambda: torch.optim.SGD(learned, rate, momentum=0.9),
        "plain sgd": lambda: torch.optim.SGD(learned, rate),
    }
    adapt = made[optimizer]()
    steps = epochs * -(-len(y) // batch)
    scheduler = scheduler_of(adapt, schedule, steps)
    if fault == "warm-up without end":
        scheduler = torch.optim.lr_scheduler.LambdaLR(adapt, lambda step: min(1.0, step / 1e6))
    criterion = losses(loss, smoothing)
    slow = copy.deepcopy(model) if average else model
    hook.torch(model)

    def score() -> tuple[float, float]:
        slow.eval()
        with torch.no_grad():
            logit = slow(torch.as_tensor(held_categories), torch.as_tensor(held_numbers))
            held_loss = criterion(logit, torch.as_tensor(held.default)[:, None]).item()
        found = logit.squeeze(1).numpy()
        if not np.isfinite(found).all():
            return float("nan"), held_loss
        return 2 * roc_auc(found, held.default) - 1, held_loss

    shares = np.where(data.default > 0, 4.0, 1.0)
    for _ in range(epochs):
        order = rng.permutation(len(y))
        if oversample:
            order = rng.choice(len(y), len(y), p=shares / shares.sum())
        model.train()
        for begin_at in range(0, len(y), batch):
            rows = order[begin_at : begin_at + batch]
            error = scale * criterion(model(categories[rows], numbers[rows]), y[rows])
            if fault == "loss made a number":
                error = torch.tensor(error.item(), requires_grad=True)
            error.backward()
            adapt.step()
            if fault != "gradients pile up":
                adapt.zero_grad()
            scheduler.step()
            if average:
                with torch.no_grad():
                    for old, new in zip(slow.parameters(), model.parameters(), strict=True):
                        old.lerp_(new, 0.02)
        if evaluates:
            score()
    return score()[0]


CASES = cases(
    "credit default",
    train,
    {
        "plain": {},
        "momentum": {"optimizer": "sgd", "rate": 0.05},
        "batch of 32": {"batch": 32, "rate": 2e-3, "epochs": 12},
        "batch of 512": {"batch": 512, "rate": 8e-3, "epochs": 40},
        "loss x 10,000": {"scale": 1e4},
        "defaults weighted": {"loss": "weighted"},
        "defaults oversampled": {"oversample": True, "epochs": 12},
        "focal loss": {"loss": "focal"},
        "Brier score": {"loss": "brier"},
        "labels with noise": {"noise": 0.02, "epochs": 14},
        "smooth labels": {"smoothing": 0.05},
        "dropout": {"dropout": 0.25},
        "batch norm": {"norm": True, "rate": 4e-3},
        "average of weights": {"average": True},
        "one cycle": {"schedule": "one cycle", "rate": 6e-3},
    },
    {
        "codes by order of appearance": ("inputs overfit", {"fault": "codes by appearance"}),
        "raw numbers in scoring": ("inputs overfit", {"fault": "raw in scoring"}),
        "raw numbers": ("inputs fast dead", {"fault": "raw", "optimizer": "sgd", "rate": 1e-2}),
        "sum recovered as an input": ("leak", {"columns": 8}),
        "rows dropped, labels kept": ("no-skill overfit", {"fault": "rows dropped"}),
        "two codes of default": ("no-skill overfit", {"fault": "two codes of default"}),
        "logarithm of zero": ("not-finite inputs", {"fault": "log of zero"}),
        "logarithm by hand": ("not-finite", {"loss": "by hand", "rate": 3.0}),
        "row against column": ("broadcast no-skill", {"loss": "row against column"}),
        "softmax of one score": (
            "no-gradient probabilities no-skill collapse",
            {"loss": "softmax of one"},
        ),
        "loss made a number": ("no-gradient no-skill", {"fault": "loss made a number"}),
        "sigmoid twice": ("probabilities slow", {"loss": "sigmoid twice", "rate": 3e-5}),
        "model made again": ("unbound slow no-skill", {"fault": "model made again"}),
        "keep probability as dropout": ("no-skill mode collapse", {"dropout": 0.97}),
        "few rows": ("overfit", {"fault": "few rows", "epochs": 700, "dropout": 0.0}),
        "gradients pile up": (
            "kept-gradients fast",
            {"fault": "gradients pile up", "optimizer": "plain sgd", "rate": 0.1},
        ),
        "warm-up without end": ("schedule slow", {"fault": "warm-up without end"}),
        "rate x 1000": ("fast no-skill dead", {"rate": 2.0}),
    },
)
