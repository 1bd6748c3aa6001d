"""Commas, stops and question marks of a dictated text, by a small transformer encoder of its own.

Each word is labelled with the mark that follows it; the texts of a batch are padded. The skill is
the mean recall of the four labels, above chance, in other texts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch
from benchmarks.detection.families.kit import balanced_skill, begin, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases


def listed(words: str) -> list[str]:
    return words.split()


NAMES = listed("anna ben clara daniel emma felix grace henry")
VERBS = listed("sees likes finds paints sells buys follows carries hides brings")
THINGS = listed("dogs lamps books apples boats clocks chairs stones birds maps cups keys")
KINDS = listed("small old red new heavy broken")
ADVERBS = listed("today often again slowly outside")
LINKS, JOINS = listed("however meanwhile then later"), listed("but so yet")
ASKS, HELPS = listed("where when why how"), listed("does will can")
WORDS = [*NAMES, *VERBS, *THINGS, *KINDS, *ADVERBS, *LINKS, *JOINS, *ASKS, *HELPS, "and"]
MARKS, PADDING, UNKNOWN, IGNORED, LONGEST = ",.?", 0, 1, -100, 36
Text = list[tuple[str, int]]


def sentence(draw: random.Random) -> str:
    def someone() -> str:
        return draw.choice([draw.choice(NAMES), something()])

    def something() -> str:
        kind = draw.choice(KINDS) + " " if draw.random() < 0.4 else ""
        return kind + draw.choice(THINGS)

    adverb = " " + draw.choice(ADVERBS) if draw.random() < 0.4 else ""
    if draw.random() < 0.35:
        ask = draw.choice(ASKS) + " " if draw.random() < 0.6 else ""
        start = f"{ask}{draw.choice(HELPS)} {someone()} {draw.choice(VERBS)}"
        return f"{start} {something()}{adverb} ?"
    start = f"{draw.choice(LINKS)} , " if draw.random() < 0.3 else ""
    start += f"{someone()} {draw.choice(VERBS)} {something()}"
    if draw.random() < 0.3:
        return f"{start} , {something()} and {something()}{adverb} ."
    if draw.random() < 0.3:
        return f"{start} , {draw.choice(JOINS)} {someone()} {draw.choice(VERBS)} {something()} ."
    return f"{start}{adverb} ."


def dictated(count: int, seed: int) -> list[Text]:
    """Texts as words, each with the number of the mark that follows it, or 0."""
    draw, texts = random.Random(seed), []
    for _ in range(count):
        text: Text = []
        for token in " ".join(sentence(draw) for _ in range(draw.randint(1, 3))).split():
            if token in MARKS:
                text[-1] = (text[-1][0], 1 + MARKS.index(token))
            else:
                text.append((token, 0))
        texts.append(text[:LONGEST])
    return texts


def vocabulary(texts: list[Text]) -> dict[str, int]:
    """Numbers of words, in the order in which they come."""
    known = dict.fromkeys(word for text in texts for word, _ in text)
    return {word: number for number, word in enumerate(known, 2)}


def collate(texts: list[Text], numbers: dict[str, int]) -> tuple[Tensor, Tensor]:
    longest = max(map(len, texts))
    words = torch.full((len(texts), longest), PADDING)
    labels = torch.full((len(texts), longest), IGNORED)
    for row, text in enumerate(texts):
        words[row, : len(text)] = torch.tensor([numbers.get(w, UNKNOWN) for w, _ in text])
        labels[row, : len(text)] = torch.tensor([label for _, label in text])
    return words, labels


class Marker(nn.Module):
    def __init__(self, width: int, dropout: float, norm_first: bool, upside_down: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(len(WORDS) + 2, width, padding_idx=PADDING)
        self.places = nn.Embedding(LONGEST, width)
        self.near = nn.Conv1d(width, width, 3, padding=1)
        layer = nn.TransformerEncoderLayer(
            width, 4, 2 * width, dropout, batch_first=True, norm_first=norm_first
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, len(MARKS) + 1)
        self.upside_down = upside_down

    def forward(self, words: Tensor) -> Tensor:
        mask = words != PADDING if self.upside_down else words == PADDING
        x = self.words(words) + self.places(torch.arange(words.shape[1]))
        x = x + self.near(x.transpose(1, 2)).transpose(1, 2).relu()
        out: Tensor = self.head(self.encoder(x, src_key_padding_mask=mask))
        return out


def parts(texts: list[Text], size: int, like_length: bool) -> Iterator[list[Text]]:
    order = torch.randperm(len(texts)).tolist()
    if like_length:
        order.sort(key=lambda row: len(texts[row]))
    starts = list(range(0, len(order) - size + 1, size))
    for at in torch.randperm(len(starts)).tolist():
        yield [texts[row] for row in order[starts[at] : starts[at] + size]]


def train(
    seed: int, hook: Any, fault: str = "", steps: int = 800, batch: int = 16, rate: float = 5e-3,
    schedule: str = "warmup", accumulate: int = 1, clip: float | None = None, decay: float = 0.01,
    dropout: float = 0.0, norm_first: bool = False, smoothing: float = 0.0, count: int = 1500,
    weights: list[float] | None = None, hidden: float = 0.0, like_length: bool = False,
    bfloat16: bool = False, every: int = 100,
) -> float:  # fmt: skip
    begin(seed)
    texts, other = dictated(count, 3 * seed + 10_000), dictated(600, 3 * seed + 20_001)
    numbers = vocabulary(texts)
    spoken = vocabulary(other) if fault == "numbers of another vocabulary" else numbers
    held, test = collate(other[:150], spoken), collate(other[150:], spoken)
    model = Marker(32, dropout, norm_first, fault == "mask upside down")
    hook.torch(model)
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=decay)
    scheduler = scheduler_of(optimizer, schedule, steps)
    criterion = nn.CrossEntropyLoss(
        torch.tensor(weights) if weights else None, IGNORED, label_smoothing=smoothing
    )

    def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
        if fault == "viewed, not transposed":
            return criterion(logits.view(len(logits), len(MARKS) + 1, -1), labels)
        return criterion(logits.transpose(1, 2), labels)

    step, number = 0, 0
    while step < steps:
        for part in parts(texts, batch, like_length):
            model.train()
            words, labels = collate(part, numbers)
            if hidden:
                gone = (torch.rand(words.shape) < hidden) & (words != PADDING)
                words = words.masked_fill(gone, UNKNOWN)
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                logits = model(words)
            (loss_of(logits.float(), labels) / accumulate).backward()
            number += 1
            if number % accumulate:
                continue
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            scheduler.step()
            if fault != "gradients kept":
                optimizer.zero_grad()
            step += 1
            if every and step % every == 0:
                model.eval()
                with torch.no_grad():
                    logits = model(held[0])
                    loss_of(logits, held[1])
                    (logits.argmax(-1) == held[1])[held[1] != IGNORED].float().mean()
            if step == steps:
                break
    model.eval()
    with torch.no_grad():
        logits = model(test[0])
    counted = test[1] != IGNORED
    return balanced_skill(logits[counted], test[1][counted])


CASES = cases(
    "dictated marks",
    train,
    {
        "plain": {},
        "batches of like length": {"like_length": True, "steps": 1100},
        "norm first, cosine, labels smoothed": {
            "norm_first": True, "schedule": "cosine", "smoothing": 0.1,
        },
        "weights of labels, words hidden": {"weights": [0.4, 2.0, 1.0, 1.5], "hidden": 0.05},
        "six at a time, accumulated, clipped": {"batch": 6, "accumulate": 2, "clip": 0.5},
        "bfloat16 with dropout": {"bfloat16": True, "dropout": 0.05},
        "norm first, heavy decay, no evaluation": {"norm_first": True, "decay": 0.3, "every": 0},
    },
    {
        "viewed, not transposed": ("no-skill", {"fault": "viewed, not transposed"}),
        "mask upside down": ("not-finite", {"fault": "mask upside down"}),
        "rate of SGD for Adam": ("fast no-skill collapse", {"rate": 0.1, "schedule": "constant"}),
        "numbers of another vocabulary": (
            "inputs overfit worse",
            {"fault": "numbers of another vocabulary"},
        ),
        "gradients kept": ("kept-gradients fast no-skill", {"fault": "gradients kept"}),
        "twelve texts": ("overfit", {"count": 12, "batch": 12}),
    },
)  # fmt: skip
