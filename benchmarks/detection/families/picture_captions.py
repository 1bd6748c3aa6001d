"""A convolutional encoder and a recurrent decoder put pictures into words, by teacher forcing."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, factor, optimizer_of
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

from benchmarks.detection.case import cases

SIDE, LONGEST = 16, 12
PAD, START, END, UNKNOWN = range(4)
COLOURS = {"red": (220, 40, 40), "green": (40, 200, 60), "blue": (50, 60, 220), "white": (230,) * 3}
SHAPES = ("square", "cross", "frame")


@dataclass(frozen=True)
class Options:
    rate: float = 3e-3
    epochs: int = 8
    batch: int = 32
    count: int = 3000
    optimizer: str = "adam"
    schedule: str = "constant"
    decay: float = 0.0
    dropout: float = 0.0
    smoothing: float = 0.0
    reduction: str = "mean"
    scale: float = 1.0
    accumulate: int = 1
    clip: float = 0.0
    noise: float = 0.0
    averaged: bool = False
    half: bool = False
    frozen_epochs: int = 0
    short_first: int = 0
    jitter: bool = False
    fault: str = ""


def stamp(picture: Tensor, shape: str, colour: str, top: int, left: int, size: int) -> None:
    part = picture[:, top : top + size, left : left + size]
    paint = torch.tensor(COLOURS[colour], dtype=picture.dtype).view(3, 1, 1)
    marks = torch.ones(size, size, dtype=torch.bool)
    if shape == "frame":
        marks[2:-2, 2:-2] = False
    if shape == "cross":
        row = torch.arange(size)
        near = (row - (size - 1) / 2).abs() <= 1
        marks = near[:, None] | near[None]
    part.copy_(torch.where(marks, paint, part))


def album(count: int, seed: int) -> tuple[Tensor, list[list[str]]]:
    """Pictures as bytes (N, 3, SIDE, SIDE), and a caption of each: of one thing, or of two."""
    draw = torch.Generator().manual_seed(seed)

    def pick(high: int, low: int = 0) -> int:
        return int(torch.randint(low, high, (1,), generator=draw))

    pictures = torch.randint(0, 90, (count, 3, SIDE, SIDE), generator=draw).float()
    captions = []
    for picture in pictures:
        two = pick(10) < 6
        words: list[str] = []
        for place in range(1 + two):
            shape, colour = SHAPES[pick(3)], list(COLOURS)[pick(4)]
            size = (5, 8)[pick(2)]
            left = 8 * place + pick(9 - size) if two else pick(SIDE - size + 1)
            stamp(picture, shape, colour, pick(SIDE - size + 1), left, size)
            words += ["left", "of"] if place else []
            words += ["a", "large" if size == 8 else "small", colour, shape]
        captions.append(words)
    return (pictures + 12 * torch.randn(pictures.shape, generator=draw)).clamp(0, 255), captions


class Captions(Dataset[tuple[Tensor, Tensor]]):
    def __init__(
        self, pictures: Tensor, captions: list[list[str]], vocabulary: dict[str, int], fault: str,
        jitter: bool = False,
    ) -> None:  # fmt: skip
        self.pictures, self.captions, self.vocabulary = pictures, captions, vocabulary
        self.fault, self.jitter = fault, jitter

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        picture = self.pictures[row] if self.fault == "raw" else self.pictures[row] / 255
        if self.fault == "logarithm":
            picture = picture.log()
        elif self.fault != "raw":
            picture = (picture - 0.25) / 0.25
        if self.jitter:
            picture = picture * torch.empty(3, 1, 1).uniform_(0.9, 1.1)
        if self.fault == "channels last":
            picture = picture.permute(1, 2, 0).reshape(3, SIDE, SIDE)
        words = [self.vocabulary.get(word, UNKNOWN) for word in self.captions[row]]
        return picture, torch.tensor([START, *words, END])


def collate(rows: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    pictures, captions = zip(*rows, strict=True)
    return torch.stack(pictures), pad_sequence(list(captions), True, PAD)


class Captioner(nn.Module):
    def __init__(self, words: int, dropout: float, batch_first: bool = True) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 16, 4, 2, 1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 4, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Flatten(), nn.Linear(32 * 16, 64), nn.BatchNorm1d(64),
        )  # fmt: skip
        self.embed = nn.Embedding(words, 64, padding_idx=PAD)
        self.rnn = nn.LSTM(64, 96, batch_first=batch_first)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(96, words)

    def forward(self, pictures: Tensor, words: Tensor) -> Tensor:
        """Scores (N, T, V) of the word after each of ``words`` (N, T)."""
        seen = self.encoder(pictures).unsqueeze(1)
        states, _ = self.rnn(torch.cat([seen, self.embed(words)], 1))
        scores: Tensor = self.head(self.dropout(states[:, 1:]))
        return scores

    @torch.no_grad()
    def generate(self, pictures: Tensor) -> Tensor:
        words = torch.full((len(pictures), 1), START)
        for _ in range(LONGEST):
            words = torch.cat([words, self(pictures, words)[:, -1].argmax(-1, keepdim=True)], 1)
        return words[:, 1:]


def score(model: Captioner, loader: DataLoader[Any], truth: list[list[int]]) -> float:
    """Share of words that are right at their place, above the most usual ones of each place."""
    found = torch.cat([model.generate(pictures) for pictures, _ in loader]).tolist()
    usual = [
        Counter(line[at] if at < len(line) else END for line in truth).most_common(1)[0][0]
        for at in range(LONGEST)
    ]

    def right(lines: list[list[int]]) -> float:
        shares = []
        for line, wanted in zip(lines, truth, strict=True):
            said = line[: line.index(END) + 1] if END in line else line
            same = sum(a == b for a, b in zip(said, wanted, strict=False))
            shares.append(same / max(len(said), len(wanted)))
        return sum(shares) / len(shares)

    blind = right([usual] * len(truth))
    return (right(found) - blind) / (1 - blind)


def loss_of(scores: Tensor, words: Tensor, criterion: nn.Module, how: Options) -> Tensor:
    targets = words[:, :-1] if how.fault == "unshifted" else words[:, 1:]
    if how.fault == "softmax":
        scores = scores.softmax(-1)
    if how.fault == "softmax over time":
        scores = scores.log_softmax(1)
        picked = scores.gather(2, targets[..., None])[..., 0]
        return -picked[targets != PAD].mean()
    loss: Tensor = criterion(scores.flatten(0, 1), targets.flatten())
    return loss * how.scale / (len(words) if how.reduction == "sum" else 1)


def word_numbers(captions: list[list[str]], fault: str) -> dict[str, int]:
    counted = Counter(word for line in captions for word in line)
    least = 2000 if fault == "rare words unknown" else 4
    known = sorted(word for word, count in counted.items() if count >= least)
    return {word: number for number, word in enumerate(known, start=UNKNOWN + 1)}


def spoil(pictures: Tensor, captions: list[list[str]], how: Options) -> list[list[str]]:
    if how.fault == "shifted by one file":
        return captions[1:] + captions[:1]
    if how.noise:
        other = torch.randint(len(captions), (len(captions),)).tolist()
        wrong = (torch.rand(len(captions)) < how.noise).tolist()
        return [captions[other[i]] if wrong[i] else captions[i] for i in range(len(captions))]
    if how.fault == "by length":
        order = sorted(range(len(captions)), key=lambda i: (len(captions[i]), captions[i]))
        pictures.copy_(pictures[order])
        return [captions[i] for i in order]
    return captions


def train(seed: int, hook: Any, **options: Any) -> float:
    how = Options(**options)
    begin(seed)
    pictures, captions = album(how.count, seed + 900)
    held_pictures, held_captions = album(200, seed + 950)
    captions = spoil(pictures, captions, how)
    vocabulary = word_numbers(captions, how.fault)
    set_ = Captions(pictures, captions, vocabulary, how.fault, how.jitter)
    early = [row for row, line in enumerate(captions) if len(line) == 4]
    shuffle = how.fault != "by length"
    loader = DataLoader(set_, how.batch, shuffle=shuffle, collate_fn=collate)
    easy = DataLoader(
        torch.utils.data.Subset(set_, early), how.batch, shuffle=True, collate_fn=collate
    )
    fault = {"logarithm": "logarithm", "evaluation raw": "raw"}.get(how.fault, "")
    held = Captions(held_pictures, held_captions, vocabulary, fault)
    held_loader = DataLoader(held, 100, collate_fn=collate)

    model = Captioner(len(vocabulary) + UNKNOWN + 1, how.dropout, how.fault != "time first")
    if how.fault == "wide start":
        for weight in model.parameters():
            nn.init.normal_(weight, std=1.0)
    learnt = list(model.parameters())
    if how.fault == "decoder alone":
        learnt = [p for name, p in model.named_parameters() if "rnn" in name or "embed" in name]
    optimizer = optimizer_of(how.optimizer, learnt, how.rate, how.decay)
    steps = max(1, how.epochs * len(loader) // how.accumulate)
    scheduler: Any = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: factor(how.schedule, step, steps)
    )
    if how.fault == "decay at each batch":
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.85)
    criterion = nn.CrossEntropyLoss(
        ignore_index=PAD, label_smoothing=how.smoothing, reduction=how.reduction
    )
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.98), use_buffers=True
    )
    hook.torch(model)

    for epoch in range(how.epochs):
        model.train()
        model.encoder.requires_grad_(epoch >= how.frozen_epochs)
        for number, (images, words) in enumerate(easy if epoch < how.short_first else loader, 1):
            with torch.autocast("cpu", torch.bfloat16, enabled=how.half):
                scores = model(images, words[:, :-1])
            loss = loss_of(scores.float(), words, criterion, how)
            (loss / how.accumulate).backward()
            if how.clip:
                nn.utils.clip_grad_norm_(model.parameters(), how.clip)
            if number % how.accumulate == 0:
                optimizer.step()
                scheduler.step()
                average.update_parameters(model)
                if how.fault != "gradients kept":
                    optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            for images, words in held_loader:
                loss_of(model(images, words[:, :-1]), words, criterion, Options())
    chosen = average.module if how.averaged else model
    chosen.eval()
    if not all(bool(torch.isfinite(p).all()) for p in model.parameters()):
        return math.nan
    truth = [[vocabulary.get(w, -1) for w in line] + [END] for line in held_captions]
    return score(chosen, held_loader, truth)


CASES = cases(
    "picture captions",
    train,
    {
        "plain": {},
        "batch of sixteen, cosine": {"batch": 16, "rate": 2e-3, "schedule": "cosine"},
        "batch of 256": {"batch": 256, "rate": 8e-3, "epochs": 24},
        "momentum": {"optimizer": "momentum", "rate": 0.1, "clip": 5.0, "epochs": 10},
        "warm-up, clipped": {"schedule": "warmup", "clip": 0.25},
        "label smoothing": {"smoothing": 0.1},
        "loss summed over words": {"reduction": "sum"},
        "loss x 10000": {"scale": 1e4},
        "accumulation": {"batch": 16, "accumulate": 2, "epochs": 10},
        "some captions wrong": {"noise": 0.05, "epochs": 10},
        "half of the states dropped": {"dropout": 0.5, "epochs": 11},
        "averaged weights": {"averaged": True, "rate": 4e-3},
        "bfloat16": {"half": True},
        "encoder frozen at first": {"frozen_epochs": 2, "epochs": 10},
        "short captions first": {"short_first": 2, "epochs": 11},
        "colour jitter, restarts": {"jitter": True, "schedule": "restarts", "epochs": 10},
    },
    {
        "captions of the next file": ("no-skill overfit", {"fault": "shifted by one file"}),
        "input words as targets": ("leak no-skill", {"fault": "unshifted"}),
        "bytes in evaluation": ("inputs worse", {"fault": "evaluation raw"}),
        "reshaped, not permuted": ("inputs worse", {"fault": "channels last"}),
        "logarithm of black": ("not-finite", {"fault": "logarithm"}),
        "batch taken for time": ("no-skill leak", {"fault": "time first"}),
        "softmax before the loss": ("probabilities", {"fault": "softmax", "rate": 3e-4}),
        "softmax over time": ("softmax-axis", {"fault": "softmax over time"}),
        "most words unknown": ("imbalance collapse", {"fault": "rare words unknown"}),
        "rate of 0.3": ("fast no-skill dead", {"rate": 0.3}),
        "rate of 3e-6": ("slow no-skill", {"rate": 3e-6}),
        "sorted, not shuffled": ("order", {"fault": "by length"}),
        "40 pictures": ("overfit", {"count": 40, "epochs": 250}),
        "decay at each batch": ("schedule slow no-skill", {"fault": "decay at each batch"}),
        "encoder, head not in the optimizer": ("unbound slow", {"fault": "decoder alone"}),
        "standard normal start": ("saturated fast", {"fault": "wide start"}),
        "gradients kept": ("kept-gradients fast", {"fault": "gradients kept"}),
        "decay of 1": ("slow no-skill collapse", {"decay": 1.0}),
    },
)
