"""A convolutional network sorts heartbeats of two leads into the five classes of the AAMI."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, scheduler_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

from benchmarks.detection.case import cases

LENGTH, LEADS, KINDS = 80, 2, 5
SHARES = (0.5, 0.14, 0.16, 0.1, 0.1)  # normal, supraventricular, ventricular, fusion, paced


def beats(count: int, seed: int) -> tuple[Any, Any]:
    """Beats (N, LENGTH, LEADS) in millivolts, and their classes."""
    draw = np.random.default_rng(seed)
    y = draw.choice(KINDS, count, p=SHARES)
    time = np.linspace(-0.35, 0.45, LENGTH)[None, :]
    wide = np.array([0.0, 0.0, 1.0, 0.5, 0.8])[y][:, None]
    early = np.where(y == 1, 0.07, 0.0)[:, None]

    def wave(at: Any, width: Any, height: Any) -> Any:
        at = at + 0.012 * draw.standard_normal((count, 1))
        height = height * (1 + 0.2 * draw.standard_normal((count, 1)))
        return height * np.exp(-(((time - at) / width) ** 2))

    signal = wave(-0.2 + early, 0.035, 0.25 * (1 - wide) * np.where(early > 0, -1.0, 1.0))
    signal = signal + wave(0.0, 0.016 + 0.04 * wide, 1.2) - wave(0.05, 0.02 + 0.03 * wide, 0.4)
    signal = signal + wave(0.25, 0.06, 0.4 * (1 - 1.8 * wide))
    signal = signal + np.where(y == 4, 1.0, 0.0)[:, None] * wave(-0.08, 0.008, 0.6)
    second = 0.6 * np.roll(signal, 1, 1) + 0.2 * np.gradient(signal, axis=1)
    both = np.stack([signal, second], 2)
    wander = 0.3 * np.sin(2 * np.pi * (0.4 * time + draw.random((count, 1))))[:, :, None]
    return (both + wander + 0.1 * draw.standard_normal(both.shape)).astype(np.float32), y


class Beats(Dataset):
    def __init__(self, signals: Any, kinds: Any, raw: bool = False, augment: str = "") -> None:
        self.signals, self.kinds, self.raw, self.augment = signals, kinds, raw, augment

    def __len__(self) -> int:
        return len(self.signals)

    def __getitem__(self, i: int) -> tuple[Any, int]:
        x = self.signals[i]
        if self.raw:
            return np.ascontiguousarray((1024 + 200 * x).T), int(self.kinds[i])
        x = (x - x.mean(0)) / x.std(0)
        if self.augment == "gain and shift":
            x = np.roll(x, np.random.randint(-3, 4), 0) * np.float32(np.random.uniform(0.8, 1.2))
        if self.augment == "cuts out":
            x = x.copy()
            x[LENGTH // 4 : 3 * LENGTH // 4] = 0
        return np.ascontiguousarray(x.T), int(self.kinds[i])


class BeatNet(nn.Module):
    def __init__(self, norm: str = "batch", dropout: float = 0.0, active: Any = nn.ReLU) -> None:
        super().__init__()
        norms: dict[str, Any] = {
            "batch": nn.BatchNorm1d,
            "group": lambda width: nn.GroupNorm(4, width),
            "none": lambda width: nn.Identity(),
        }
        widths = (LEADS, 12, 20, 28)
        layers: list[nn.Module] = [nn.BatchNorm1d(LEADS)] if norm == "first" else []
        made = norms["batch" if norm == "first" else norm]
        for i in range(3):
            layers += [nn.Conv1d(widths[i], widths[i + 1], 7 - 2 * i, stride=2, padding=3 - i)]
            layers += [made(widths[i + 1]), active()]
        self.features = nn.Sequential(*layers)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(widths[-1], KINDS)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.dropout(self.features(x).mean(2)))
        return scores


def focal(scores: Tensor, y: Tensor) -> Tensor:
    entropy = F.cross_entropy(scores, y, reduction="none")
    return ((1 - torch.exp(-entropy)) ** 2 * entropy).mean()


def confusion_matrix(true: Any, found: Any) -> Any:
    table = np.zeros((KINDS, KINDS), dtype=int)
    np.add.at(table, (true, found), 1)
    return table


def kappa(table: Any) -> float:
    """Cohen's: agreement above chance."""
    total = table.sum()
    chance = (table.sum(0) * table.sum(1)).sum() / total**2
    return float((np.trace(table) / total - chance) / (1 - chance))


