"""A convolutional network over time spots eight spoken words in log-mel spectrograms."""

from __future__ import annotations

import copy
import logging
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset, WeightedRandomSampler

from benchmarks.detection.case import cases

MELS, FRAMES, WORDS, SILENCE = 16, 24, 9, 8
MEAN, STD = -1.2, 0.75  # of the log-mel values, computed once on the training clips

log = logging.getLogger(__name__)


def recordings(count: int, seed: int, words: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Mel power (N, MELS, FRAMES): two formants that move, each word by its own track."""
    draw = torch.Generator().manual_seed(seed)
    if words is None:
        words = torch.randint(WORDS, (count,), generator=draw)
    tracks = torch.rand(WORDS, 2, 3, generator=torch.Generator().manual_seed(907)) * 10 + 2.5
    nodes = tracks[words] + 0.8 * torch.randn(count, 1, 1, generator=draw)  # a speaker's pitch
    onset = torch.randint(0, 7, (count, 1), generator=draw)
    duration = torch.randint(11, 18, (count, 1), generator=draw)
    time = (torch.arange(FRAMES) - onset) / duration
    spoken = ((time >= 0) & (time <= 1) & (words != SILENCE)[:, None]).float()
    bend = (2 * time[:, None]).clamp(0, 2)
    first, second = bend.clamp(max=1), (bend - 1).clamp(min=0)
    tone = (
        nodes[..., :1] * (1 - first) + nodes[..., 1:2] * (first - second) + nodes[..., 2:] * second
    )
    mels = torch.arange(MELS).view(1, 1, MELS, 1)
    power = torch.exp(-((mels - tone[:, :, None]) ** 2) / 2.5).sum(1) * spoken[:, None]
    loud = torch.exp(0.5 * torch.randn(count, 1, 1, generator=draw))
    noise = -torch.rand(count, MELS, FRAMES, generator=draw).clamp(min=1e-6).log()
    power = loud * power + 0.15 * noise
    power[:, :, -1] = 0.0  # recorders pad what is too short by digital zeros
    return power, words


class Clips(Dataset):  # type: ignore[type-arg, misc, unused-ignore]
    """Features of one clip and its word; augmented if asked."""

    def __init__(self, power: Tensor, words: Tensor, floor: float, augment: str = "") -> None:
        self.features, self.words = features(power, floor), words
        self.augment = augment

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        clip = self.features[row]
        if self.augment == "masks":
            clip = clip.clone()
            at = int(torch.randint(FRAMES - 4, ()))
            clip[:, at : at + int(torch.randint(1, 5, ()))] = 0.0
            clip[int(torch.randint(MELS, ()))] = 0.0
        if self.augment == "shift":
            clip = clip.roll(int(torch.randint(-2, 3, ())), 1)
        if self.augment == "masks of all mels":
            clip = clip.clone()
            clip[int(torch.randint(2, ())) :, : FRAMES - int(torch.randint(3, ()))] = 0.0
        return clip, self.words[row]


def features(power: Tensor, floor: float = 1e-3) -> Tensor:
    return ((power + floor).log10() - MEAN) / STD


class Spotter(nn.Module):
    def __init__(self, dropout: float = 0.0, width: int = 24, last: str = "") -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(MELS, width, 3, padding=1), nn.BatchNorm1d(width), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(width, width, 3, padding=1), nn.BatchNorm1d(width), nn.ReLU(),
            nn.MaxPool1d(2),
        )  # fmt: skip
        self.head = nn.Sequential(
            nn.Flatten(), nn.Dropout(dropout), nn.Linear(width * FRAMES // 4, WORDS)
        )
        self.last = last

    def forward(self, clips: Tensor) -> Tensor:
        scores: Tensor = self.head(self.body(clips))
        if self.last == "softmax of the batch":
            return scores.softmax(0)
        return scores.softmax(1) if self.last == "softmax" else scores


def focal(scores: Tensor, words: Tensor) -> Tensor:
    missed = F.cross_entropy(scores, words, reduction="none")
    return ((1 - torch.exp(-missed)) ** 2 * missed).mean()


def accuracy(model: nn.Module, loader: Any) -> float:
    right = total = 0
    with torch.no_grad():
        for clips, words in loader:
            right += int((model(clips).argmax(1) == words).sum())
            total += len(words)
    return right / total


def train(
    seed: int, hook: Any, rate: float = 2e-3, epochs: int = 5, batch: int = 16, count: int = 3200,
    optimizer: str = "adam", schedule: str = "", decay: float = 0.0, accumulate: int = 1,
    clip: float = 0.0, noise: float = 0.0, dropout: float = 0.0, augment: str = "", last: str = "",
    smoothing: float = 0.0, loss: str = "ce", bf16: bool = False, ema: bool = False,
    frozen: str = "", sampler: str = "", mixup: bool = False, evaluate: bool = True,
    floor: float = 1e-3, factor: float = 1.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    (power, words), (held, held_words) = (
        recordings(count, seed + 2010),
        recordings(800, seed + 2011),
    )
    if sampler or fault == "mostly silence":
        keep = (words == SILENCE) | (torch.rand(count) < (0.012 if fault else 0.4))
        power, words = power[keep], words[keep]
    if noise or fault == "files shuffled, words not":
        other = torch.rand(len(words)) < (noise or 1.0)
        words = torch.where(other, words[torch.randperm(len(words))], words)
    if fault == "clips by folder":
        order = words.argsort(stable=True)
        power, words = power[order], words[order]
    if fault == "held-out folders listed in another order":
        held_words = (held_words * 2) % WORDS
    if fault == "copies split at random":  # few clips, copied with noise before the split
        held, held_words = power[:45].repeat(16, 1, 1), words[:45].repeat(16)
        held = held * torch.exp(0.1 * torch.randn_like(held))
        power, words = power[:45].repeat(70, 1, 1), words[:45].repeat(70)
        power = power * torch.exp(0.1 * torch.randn_like(power))
    if fault == "held-out clips at half the rate":
        held = F.interpolate(held, size=FRAMES // 2).repeat(1, 1, 2)
        held = torch.cat([held[:, ::2], torch.zeros_like(held[:, ::2])], 1)
    if fault == "held-out clips in decibels":
        held_set: Any = TensorDataset(10 * (held + floor).log10() + 30, held_words)
    else:
        held_set = Clips(held, held_words, floor)
    draws = None
    if sampler:
        draws = WeightedRandomSampler((1 / torch.bincount(words)[words]).tolist(), 2400)
    shuffle = fault != "clips by folder" and draws is None
    loader = DataLoader(Clips(power, words, floor, augment), batch, shuffle=shuffle, sampler=draws)
    held_loader = DataLoader(held_set, 200)

    model = Spotter(dropout, last=last)
    if fault == "zeros":
        for value in model.parameters():
            nn.init.zeros_(value)
    if fault == "wide start":
        for part in (model.body[0], model.body[4], model.head[2]):
            nn.init.normal_(part.weight, 0.0, 5.0)
    for name, value in model.named_parameters():
        value.requires_grad_(not frozen or not name.startswith(frozen))
    average = copy.deepcopy(model) if ema else None
    hook.torch(model)
    chosen = [p for p in model.parameters() if p.requires_grad]
    if fault == "optimizer of a copy":
        chosen = list(copy.deepcopy(model).parameters())
    stepper = optimizer_of(optimizer, chosen, rate, decay)
    updates = epochs * len(loader)
    scheduler: Any = None
    if schedule == "one cycle":
        scheduler = torch.optim.lr_scheduler.OneCycleLR(stepper, rate, total_steps=updates)
    if schedule == "cosine":
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(stepper, updates)
    if schedule == "restarts":
        turn = max(1, updates // 4)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(stepper, turn)
    if schedule == "decay of an epoch at each batch":
        scheduler = torch.optim.lr_scheduler.ExponentialLR(stepper, 0.7)
    criterion: Any = {
        "ce": nn.CrossEntropyLoss(label_smoothing=smoothing),
        "focal": focal,
        "nll": nn.NLLLoss(),
        "square of the word's number": lambda scores, words: F.mse_loss(
            scores, words[:, None].float()
        ),
    }[loss]
    number = 0
    for epoch in range(epochs):
        model.train()
        for clips, labels in loader:
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                if mixup:
                    share, other = float(torch.rand(())) * 0.3, torch.randperm(len(clips))
                    scores = model((1 - share) * clips + share * clips[other])
                    value = (1 - share) * criterion(scores, labels)
                    value = value + share * criterion(scores, labels[other])
                else:
                    value = criterion(model(clips), labels)
            (factor * value / accumulate).backward()
            number += 1
            if number % accumulate:
                continue
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            stepper.step()
            if fault != "gradients kept":
                stepper.zero_grad()
            if average is not None:
                for mean, new in zip(
                    average.state_dict().values(), model.state_dict().values(), strict=True
                ):
                    mean.copy_(0.99 * mean + 0.01 * new if mean.is_floating_point() else new)
            if scheduler is not None:
                scheduler.step()
        if evaluate:
            model.eval()
            log.info("epoch %d: accuracy %.3f", epoch, accuracy(model, held_loader))

    tested = average if average is not None else model
    tested.eval()
    final, final_words = recordings(1000, seed + 2012)
    clean: Any = Clips(final, final_words, floor)
    if fault.startswith("held-out clips"):  # what the model meets once it is deployed
        clean = held_set
    if fault.startswith("held-out folders"):
        clean = Clips(final, (final_words * 2) % WORDS, floor)
    values = torch.cat([value.flatten() for value in tested.state_dict().values()])
    if not bool(torch.isfinite(values).all()):
        return float("nan")
    return (accuracy(tested, DataLoader(clean, 200)) - 1 / WORDS) / (1 - 1 / WORDS)


CASES = cases(
    "keyword spotting",
    train,
    {
        "plain": {},
        "momentum, one cycle": {"optimizer": "momentum", "rate": 3e-2, "schedule": "one cycle"},
        "batch of four": {"batch": 4, "epochs": 3, "rate": 1e-3},
        "batch of 512": {"batch": 512, "epochs": 16, "rate": 1e-2},
        "loss x 10,000": {"factor": 1e4},
        "wrong words, 5 %": {"noise": 0.05, "smoothing": 0.1},
        "masks in time and pitch": {"augment": "masks"},
        "shifts in time": {"augment": "shift"},
        "half dropped": {"dropout": 0.5},
        "average of weights, no evaluation": {"ema": True, "evaluate": False},
        "bfloat16": {"bf16": True},
        "first normalisation frozen": {"frozen": "body.1"},
        "accumulated": {"batch": 4, "accumulate": 4, "rate": 3e-3, "epochs": 3},
        "clipped short": {"clip": 0.05},
        "focal loss": {"loss": "focal"},
        "mixed clips": {"mixup": True},
        "more silence, drawn by weight": {"sampler": "weighted", "epochs": 12},
        "warm restarts": {"schedule": "restarts", "rate": 5e-3},
        "decoupled decay of 0.1": {"optimizer": "adamw", "decay": 0.1, "schedule": "cosine"},
    },
    {
        "files shuffled, words not": ("no-skill overfit", {"fault": "files shuffled, words not"}),
        "held-out folders in another order": (
            "overfit no-skill inputs",
            {"fault": "held-out folders listed in another order"},
        ),
        "held-out clips in decibels": ("inputs overfit", {"fault": "held-out clips in decibels"}),
        "held-out clips at half the rate": (
            "inputs overfit",
            {"fault": "held-out clips at half the rate"},
        ),
        "clips by folder": ("order worse", {"fault": "clips by folder"}),
        "logarithm of zero": ("not-finite inputs range", {"floor": 0.0}),
        "masks of all mels": ("inputs no-skill overfit", {"augment": "masks of all mels"}),
        "softmax before cross-entropy": (
            "probabilities slow no-skill",
            {"last": "softmax", "optimizer": "sgd", "rate": 1e-2},
        ),
        "softmax over the batch": (
            "softmax-axis probabilities no-skill",
            {"last": "softmax of the batch", "optimizer": "sgd", "rate": 1e-2},
        ),
        "scores to a loss of logarithms": (
            "range worse not-finite no-skill",
            {"loss": "nll", "optimizer": "sgd", "rate": 1e-3},
        ),
        "a number for a word": (
            "broadcast no-skill collapse",
            {"loss": "square of the word's number"},
        ),
        "zeros": ("dead no-skill no-gradient collapse", {"fault": "zeros"}),
        "wide start": (
            "saturated fast no-skill slow",
            {"fault": "wide start", "optimizer": "sgd", "rate": 1e-4},
        ),
        "optimizer of a copy": ("unbound no-skill", {"fault": "optimizer of a copy"}),
        "gradients kept": (
            "kept-gradients fast worse",
            {"fault": "gradients kept", "optimizer": "momentum", "rate": 1e-2},
        ),
        "five clips a word": ("overfit", {"count": 45, "epochs": 100}),
        "copies split at random": ("leak overfit", {"fault": "copies split at random"}),
        "mostly silence": (
            "imbalance overfit no-skill",
            {"fault": "mostly silence", "epochs": 20, "count": 4000},
        ),
        "decay at each batch": (
            "schedule slow no-skill",
            {"schedule": "decay of an epoch at each batch", "rate": 3e-4},
        ),
        "decay of 10": ("no-skill dead collapse", {"decay": 10.0}),
        "rate x 1000": ("fast no-skill worse dead", {"rate": 3.0}),
        "rate / 1000": ("slow no-skill", {"rate": 2e-6}),
    },
)
