"""Names of persons and places in texts: a BiLSTM with a CRF whose likelihood is written by hand.

What surrounds a name says what it is of. Tags are O, B-PER, I-PER, B-LOC and
I-LOC, and the skill is F1 of whole names in other texts.
"""

from __future__ import annotations

import random
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, optimizer_of
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from benchmarks.detection.case import cases

COMMON, NAMES, TAGS, WIDTH = 60, 60, 5, 32
BEFORE = {1: ("1", "2", "3"), 3: ("4", "5", "6")}
"""Words that a person's or a place's name follows, such as a title or "in"."""


def texts(count: int, seed: int) -> list[tuple[list[str], list[int]]]:
    draw, made = random.Random(seed), list[tuple[list[str], list[int]]]()
    for _ in range(count):
        words, tags = list[str](), list[int]()
        while len(words) < draw.randint(5, 14):
            if draw.random() < 0.35:
                kind = draw.choice((1, 3))
                long = draw.choice((1, 1, 2, 3))
                words += [draw.choice(BEFORE[kind])]
                words += [f"N{draw.randrange(NAMES)}" for _ in range(long)]
                tags += [0, kind] + [kind + 1] * (long - 1)
            else:
                words.append(str(draw.randrange(COMMON)))
                tags.append(0)
        made.append((words, tags))
    return made


def numbers(of: list[tuple[list[str], list[int]]]) -> dict[str, int]:
    """0 is padding, and 1 a word that is not known."""
    seen = dict.fromkeys(word for words, _ in of for word in words)
    return {word: 2 + at for at, word in enumerate(seen)}


class Tagger(nn.Module):
    def __init__(self, words: int, dropout: float, forbidden: str) -> None:
        super().__init__()
        self.words = nn.Embedding(words, WIDTH, padding_idx=0)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.emit = nn.Linear(2 * WIDTH, TAGS)
        self.move = nn.Parameter(0.1 * torch.randn(TAGS, TAGS))
        with torch.no_grad():
            for inside in (2, 4) if forbidden else ():
                for other in set(range(TAGS)) - {inside - 1, inside}:
                    at = (inside, other) if forbidden == "transposed" else (other, inside)
                    self.move[at] = -10000.0

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.emit(self.dropout(self.lstm(self.dropout(self.words(x)))[0]))
        return scores

    def likelihood(self, scores: Tensor, tags: Tensor, mask: Tensor, plain: bool) -> Tensor:
        """The logarithm of that of each text (N,), where the mask (N, L) is true."""
        rows = torch.arange(len(tags))
        gold, ways = scores[rows, 0, tags[:, 0]], scores[:, 0]
        for at in range(1, tags.shape[1]):
            step = self.move[tags[:, at - 1], tags[:, at]] + scores[rows, at, tags[:, at]]
            gold = gold + step * mask[:, at]
            to = ways[:, :, None] + self.move + scores[:, at, None]
            onward = to.exp().sum(1).log() if plain else to.logsumexp(1)
            ways = torch.where(mask[:, at, None], onward, ways)
        return gold - (ways.exp().sum(1).log() if plain else ways.logsumexp(1))

    def decode(self, x: Tensor) -> list[int]:
        """The best path of one text."""
        scores, back = self(x[None])[0], list[Tensor]()
        best = scores[0]
        for step in scores[1:]:
            value, origin = (best[:, None] + self.move + step).max(0)
            best = value
            back.append(origin)
        path = [int(best.argmax())]
        for origin in reversed(back):
            path.append(int(origin[path[-1]]))
        return path[::-1]


def spans(tags: list[int]) -> set[tuple[int, int, int]]:
    """Begin, end and kind of each name."""
    found = set[tuple[int, int, int]]()
    for at, tag in enumerate(tags):
        if tag in (1, 3):
            end = at + 1
            while end < len(tags) and tags[end] == tag + 1:
                end += 1
            found.add((at, end, tag))
    return found


def train(
    seed: int, hook: Any, rate: float = 5e-3, steps: int = 300, batch: int = 16,
    optimizer: str = "adam", dropout: float = 0.1, summed: bool = False, forbidden: str = "",
    count: int = 1200, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    texts_of = [texts(size, 10 * seed + 8200 + at) for at, size in enumerate((count, 100, 200))]
    known = [numbers(texts_of[0])] * 3
    if fault == "words numbered again":
        known[1:] = [numbers(texts_of[1]), numbers(texts_of[2])]
    data = [
        [(torch.tensor([ids.get(w, 1) for w in words]), torch.tensor(tags)) for words, tags in part]
        for part, ids in zip(texts_of, known, strict=True)
    ]
    model = Tagger(2 + COMMON + NAMES + 6, dropout, forbidden)
    hook.torch(model)
    updates = optimizer_of(optimizer, model.parameters(), rate)

    def loss_of(texts: list[tuple[Tensor, Tensor]]) -> Tensor:
        ordered = sorted(texts, key=lambda text: -len(text[0]))
        x = pad_sequence([words for words, _ in ordered], batch_first=True)
        tagged = texts if fault == "tags in another order" else ordered
        tags = pad_sequence([tags for _, tags in tagged], batch_first=True)[:, : x.shape[1]]
        each = model.likelihood(model(x), tags, x != 0, fault == "as they are")
        each = each if fault == "likelihood made small" else -each
        return each.sum() if summed else each.mean()

    for step in range(steps):
        texts_now = [random.Random(seed + step * batch + k).choice(data[0]) for k in range(batch)]
        loss = loss_of(texts_now)
        updates.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        updates.step()
        if step % (steps // 5) == steps // 5 - 1:
            model.eval()
            with torch.no_grad():
                loss_of(data[1])
            model.train()
    model.eval()
    right = wrong = 0
    with torch.no_grad():
        for x, tags in data[2]:
            found, real = spans(model.decode(x)), spans(tags.tolist())
            right += 2 * len(found & real)
            wrong += len(found ^ real)
    return right / (right + wrong)


CASES = cases(
    "names in texts",
    train,
    {
        "plain": {},
        "one text a step": {"batch": 1, "steps": 600, "rate": 3e-3},
        "likelihood summed": {"summed": True},
        "moves forbidden by -10000": {"forbidden": "right"},
        "momentum": {"optimizer": "momentum", "rate": 0.1},
    },
    {
        "likelihood made small": ("worse no-skill fast", {"fault": "likelihood made small"}),
        "tags in another order": ("no-skill", {"fault": "tags in another order"}),
        "words numbered again": ("inputs overfit", {"fault": "words numbered again"}),
        "exponents as they are": ("not-finite", {"fault": "as they are", "forbidden": "right"}),
        "other moves forbidden": ("range no-skill slow", {"forbidden": "transposed"}),
    },
)
