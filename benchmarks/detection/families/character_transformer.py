"""A decoder-only transformer over characters: output tied to the embedding, cross-entropy by hand.

The text is of a small made-up language: articles, nouns and verbs that agree, places, full stops.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

CONTEXT, WIDTH, HEADS = 32, 32, 2
NOUNS = ["cat", "dog", "bird", "horse", "farmer"]
VERBS = ["see", "like", "follow"]
PLACES = ("in the garden", "at night", "")
LETTERS = sorted({*"abcdefghijklmnopqrstuvwxyz ."})


def text(count: int, seed: int, typos: float = 0.0) -> Tensor:
    draw = np.random.default_rng(seed)
    parts: list[str] = []
    while sum(map(len, parts)) < count:
        many = bool(draw.integers(2))
        subject, other = (str(draw.choice(NOUNS)) for _ in range(2))
        verb = str(draw.choice(VERBS)) + ("" if many else "s")
        article = "the" if many else "a"
        words = [article, subject + "s" * many, verb, "the", other, str(draw.choice(PLACES))]
        parts.append(" ".join(word for word in words if word) + ". ")
    codes = np.array([LETTERS.index(letter) for letter in "".join(parts)[:count]])
    wrong = draw.random(count) < typos
    return torch.from_numpy(np.where(wrong, draw.integers(len(LETTERS), size=count), codes))


class Block(nn.Module):
    def __init__(self, dropout: float, causal: bool) -> None:
        super().__init__()
        self.norm, self.other_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH), nn.Dropout(dropout)
        )
        self.causal = causal

    def forward(self, x: Tensor) -> Tensor:
        rows, length, _ = x.shape
        parts = self.qkv(self.norm(x)).view(rows, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(*parts, is_causal=self.causal)
        x = x + self.out(seen.transpose(1, 2).reshape(rows, length, WIDTH))
        return x + self.feed(self.other_norm(x))


class Writer(nn.Module):
    def __init__(self, dropout: float = 0.0, causal: bool = True) -> None:
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS), WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(Block(dropout, causal), Block(dropout, causal))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, len(LETTERS), bias=False)
        nn.init.normal_(self.letters.weight, std=0.05)
        self.head.weight = self.letters.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.letters(ids) + self.places.weight[: ids.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def negative_log_likelihood(scores: Tensor, ids: Tensor, ahead: int = 1) -> Tensor:
    """(rows, length - ahead): of each character, from what comes before it."""
    chances = scores[:, : ids.shape[1] - ahead].log_softmax(-1)
    return -chances.gather(2, ids[:, ahead:, None]).squeeze(2)


def skill(model: nn.Module, held: Tensor) -> float:
    """The share of a character's surprise that the text before it takes away."""
    model.eval()
    rows = torch.arange(0, len(held) - CONTEXT, 7)
    windows = held[rows[:, None] + torch.arange(CONTEXT - 1)]
    with torch.no_grad():
        last = model(windows)[:, -1].log_softmax(1)
    following = held[rows + CONTEXT - 1]
    surprise = -last.gather(1, following[:, None]).mean().item()
    share = torch.bincount(held, minlength=len(LETTERS)) / len(held)
    return float(1 + surprise / (share * (share + 1e-12).log()).sum().item())


def train(
    seed: int, hook: Any, steps: int = 600, rate: float = 6e-3, batch: int = 16,
    schedule: str = "constant", optimizer: str = "adamw", accumulate: int = 1, clip: float = 0.0,
    dropout: float = 0.0, typos: float = 0.0, smoothing: float = 0.0, summed: bool = False,
    average: float = 0.0, decay: float = 0.01, lessons: bool = False,
    places_frozen: bool = False, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    ids, held = text(30_000, seed + 300, typos), text(4_000, seed + 301)
    if fault == "one page":
        ids = ids[: 3 * CONTEXT]
    if fault == "letters in any order":
        ids = ids[torch.randperm(len(ids))]
    model = Writer(dropout, causal=fault != "sees ahead")
    model.places.requires_grad_(not places_frozen)
    stepper = optimizer_of(optimizer, model.parameters(), rate, decay)
    scheduler = scheduler_of(stepper, schedule, steps)
    if fault == "loaded too late":
        model = copy.deepcopy(model)
    smooth = copy.deepcopy(model)
    hook.torch(model)
    for step in range(steps):
        length = 8 + (CONTEXT - 8) * min(1, 2 * step // steps) if lessons else CONTEXT
        for _ in range(accumulate):
            at = torch.randint(len(ids) - length, (batch,))
            page = ids[at[:, None] + torch.arange(length)]
            scores = model(page)
            ahead = {"no shift": 0, "shifted twice": 2}.get(fault, 1)
            if fault == "letters of another page":
                page = page[torch.randperm(batch)]
            nll = negative_log_likelihood(scores, page, ahead)
            if smoothing:
                even = -scores[:, :-1].log_softmax(-1).mean(-1)
                nll = (1 - smoothing) * nll + smoothing * even
            loss = nll.sum() if summed else nll.mean()
            (loss / accumulate).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        stepper.step()
        scheduler.step()
        if fault != "gradients kept":
            stepper.zero_grad(set_to_none=True)
        if average:
            with torch.no_grad():
                for slow, now in zip(smooth.parameters(), model.parameters(), strict=True):
                    slow.lerp_(now, 1 - min(average, (1 + step) / (10 + step)))
    found = skill(smooth if average else model, held)
    return found if math.isfinite(found) else math.nan


CASES = cases(
    "character transformer",
    train,
    {
        "plain": {},
        "warm-up, clipped always": {"schedule": "warmup", "rate": 1e-2, "clip": 0.1},
        "loss summed": {"summed": True},
        "four rows, four times": {"batch": 4, "accumulate": 4},
        "label smoothing": {"smoothing": 0.03},
        "typos": {"typos": 0.03, "steps": 900},
        "averaged weights": {"average": 0.98},
        "short lines first": {"lessons": True, "steps": 900},
        "warm restarts": {"schedule": "restarts", "rate": 8e-3, "steps": 900},
        "dropout, places frozen": {"dropout": 0.1, "places_frozen": True, "steps": 800},
    },
    {
        "no shift": ("leak", {"fault": "no shift"}),
        "shifted twice": ("leak no-skill", {"fault": "shifted twice"}),
        "sees ahead": ("leak", {"fault": "sees ahead"}),
        "letters of another page": ("no-skill", {"fault": "letters of another page"}),
        "optimizer of what was before": ("unbound slow", {"fault": "loaded too late"}),
        "gradients kept": (
            "kept-gradients worse fast no-skill",
            {"fault": "gradients kept", "optimizer": "sgd", "rate": 0.3},
        ),
        "letters in any order": ("no-skill overfit", {"fault": "letters in any order"}),
        "one page": ("overfit", {"fault": "one page"}),
        "decay forgets": ("no-skill collapse worse", {"decay": 30.0}),
        "rate x 100": ("fast no-skill worse", {"rate": 0.6}),
        "rate / 1000": ("slow no-skill", {"rate": 6e-6}),
    },
)