def macro_f1(table: Any) -> float:
    return float((2 * np.diag(table) / np.maximum(table.sum(0) + table.sum(1), 1)).mean())


def evaluate(model: nn.Module, loader: Any, criterion: Any, training: bool = False) -> Any:
    model.train(training)
    true, found, losses, finite = [], [], [], True
    with torch.no_grad():
        for x, y in loader:
            scores = model(x)
            losses.append(criterion(scores, y).item())
            finite &= bool(torch.isfinite(scores).all())
            true.append(y.numpy())
            found.append(scores.argmax(1).numpy())
    table = confusion_matrix(np.concatenate(true), np.concatenate(found))
    return {"loss": np.mean(losses), "f1": macro_f1(table), "kappa": kappa(table), "ok": finite}


def dataset(seed: int, fault: str, noise: float, augment: str, raw: bool) -> Beats:
    x, y = beats(60 if fault == "one patient" else 2400, seed + 400)
    draw = np.random.default_rng(seed)
    if fault == "beat before":
        y = np.roll(y, 1)
    if noise:
        wrong = draw.random(len(y)) < noise
        y = np.where(wrong, draw.integers(0, KINDS, len(y)), y)
    if fault == "flat leads":
        x[draw.integers(0, len(x), 4)] = 0.0
    if fault == "nearly all normal":
        keep = (y == 0) | (draw.random(len(y)) < 0.02)
        x, y = x[keep], y[keep]
    if fault == "sorted":
        order = np.argsort(y, kind="stable")
        x, y = x[order], y[order]
    if fault == "codes from one to five":
        y = np.minimum(y + 1, KINDS - 1)
    return Beats(x, y, raw, augment)


def setup(model: nn.Module, fault: str) -> None:
    if fault == "zero start":
        for parameter in model.parameters():
            nn.init.zeros_(parameter)
    if fault == "wide start":
        for module in model.modules():
            if isinstance(module, nn.Conv1d | nn.Linear):
                nn.init.normal_(module.weight, 0.0, 20.0)
    if fault == "body frozen":
        model.requires_grad_(False)
        model.get_submodule("classifier").requires_grad_(True)


