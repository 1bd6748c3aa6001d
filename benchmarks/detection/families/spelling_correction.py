"""Spelling corrected, letter by letter: a recurrent encoder and a decoder, in a loop of its own.

Words of two or three syllables are typed with letters doubled, dropped, swapped, or hit beside the
right key. The decoder gets the right letters in training, and its own in the test. The skill is the
share of words that are written right, above that of the words as they were typed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn

from benchmarks.detection.case import cases

KEYS = "qwertyuiopasdfghjklzxcvbnm"
LETTERS = {letter: 3 + place for place, letter in enumerate(sorted(KEYS))}
START, END, SYMBOLS, LONGEST = 1, 2, 29, 7


def lexicon(count: int = 120) -> list[str]:
    draw = random.Random(5)
    syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
    made = {"".join(draw.choices(syllables, k=draw.choice((2, 3, 3)))) for _ in range(count)}
    return sorted(made)


def typed(word: str, draw: random.Random) -> str:
    """The word with a slip: one letter, or two in three of the cases."""
    for _ in range(draw.choice((1, 1, 2))):
        at = draw.randrange(len(word) - 1)
        before, hit, after = word[:at], word[at], word[at + 1 :]
        beside = KEYS[(KEYS.index(hit) + 1) % 26]
        swapped = before + after[0] + hit + after[1:]
        slips = (swapped, before + after, before + hit + hit + after, before + beside + after)
        word = draw.choice(slips)
    return word


def encoded(words: list[str]) -> Tensor:
    """(N, LONGEST + 1) with an end and zeros behind."""
    rows = [[LETTERS[letter] for letter in word[:LONGEST]] + [END] for word in words]
    return torch.tensor([row + [0] * (LONGEST + 1 - len(row)) for row in rows])


def batches(words: list[str], size: int, draw: random.Random) -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        chosen = draw.choices(words, k=size)
        yield encoded([typed(word, draw) for word in chosen]), encoded(chosen)


class Corrector(nn.Module):
    def __init__(self, width: int = 48, passed: bool = True) -> None:
        super().__init__()
        self.letters = nn.Embedding(SYMBOLS, 24, padding_idx=0)
        self.encoder = nn.GRU(24, width, batch_first=True)
        self.decoder = nn.GRU(24, width, batch_first=True)
        self.out = nn.Linear(width, SYMBOLS)
        self.passed = passed

    def encode(self, wrong: Tensor) -> Any:
        state = self.encoder(self.letters(wrong.flip(1)))[1]
        return state if self.passed else None

    def forward(self, wrong: Tensor, before: Tensor) -> Tensor:
        out: Tensor = self.out(self.decoder(self.letters(before), self.encode(wrong))[0])
        return out

    def write(self, wrong: Tensor) -> Tensor:
        state, last, letters = self.encode(wrong), torch.full((len(wrong), 1), START), []
        for _ in range(LONGEST + 1):
            h, state = self.decoder(self.letters(last), state)
            last = self.out(h).argmax(-1)
            letters.append(last)
        written = torch.cat(letters, 1)
        ended = (written == END).cumsum(1)
        return written.masked_fill((ended > 0) & ~((ended == 1) & (written == END)), 0)


def train(
    seed: int, hook: Any, rate: float = 4e-3, steps: int = 2000, batch: int = 16,
    smoothing: float = 0.0, own_letters: float = 0.0, padding_counts: bool = False,
    summed: bool = False, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    draw, words = random.Random(seed), lexicon()
    source = batches(words[:8] if fault == "eight words" else words, batch, draw)
    held = next(batches(words, 100, random.Random(seed + 50)))
    model = Corrector(passed=fault != "state not passed on")
    hook.torch(model)
    optimizer = torch.optim.Adam(model.parameters(), rate)

    def error(wrong: Tensor, right: Tensor) -> Tensor:
        start = torch.full((len(right), 1), START)
        before = torch.cat([start, right[:, :-1]], 1)
        if fault == "letters not shifted":
            before = right
        if own_letters and model.training:
            with torch.no_grad():
                own = torch.cat([start, model(wrong, before).argmax(-1)[:, :-1]], 1)
            before = torch.where(torch.rand(own.shape) < own_letters, own, before)
        scores = model(wrong, before)
        if fault == "time and batch mixed":
            scores = scores.transpose(0, 1)
        if fault == "softmax in the model":
            scores = scores.softmax(-1)
        return F.cross_entropy(
            scores.reshape(-1, SYMBOLS), right.reshape(-1), label_smoothing=smoothing,
            ignore_index=-100 if padding_counts else 0, reduction="sum" if summed else "mean",
        )  # fmt: skip

    for step, (wrong, right) in zip(range(steps), source, strict=False):
        loss = error(wrong, right)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 200 == 199:
            model.eval()
            with torch.no_grad():
                error(*held)
            model.train()
    wrong, right = next(batches(words, 1000, random.Random(seed + 60)))
    model.eval()
    with torch.no_grad():
        found = (model.write(wrong) == right).all(1).float().mean()
    plain = (wrong == right).all(1).float().mean()
    return float((found - plain) / (1 - plain))


CASES = cases(
    "spelling correction",
    train,
    {
        "plain": {},
        "its own letters now and then": {"own_letters": 0.15},
        "loss summed": {"summed": True},
        "padding counts": {"padding_counts": True},
        "label smoothing": {"smoothing": 0.2},
        "batch of eight": {"batch": 8, "steps": 3000, "rate": 3e-3},
    },
    {
        "letters not shifted": ("leak", {"fault": "letters not shifted"}),
        "time and batch mixed": ("no-skill", {"fault": "time and batch mixed"}),
        "state not passed on": (
            "inputs no-skill unbound no-gradient", {"fault": "state not passed on"},
        ),
        "softmax in the model": ("probabilities", {"fault": "softmax in the model"}),
        "eight words": ("overfit", {"fault": "eight words"}),
    },
)  # fmt: skip
