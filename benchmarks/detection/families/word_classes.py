"""A BiLSTM gives each word of a sentence its part of speech; padding has the index -100."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, class_skill, optimizer_of, scheduler_of
from sklearn.metrics import f1_score
from torch import Tensor, nn

from benchmarks.detection.case import cases

TAGS, WORDS, IGNORED = 7, 90, -100
Sentence = tuple[list[int], list[int]]


def sentences(count: int, seed: int) -> list[Sentence]:
    """Word ids from 1, and tags. A word may have either of two tags: what is around it decides."""
    draw, grammar = np.random.default_rng(seed), np.random.default_rng(11)
    follows = grammar.dirichlet([0.25] * TAGS, TAGS) * 0.92 + 0.08 / TAGS
    often = np.array([3.0, 2.0, 1.5, 1.0, 1.0, 0.7, 0.5])
    follows = follows * often / (follows * often).sum(1, keepdims=True)
    own = grammar.permutation(WORDS)
    lexicon = [np.concatenate([own[t * 12 : t * 12 + 12], own[(t * 12 + 12) % 84 :][:7]])
               for t in range(TAGS)]  # fmt: skip
    found = []
    for _ in range(count):
        tag, words, tags = int(draw.integers(TAGS)), [], []
        for _ in range(int(draw.integers(5, 16))):
            tag = int(draw.choice(TAGS, p=follows[tag]))
            words.append(1 + int(draw.choice(lexicon[tag])))
            tags.append(tag)
        found.append((words, tags))
    return found


def padded(rows: list[Sentence], longest: int = 0) -> tuple[Tensor, Tensor]:
    length = max(longest, max(len(words) for words, _ in rows))
    x = torch.zeros(len(rows), length, dtype=torch.long)
    y = torch.full((len(rows), length), IGNORED)
    for i, (words, tags) in enumerate(rows):
        x[i, : len(words)] = torch.tensor(words)
        y[i, : len(tags)] = torch.tensor(tags)
    return x, y


def batches(rows: list[Sentence], size: int, draw: Any, order: str) -> Iterator[list[Sentence]]:
    by_length = sorted(rows, key=lambda row: len(row[0]))
    if order == "buckets":
        for start in draw.permutation(range(0, len(rows), size)):
            yield by_length[start : start + size]
        return
    chosen = range(len(rows)) if order == "as they come" else draw.permutation(len(rows))
    for start in range(0, len(rows), size):
        yield [rows[i] for i in chosen[start : start + size]]


class Tagger(nn.Module):
    def __init__(
        self, width: int, layers: int, cell: str, dropout: float, layer_norm: bool
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS + 2, 20, padding_idx=0)
        kind = nn.GRU if cell == "gru" else nn.LSTM
        self.lstm = kind(20, width, layers, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(2 * width) if layer_norm else nn.Identity()
        self.hidden2tag = nn.Linear(2 * width, TAGS)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(self.drop(self.embed(x)))
        scores: Tensor = self.hidden2tag(self.drop(self.norm(states)))
        return scores


def loss_of(scores: Tensor, y: Tensor, kind: str, weight: Tensor | None) -> Tensor:
    """Of scores (B, T, C) and tags (B, T)."""
    flat, tags = scores.reshape(-1, TAGS), y.reshape(-1)
    if kind == "masked by hand":
        mask = tags != IGNORED
        each = F.cross_entropy(flat, tags.clamp(min=0), reduction="none")
        return (each * mask).sum() / mask.sum()
    if kind == "mask inverted":
        mask = tags == IGNORED
        each = F.cross_entropy(flat, tags.clamp(min=0), reduction="none")
        return (each * mask).sum() / mask.sum().clamp(min=1)
    if kind == "sum":
        return F.cross_entropy(flat, tags, reduction="sum") / len(y)
    if kind == "sum of all":
        return F.cross_entropy(flat, tags, reduction="sum")
    if kind == "padding is a noun":
        return F.cross_entropy(flat, tags.clamp(min=0), ignore_index=0)
    if kind == "tags transposed":
        return F.cross_entropy(flat, y.T.reshape(-1))
    if kind == "view for permute":
        return F.cross_entropy(scores.reshape(len(y), TAGS, -1), y)
    if kind == "softmax first":
        return F.cross_entropy(flat.softmax(1), tags)
    if kind == "mean of the rare":  # 0 / 0 where a batch has none
        each = F.cross_entropy(flat, tags, reduction="none")
        rare = tags == TAGS - 1
        return each.sum() / (tags != IGNORED).sum() + (each * rare).sum() / rare.sum()
    smoothing = 0.1 if kind == "smoothed" else 0.0
    return F.cross_entropy(flat, tags, weight=weight, label_smoothing=smoothing)


def train(
    seed: int, hook: Any, epochs: int = 6, rate: float = 5e-3, batch: int = 16, count: int = 800,
    optimizer: str = "adam", schedule: str = "constant", decay: float = 0.0, width: int = 24,
    layers: int = 1, cell: str = "lstm", dropout: float = 0.1,
    layer_norm: bool = False, loss: str = "", weighted: bool = False, clip: float = 5.0,
    word_dropout: float = 0.0, noise: float = 0.0, order: str = "", frozen: bool = False,
    longest: int = 0, start: float = 0.0, accumulate: int = 1,
    evaluated: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    draw = np.random.default_rng(seed)
    rows, held = sentences(count, seed + 800), sentences(200, seed + 801)
    counts = np.bincount([tag for _, tags in rows for tag in tags], minlength=TAGS)
    if fault == "tags one late":
        rows = [(words, [0, *tags[:-1]]) for words, tags in rows]
    if fault == "tags of another sentence":
        others = [rows[i][1] for i in draw.permutation(count)]
        rows = [
            (words, (other * 3)[: len(words)])
            for (words, _), other in zip(rows, others, strict=True)
        ]
    if fault == "ids of another table":
        held = [([word % WORDS + 1 for word in words], tags) for words, tags in held]
    if noise:
        rows = [
            (words, [int(draw.integers(TAGS)) if draw.random() < noise else t for t in tags])
            for words, tags in rows
        ]
    weight = None
    if weighted:
        share = counts / counts.sum()
        if fault == "weight of a tag that never comes":
            share = np.floor(counts / counts.max() * 2) / 2
        with np.errstate(divide="ignore"):
            weight = torch.tensor(1 / share, dtype=torch.float32)
        if fault == "":
            weight = weight.sqrt()
    held_x, held_y = padded(held)
    model = Tagger(width, layers, cell, dropout, layer_norm)
    if frozen:
        model.embed.requires_grad_(False)
    if fault == "vectors not found":
        model.embed.weight.data.zero_()
    if start:
        for name, parameter in model.lstm.named_parameters():
            if "weight" in name:
                nn.init.normal_(parameter, std=start)
    hook.torch(model)
    chosen = [p for p in model.parameters() if p.requires_grad]
    optim = optimizer_of(optimizer, chosen, rate, decay)
    scheduler = scheduler_of(optim, schedule, epochs * (-(-count // batch)) // accumulate)
    step = 0
    for epoch in range(epochs):
        model.train()
        part = sorted(rows, key=lambda row: len(row[0]))[: count // 2]
        lessons = part if order == "short first" and epoch < 2 else rows
        for some in batches(lessons, batch, draw, order):
            x, y = padded(some, longest)
            if word_dropout:
                x = torch.where(torch.rand(x.shape) < word_dropout, WORDS + 1, x)
            if step % accumulate == 0:
                optim.zero_grad()
            (loss_of(model(x), y, loss, weight) / accumulate).backward()
            step += 1
            if step % accumulate == 0:
                if clip:
                    nn.utils.clip_grad_norm_(model.parameters(), clip)
                optim.step()
                scheduler.step()
        if evaluated:
            model.eval()
            with torch.no_grad():
                scores = model(held_x)
                loss_of(scores, held_y, loss, weight)
            real = held_y != IGNORED
            f1_score(held_y[real].numpy(), scores.argmax(2)[real].numpy(), average="macro")
    model.eval()
    with torch.no_grad():
        real = held_y != IGNORED
        return class_skill(model(held_x)[real], held_y[real])


CASES = cases(
    "word classes",
    train,
    {
        "plain": {},
        "GRU": {"cell": "gru"},
        "two layers": {"layers": 2, "epochs": 5},
        "batch of 4": {"batch": 4, "rate": 2e-3, "epochs": 4},
        "batch of 512": {"batch": 512, "rate": 0.02, "epochs": 60, "count": 1024},
        "momentum and cosine": {"optimizer": "momentum", "rate": 0.3, "schedule": "cosine",
                                "epochs": 8},
        "one cycle, AdamW": {"optimizer": "adamw", "rate": 0.02, "schedule": "one cycle",
                             "decay": 0.01},
        "masked by hand": {"loss": "masked by hand"},
        "sum over a sentence": {"loss": "sum"},
        "smoothed labels": {"loss": "smoothed"},
        "weights of tags": {"weighted": True},
        "word dropout": {"word_dropout": 0.05, "epochs": 8},
        "labels with noise": {"noise": 0.05},
        "buckets of lengths": {"order": "buckets"},
        "short sentences first": {"order": "short first", "epochs": 8},
        "frozen vectors": {"frozen": True, "rate": 8e-3, "epochs": 8},
        "much padding, not evaluated": {"longest": 40, "evaluated": False},
        "layer norm": {"layer_norm": True},
        "accumulation": {"batch": 4, "accumulate": 4},
    },
    {
        "mask inverted": ("ignored no-skill", {"loss": "mask inverted", "longest": 30}),
        "padding is a noun": ("ignored imbalance", {"loss": "padding is a noun"}),
        "tags transposed": ("no-skill collapse", {"loss": "tags transposed", "longest": 16}),
        "view for permute": ("no-skill collapse", {"loss": "view for permute"}),
        "softmax first": (
            "probabilities slow", {"loss": "softmax first", "rate": 2e-4},
        ),
        "tags one late": ("no-skill overfit inputs", {"fault": "tags one late"}),
        "tags of another sentence": ("no-skill", {"fault": "tags of another sentence"}),
        "ids of another table": ("inputs overfit", {"fault": "ids of another table"}),
        "vectors not found": (
            "inputs no-skill dead collapse", {"fault": "vectors not found", "frozen": True},
        ),
        "weight of a tag that never comes": (
            "not-finite", {"fault": "weight of a tag that never comes", "weighted": True},
        ),
        "mean of what is not there": (
            "not-finite", {"loss": "mean of the rare", "batch": 4, "epochs": 3},
        ),
        "sum of all with SGD": (
            "fast no-skill dead saturated",
            {"loss": "sum of all", "optimizer": "momentum", "rate": 0.5, "clip": 0.0},
        ),
        "wide start": (
            "saturated slow", {"start": 30.0, "optimizer": "sgd", "rate": 0.05},
        ),
        "SGD of a small rate": ("slow", {"optimizer": "sgd", "rate": 2e-3}),
        "ten sentences": ("overfit", {"count": 10, "epochs": 250, "dropout": 0.0}),
        "decay of 0.1": ("collapse no-skill", {"decay": 0.1}),
    },
)  # fmt: skip
