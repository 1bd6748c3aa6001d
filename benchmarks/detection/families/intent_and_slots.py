"""Commands to a house: what is wanted, and what each word fills, by two losses at once.

"Play some jazz in the kitchen at nine": an intent and slots for the thing, the room and the time.
Verbs share intents, some words fill one slot or another by what stands before them. The skill is
the mean of two: that of intents, and the recall of slots, above chance.
"""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import balanced_skill, begin, class_skill, with_noise
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader

from benchmarks.detection.case import cases

INTENTS, SLOTS, LONGEST = 5, 5, 11
THINGS = [[f"thing{n}" for n in range(8 * k, 8 * k + 14)] for k in range(INTENTS)]
ROOMS, COUNTS = [f"room{n}" for n in range(10)], [f"number{n}" for n in range(16)]
POLITE = ["please", "the", "some", "now", "my"]
VERBS = [["play", "start"], ["set", "start"], ["turn", "set"], ["call", "get"], ["buy", "get"]]
PARTS = ("in", "at", "to")
ALL = ["", "?", *POLITE, *PARTS, *dict.fromkeys(word for kind in VERBS for word in kind)]
ALL += [*dict.fromkeys(word for kind in THINGS for word in kind), *ROOMS, *COUNTS]
NUMBER_OF = {word: number for number, word in enumerate(ALL)}


def command(draw: random.Random) -> tuple[list[str], list[int], int]:
    """Words, the slot of each (0: none), and the intent."""
    intent = draw.randrange(INTENTS)
    words = [(draw.choice(VERBS[intent]), 0), (draw.choice(THINGS[intent]), 1)]
    ends = [("in", ROOMS, 2), ("at", COUNTS[:12], 3), ("to", COUNTS[4:], 4)]
    for part, pool, slot in draw.sample(ends, draw.randint(1, 3)):
        words += [(part, 0), (draw.choice(pool), slot)]
    for _ in range(draw.randint(0, 3)):
        words.insert(draw.randint(0, len(words) - 1), (draw.choice(POLITE), 0))
    return [word for word, _ in words], [slot for _, slot in words], intent


def commands(count: int, seed: int, capital: bool = False) -> list[dict[str, Any]]:
    draw, made = random.Random(seed), []
    for _ in range(count):
        words, slots, intent = command(draw)
        words = [word.capitalize() for word in words] if capital else words
        numbers = [NUMBER_OF.get(word, 1) for word in words]
        rest = LONGEST - len(words)
        row = {"words": numbers + [0] * rest, "slots": slots + [-100] * rest, "intent": intent}
        made.append(row)
    return made


def collate(rows: list[dict[str, Any]]) -> dict[str, Tensor]:
    return {key: torch.tensor([row[key] for row in rows]) for key in rows[0]}


class Reader(nn.Module):
    def __init__(self, cell: str, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding(len(ALL), 24, padding_idx=0)
        kind = nn.LSTM if cell == "lstm" else nn.GRU
        self.recurrent: Any = kind(24, 24, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(dropout)
        self.intent, self.slot = nn.Linear(48, INTENTS), nn.Linear(48, SLOTS)

    def forward(self, words: Tensor) -> tuple[Tensor, Tensor]:
        length = (words != 0).sum(1)
        packed = pack_padded_sequence(self.words(words), length, True, enforce_sorted=False)
        h = pad_packed_sequence(self.recurrent(packed)[0], True, total_length=LONGEST)[0]
        h = self.dropout(h)
        return self.intent(h.sum(1) / length[:, None]), self.slot(h)


def loss_of(
    out: tuple[Tensor, Tensor], rows: dict[str, Tensor], share: float, fault: str
) -> Tensor:
    intents, slots = out
    loss = share * F.cross_entropy(intents, rows["intent"])
    if fault == "slots viewed, not transposed":
        return loss + F.cross_entropy(slots.reshape(-1, SLOTS, LONGEST), rows["slots"])
    slot_loss = F.cross_entropy(slots.transpose(1, 2), rows["slots"])
    return slot_loss if fault == "second loss replaces the first" else loss + slot_loss


def train(
    seed: int, hook: Any, rate: float = 4e-3, epochs: int = 6, batch: int = 16, share: float = 1.0,
    cell: str = "gru", dropout: float = 0.0, noise: float = 0.0, optimizer: str = "adam",
    by_length: bool = False, count: int = 1600, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    data, held = commands(count, seed + 70), collate(commands(200, seed + 71))
    test = collate(commands(800, seed + 72, capital=fault == "test with capitals"))
    if noise:
        wrong = with_noise(torch.tensor([row["intent"] for row in data]), noise, seed)
        data = [{**row, "intent": int(k)} for row, k in zip(data, wrong, strict=True)]
    if by_length:
        data.sort(key=lambda row: row["words"].count(0), reverse=True)
    model = Reader(cell, dropout)
    hook.torch(model)
    steps: Any = torch.optim.Adam(model.parameters(), rate)
    if optimizer == "sgd":
        steps = torch.optim.SGD(model.parameters(), rate, momentum=0.9, nesterov=True)
    for _ in range(epochs):
        model.train()
        for rows in DataLoader(data, batch, shuffle=not by_length, collate_fn=collate):
            if fault == "words sorted by length alone":
                order = (rows["words"] != 0).sum(1).argsort(descending=True)
                rows["words"] = rows["words"][order]
            steps.zero_grad()
            loss_of(model(rows["words"]), rows, share, fault).backward()
            steps.step()
        model.eval()
        with torch.no_grad():
            loss_of(model(held["words"]), held, share, fault)
    model.eval()
    with torch.no_grad():
        intents, slots = model(test["words"])
    real = test["slots"] >= 0
    found = balanced_skill(slots[real], test["slots"][real])
    return (class_skill(intents, test["intent"]) + found) / 2


CASES = cases(
    "intent and slots",
    train,
    {
        "plain": {},
        "intents count ten times": {"share": 10.0},
        "one intent in ten wrong": {"noise": 0.12},
        "LSTM, SGD": {"cell": "lstm", "optimizer": "sgd", "rate": 0.15, "epochs": 8},
        "short commands first": {"by_length": True},
        "batch of two": {"batch": 2, "epochs": 1, "rate": 3e-3},
    },
    {
        "slots viewed, not transposed": ("no-skill", {"fault": "slots viewed, not transposed"}),
        "second loss replaces the first": (
            "ignored no-gradient unbound no-skill", {"fault": "second loss replaces the first"},
        ),
        "words sorted by length alone": (
            "no-skill overfit", {"fault": "words sorted by length alone"},
        ),
        "test with capitals": ("inputs", {"fault": "test with capitals"}),
        "twelve commands": ("overfit", {"count": 12, "batch": 4, "epochs": 150}),
    },
)  # fmt: skip
