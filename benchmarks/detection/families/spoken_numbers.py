"""Numbers in digits are written as they are spoken, by ``nn.Transformer`` as in torch's tutorial.

7042 becomes "seven thousand forty two": tokens of words, with marks of begin and end, padded to
the longest. The skill is the share of unseen numbers' words that greedy decoding gets right,
above the most frequent word.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn

from benchmarks.detection.case import cases

PAD, BOS, EOS, FIRST_WORD = 0, 1, 2, 3
DIGITS = 13  # padding, begin and end of what is read, and ten digits
THOUSAND, HUNDRED = FIRST_WORD + 27, FIRST_WORD + 28
WORDS = FIRST_WORD + 29
LONGEST = 10

Pair = tuple[Tensor, Tensor]


def below_hundred(n: int) -> list[int]:
    """One to nineteen are words of their own; so are twenty to ninety."""
    if n < 20:
        return [FIRST_WORD + n - 1] if n else []
    tens = [FIRST_WORD + 19 + n // 10 - 2]
    return tens + ([FIRST_WORD + n % 10 - 1] if n % 10 else [])


def spoken(n: int) -> list[int]:
    words: list[int] = []
    if n >= 1000:
        words += [*spoken(n // 1000), THOUSAND]
    if n % 1000 >= 100:
        words += [*below_hundred(n % 1000 // 100), HUNDRED]
    return words + below_hundred(n % 100)


def sentences(count: int, seed: int, limit: int) -> list[Pair]:
    draw = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(count):
        places = int(torch.randint(1, len(str(limit)), (1,), generator=draw))
        n = int(torch.randint(10 ** (places - 1), 10**places, (1,), generator=draw))
        read = torch.tensor([BOS, *(3 + int(digit) for digit in str(n)), EOS])
        found.append((read, torch.tensor([BOS, *spoken(n), EOS])))
    return found


def collate(batch: list[Pair]) -> Pair:
    pad = nn.utils.rnn.pad_sequence
    return (pad([a for a, _ in batch], True, PAD), pad([b for _, b in batch], True, PAD))


class PositionalEncoding(nn.Module):
    table: Tensor

    def __init__(self, width: int, longest: int = 32) -> None:
        super().__init__()
        position = torch.arange(longest)[:, None]
        wave = torch.exp(-torch.arange(0, width, 2) * math.log(10000) / width)
        table = torch.zeros(longest, width)
        table[:, 0::2], table[:, 1::2] = (position * wave).sin(), (position * wave).cos()
        self.register_buffer("table", table)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[: x.shape[1]]


class Seq2Seq(nn.Module):
    def __init__(self, width: int, dropout: float, first: bool, fault: str) -> None:
        super().__init__()
        self.fault, self.width = fault, width
        self.src_embedding = nn.Embedding(DIGITS, width, padding_idx=PAD)
        self.tgt_embedding = nn.Embedding(WORDS, width, padding_idx=PAD)
        self.position = nn.Identity() if fault == "no positions" else PositionalEncoding(width)
        self.transformer = nn.Transformer(
            width, 4, 1, 1, 2 * width, dropout, batch_first=True, norm_first=first
        )
        self.generator = nn.Linear(width, WORDS)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        n = tgt.shape[1]
        later = torch.triu(torch.ones(n, n, dtype=torch.bool), 1)
        unread = src == PAD
        if self.fault == "mask upside down":
            unread = src != PAD
            unread[:, 0] = False
        x = self.transformer(
            self.position(self.src_embedding(src) * math.sqrt(self.width)),
            self.position(self.tgt_embedding(tgt) * math.sqrt(self.width)),
            tgt_mask=None if self.fault == "future words seen" else later,
            src_key_padding_mask=unread,
            tgt_key_padding_mask=tgt == PAD,
            memory_key_padding_mask=unread,
        )
        out: Tensor = self.generator(x)
        return out


@torch.no_grad()
def greedy(model: nn.Module, src: Tensor) -> Tensor:
    model.eval()
    said = torch.full((len(src), 1), BOS)
    for _ in range(LONGEST):
        word = model(src, said)[:, -1].argmax(1)
        ended = (said == EOS).any(1)
        said = torch.cat([said, torch.where(ended, PAD, word)[:, None]], 1)
    return said[:, 1:]


def batches(data: list[Pair], size: int) -> Iterator[Pair]:
    order = torch.randperm(len(data)).tolist()
    for first in range(0, len(order) - size + 1, size):
        yield collate([data[row] for row in order[first : first + size]])


def train_epoch(
    model: nn.Module, data: list[Pair], size: int, criterion: nn.Module, optimizer: Any,
    scheduler: Any, clip: float, fault: str,
) -> float:  # fmt: skip
    model.train()
    total = 0.0
    for src, tgt in batches(data, size):
        if fault == "words of another number":
            tgt = tgt.roll(1, 0)
        tgt_input, tgt_out = tgt[:, :-1], tgt[:, 1:]
        if fault == "same words in and out":
            tgt_out = tgt_input
        logits = model(src, tgt_input)
        optimizer.zero_grad()
        loss = criterion(logits.reshape(-1, WORDS), tgt_out.reshape(-1))
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        scheduler.step()
        total += loss.item()
    return total


@torch.no_grad()
def evaluate(model: nn.Module, data: list[Pair], criterion: nn.Module) -> float:
    model.eval()
    src, tgt = collate(data)
    logits = model(src, tgt[:, :-1])
    loss: float = criterion(logits.reshape(-1, WORDS), tgt[:, 1:].reshape(-1)).item()
    return loss


def train(
    seed: int, hook: Any, epochs: int = 7, count: int = 4000, batch: int = 32, rate: float = 3e-3,
    schedule: str = "linear", smoothing: float = 0.0, dropout: float = 0.0, clip: float = 1.0,
    first: bool = False, reduction: str = "mean", lessons: bool = False, evaluated: bool = True,
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    known, held = sentences(count, 5 * seed + 1, 10**6), sentences(200, 5 * seed + 2, 10**6)
    model = Seq2Seq(32, dropout, first, fault)
    criterion = nn.CrossEntropyLoss(
        ignore_index=PAD, label_smoothing=smoothing, reduction=reduction
    )
    hook.torch(model)
    optimizer = torch.optim.Adam(model.parameters(), rate, betas=(0.9, 0.98), eps=1e-9)
    steps = epochs * (len(known) // batch)

    def factor(step: int) -> float:
        if schedule == "noam":  # Vaswani's: up for a tenth of the training, then 1 / sqrt
            return min((step + 1) / (0.1 * steps), math.sqrt(0.1 * steps / (step + 1)))
        return 1.0 if schedule == "constant" else 1 - 0.95 * step / steps

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    for epoch in range(epochs):
        part = known
        if lessons:  # short numbers first
            part = [pair for pair in known if len(pair[0]) <= 4 + epoch]
        train_epoch(model, part, batch, criterion, optimizer, scheduler, clip, fault)
        if evaluated:
            evaluate(model, held, criterion)
    src, tgt = collate(sentences(300, 5 * seed + 3, 10**6))
    said = greedy(model, src)
    wanted = nn.functional.pad(tgt[:, 1:], (0, LONGEST - tgt.shape[1] + 1))
    counted = wanted != PAD
    right = (said == wanted)[counted].double().mean().item()
    most = torch.bincount(wanted[counted]).max().item() / int(counted.sum())
    return (right - most) / (1 - most)


CASES = cases(
    "spoken numbers",
    train,
    {
        "plain": {},
        "Noam's schedule": {"schedule": "noam"},
        "smoothed labels": {"smoothing": 0.1, "epochs": 9},
        "norm first, not clipped": {"first": True, "clip": 0.0, "schedule": "constant",
                                    "rate": 2e-3},
        "summed over the words": {"reduction": "sum", "clip": 100.0},
        "short numbers first": {"lessons": True, "epochs": 10},
        "half the batch, not evaluated": {"batch": 16, "epochs": 5, "rate": 2e-3,
                                          "evaluated": False},
    },
    {
        "future words seen": ("leak", {"fault": "future words seen"}),
        "same words in and out": ("leak", {"fault": "same words in and out"}),
        "mask upside down": ("inputs no-skill overfit", {"fault": "mask upside down"}),
        "words of another number": ("no-skill overfit", {"fault": "words of another number"}),
        "rate of SGD": ("fast no-skill collapse worse", {"rate": 0.1}),
        "sixty numbers": ("overfit", {"count": 64, "epochs": 250}),
    },
)  # fmt: skip
