"""A bidirectional GRU tags each word of sentences of unequal length; padding is not counted."""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.detection.families.kit import (
    begin,
    class_skill,
    optimizer_of,
    scheduler_of,
    with_noise,
)
from torch import Tensor, nn

from benchmarks.detection.case import cases

WORDS, TAGS, LENGTH, PAD = 40, 5, 8, -100


def sentences(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """The tag of a word depends on the word before it and the one after."""
    draw = torch.Generator().manual_seed(seed)
    meaning = torch.randint(TAGS, (WORDS,), generator=torch.Generator().manual_seed(2))
    words = torch.randint(1, WORDS, (count, LENGTH), generator=draw)
    before, after = torch.roll(words, 1, 1), torch.roll(words, -1, 1)
    tags = (meaning[words] + (before % 2) * 2 + (after % 3 == 0)) % TAGS
    length = torch.randint(4, LENGTH + 1, (count, 1), generator=draw)
    outside = torch.arange(LENGTH) >= length
    return words.masked_fill(outside, 0), tags.masked_fill(outside, PAD)


class Tagger(nn.Module):
    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 16, padding_idx=0)
        self.body = nn.GRU(16, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, TAGS)

    def forward(self, words: Tensor) -> Tensor:
        scores: Tensor = self.head(self.body(self.words(words))[0])
        return scores


def train(
    seed: int,
    hook: Any,
    rate: float = 5e-3,
    steps: int = 600,
    batch: int = 32,
    schedule: str = "constant",
    noise: float = 0.0,
    fault: str = "",
    only: str = "",
    smoothing: float = 0.0,
    curriculum: bool = False,
    frozen: bool = False,
    memorise: int | None = None,
    clip: float = 1.0,
) -> float:
    begin(seed)
    (words, tags), (held, held_tags) = sentences(memorise or 5000, seed + 60), sentences(400, 61)
    if noise:
        mixed = with_noise(tags.clamp(min=0).flatten(), noise, seed).view_as(tags)
        tags = torch.where(tags == PAD, tags, mixed)
    if curriculum:  # the short sentences first, the long ones from the first third on
        order = (tags != PAD).sum(1).argsort()
        words, tags = words[order], tags[order]
    if fault == "ignored":
        tags = torch.full_like(tags, PAD)
    model = Tagger()
    model.words.weight.requires_grad_(not frozen)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=smoothing)
    chosen = [p for n, p in model.named_parameters() if only in n and p.requires_grad]
    optimizer = optimizer_of("adam", chosen, rate)
    scheduler = scheduler_of(optimizer, schedule, steps)
    hook.torch(model)
    for step in range(steps):
        seen = len(words) if not curriculum else int(len(words) * min(1.0, 0.3 + 2 * step / steps))
        rows = torch.randint(seen, (min(batch, seen),))
        wanted = tags[rows]
        if fault == "rows swapped":
            wanted = wanted[torch.randperm(len(wanted))]
        if fault == "shifted":
            wanted = torch.roll(wanted, 3, 1)
        scores = model(words[rows])
        if fault == "softmax":
            scores = scores.softmax(-1)
        if fault == "axis":
            scores = scores.softmax(0)
        loss = criterion(scores.transpose(1, 2), wanted)
        optimizer.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        scheduler.step()
        if step % 100 == 99:
            model.eval()
            with torch.no_grad():
                for start in range(0, 400, 100):
                    part = slice(start, start + 100)
                    criterion(model(held[part]).transpose(1, 2), held_tags[part])
            model.train()
    model.eval()
    with torch.no_grad():
        inside = held_tags != PAD
        return class_skill(model(held)[inside], held_tags[inside])


CASES = cases(
    "sequence tagging",
    train,
    {
        "plain": {},
        "short sentences first": {"curriculum": True},
        "label smoothing": {"smoothing": 0.1},
        "labels with noise": {"noise": 0.1},
        "cosine restarts": {"schedule": "restarts", "rate": 1e-2},
        "batch of four": {"batch": 4, "steps": 1500, "rate": 3e-3},
        "embeddings frozen": {"frozen": True, "steps": 1000},
    },
    {
        "sentences paired wrongly": ("no-skill", {"fault": "rows swapped"}),
        "tags of other words": ("no-skill", {"fault": "shifted", "steps": 600}),
        "softmax before the loss": ("probabilities", {"fault": "softmax", "rate": 3e-4}),
        "softmax over the batch": ("softmax-axis probabilities", {"fault": "axis"}),
        "every tag ignored": ("ignored no-gradient not-finite", {"fault": "ignored"}),
        "rate x 1000": ("fast no-skill", {"rate": 5.0, "clip": 0.0}),
        "rate / 1000": ("slow no-skill", {"rate": 5e-6}),
        "body in no optimizer": ("unbound", {"only": "words"}),
        "memorises 40": ("overfit", {"memorise": 40, "steps": 1200}),
    },
    seeds=(1, 1),
)