def train(
    seed: int, hook: Any, rate: float = 3e-3, epochs: int = 10, batch: int = 32,
    optimizer: str = "adam", schedule: str = "cosine", norm: str = "batch", dropout: float = 0.0,
    noise: float = 0.0, decay: float = 0.0, clip: float = 0.0, accumulate: int = 1,
    augment: str = "", loss: str = "ce", scale: float = 1.0, average: bool = False,
    half: bool = False, sampler: bool = False, raw: bool = False, active: str = "ReLU",
    evaluates: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    np.random.seed(seed)
    train_set = dataset(seed, fault, noise, augment, raw)
    test_set = Beats(*beats(1000, seed + 401), raw or fault == "raw in evaluation")
    weights = torch.tensor([1.0 / share for share in SHARES])
    drawn = WeightedRandomSampler(weights[train_set.kinds], len(train_set)) if sampler else None
    loader = DataLoader(train_set, batch, shuffle=not sampler and fault != "sorted", sampler=drawn)
    test = DataLoader(test_set, 1 if fault == "train mode in evaluation" else 200)
    criterion: Any = {
        "ce": nn.CrossEntropyLoss(),
        "weighted": nn.CrossEntropyLoss(weight=weights / weights.mean()),
        "smooth": nn.CrossEntropyLoss(label_smoothing=0.1),
        "focal": focal,
        "softmax": lambda scores, y: F.cross_entropy(scores.softmax(1), y),
        "relu": lambda scores, y: F.cross_entropy(F.relu(scores - 3.0), y),
    }[loss]
    model = BeatNet(norm, dropout, getattr(nn, active))
    setup(model, fault)
    kept = copy.deepcopy(model) if average else None
    learned = [p for p in model.parameters() if p.requires_grad]
    adapt: Any = {
        "adam": lambda: torch.optim.Adam(learned, rate, weight_decay=decay),
        "sgd": lambda: torch.optim.SGD(learned, rate, 0.9, weight_decay=decay, nesterov=True),
        "rmsprop": lambda: torch.optim.RMSprop(learned, rate),
    }[optimizer]()
    steps = epochs * len(loader) // accumulate
    scheduler: Any = scheduler_of(adapt, schedule, steps)
    if fault == "decay at each batch":
        scheduler = torch.optim.lr_scheduler.StepLR(adapt, 2, 0.5)
    hook.torch(model)
    for _ in range(epochs):
        model.train()
        for i, (x, y) in enumerate(loader):
            if fault == "batch mixed":
                x = x.permute(2, 0, 1).reshape(len(y), LEADS, LENGTH)
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                output = scale * criterion(model(x), y)
            (output / accumulate).backward()
            if fault == "gradients zeroed before the step":
                adapt.zero_grad()
            if (i + 1) % accumulate == 0:
                if clip:
                    nn.utils.clip_grad_norm_(model.parameters(), clip)
                adapt.step()
                adapt.zero_grad()
                scheduler.step()
                if kept is not None:
                    with torch.no_grad():
                        for old, new in zip(kept.parameters(), model.parameters(), strict=True):
                            old.lerp_(new, 0.03)
                        for old, new in zip(kept.buffers(), model.buffers(), strict=True):
                            old.copy_(new)
        if evaluates:
            evaluate(kept or model, test, criterion, fault == "train mode in evaluation")
    result = evaluate(kept or model, test, criterion, fault == "train mode in evaluation")
    return float(result["kappa"]) if result["ok"] else float("nan")


CASES = cases(
    "heartbeat classes",
    train,
    {
        "plain": {},
        "momentum": {"optimizer": "sgd", "rate": 0.05},
        "batch of eight": {"batch": 8, "rate": 3e-3, "epochs": 5},
        "batch of 512": {"batch": 512, "rate": 1e-2, "epochs": 24},
        "loss x 10,000": {"scale": 1e4},
        "classes weighted": {"loss": "weighted"},
        "classes drawn alike": {"sampler": True},
        "focal loss": {"loss": "focal"},
        "label smoothing": {"loss": "smooth"},
        "labels with noise": {"noise": 0.05},
        "dropout": {"dropout": 0.1},
        "accumulation and clipping": {"batch": 8, "accumulate": 4, "clip": 1.0, "epochs": 8},
        "average of weights": {"average": True},
        "bfloat16": {"half": True},
        "one cycle": {"schedule": "one cycle", "rate": 1e-2},
        "group norm": {"norm": "group"},
        "gain and shift": {"augment": "gain and shift"},
        "counts of the converter": {"raw": True, "norm": "first"},
        "no evaluation": {"evaluates": False},
    },
    {
        "labels of the beat before": ("no-skill overfit", {"fault": "beat before"}),
        "converter's counts in evaluation": ("inputs", {"fault": "raw in evaluation"}),
        "counts not scaled": (
            "inputs",
            {"raw": True, "norm": "none", "optimizer": "sgd", "rate": 1e-2},
        ),
        "nearly all normal": ("imbalance overfit", {"fault": "nearly all normal"}),
        "batch and time mixed": ("no-skill overfit inputs", {"fault": "batch mixed"}),
        "augmentation cuts the beat out": ("inputs no-skill", {"augment": "cuts out"}),
        "flat leads divided by zero": ("not-finite inputs", {"fault": "flat leads"}),
        "train mode in evaluation": ("mode", {"fault": "train mode in evaluation"}),
        "gradients zeroed before the step": (
            "no-gradient unbound slow no-skill",
            {"fault": "gradients zeroed before the step"},
        ),
        "decay at each batch": ("schedule slow", {"fault": "decay at each batch"}),
        "sorted by class": ("order", {"fault": "sorted"}),
        "codes from one to five": ("no-skill range", {"fault": "codes from one to five"}),
        "one patient": ("overfit", {"fault": "one patient", "epochs": 120}),
        "zero start": ("dead no-gradient no-skill collapse", {"fault": "zero start"}),
        "wide start": ("fast saturated", {"fault": "wide start", "norm": "none", "rate": 1e-3}),
        "body frozen at its start": ("no-gradient slow", {"fault": "body frozen"}),
        "ReLU on the scores": ("dead no-gradient collapse no-skill", {"loss": "relu"}),
        "softmax twice": ("probabilities slow", {"loss": "softmax", "rate": 1e-4}),
        "rate of ten": ("fast not-finite no-skill", {"optimizer": "sgd", "rate": 10.0}),
        "weight decay of one": ("collapse no-skill", {"decay": 1.0}),
        "sigmoids without norm": (
            "saturated no-gradient slow no-skill",
            {"active": "Sigmoid", "norm": "none", "optimizer": "sgd", "rate": 1e-2},
        ),
    },
)
