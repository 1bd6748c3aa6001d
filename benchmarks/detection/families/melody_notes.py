"""The next note of melodies, by an LSTM whose state is carried from part to part of a long record.

Made-up melodies repeat a motif of four notes some steps higher or lower, and pass on to another
after four bars. The skill is the accuracy on other melodies, above the most frequent note.
"""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.detection.families.kit import begin, class_skill, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

NOTES, PART, MOTIFS = 24, 16, 6
State = tuple[Tensor, Tensor]


def melody(notes: int, seed: int) -> Tensor:
    draw, book = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(3)
    motifs = torch.randint(-3, 4, (MOTIFS, 3), generator=book)
    changes = torch.tensor([2, -1, -2, 1])
    made, place, motif = list[int](), 12, 0
    for bar in range(notes // 4):
        if bar % 4 == 0:
            motif = int(torch.randint(MOTIFS, (1,), generator=draw))
            place = int(torch.randint(7, 17, (1,), generator=draw))
        line = torch.cat([torch.zeros(1, dtype=torch.long), motifs[motif].cumsum(0)]) + place
        made += line.clamp(0, NOTES - 1).tolist()
        place = max(3, min(NOTES - 4, place + int(changes[bar % 4])))
    return torch.tensor(made)


def rows_of(notes: Tensor, batch: int, across: bool) -> Tensor:
    """(length, batch): each column is a part of the record, in its order."""
    length = len(notes) // batch
    cut = notes[: length * batch]
    return cut.view(length, batch) if across else cut.view(batch, length).t().contiguous()


class Player(nn.Module):
    def __init__(self, width: int, dropout: float, kind: str, tied: bool) -> None:
        super().__init__()
        self.notes = nn.Embedding(NOTES, width)
        self.recurrent: Any = {"lstm": nn.LSTM, "gru": nn.GRU}[kind](width, width)
        self.dropout = nn.Dropout(dropout)
        self.next = nn.Linear(width, NOTES)
        if tied:
            self.next.weight = self.notes.weight
            nn.init.uniform_(self.notes.weight, -0.1, 0.1)

    def forward(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        h, state = self.recurrent(self.dropout(self.notes(x)), state)
        return self.next(self.dropout(h)), state


def detached(state: Any) -> Any:
    return tuple(s.detach() for s in state) if isinstance(state, tuple) else state.detach()


class Lesson:
    """Trains on one part after another, and keeps the state between them."""

    def __init__(self, model: Player, updates: Any, clip: float, fault: str) -> None:
        self.model, self.updates, self.clip, self.fault = model, updates, clip, fault
        self.criterion = nn.CrossEntropyLoss()

    def loss(self, scores: Tensor, x: Tensor, wanted: Tensor) -> Tensor:
        if self.fault == "target is the input":
            wanted = x
        if self.fault == "softmax before the loss":
            scores = scores.softmax(-1)
        loss: Tensor = self.criterion(scores.view(-1, NOTES), wanted.reshape(-1))
        return loss

    def epoch(self, rows: Tensor, after: Any) -> None:
        self.model.train()
        state = None
        for at in range(0, len(rows) - 1 - PART, PART):
            x, wanted = rows[at : at + PART], rows[at + 1 : at + 1 + PART]
            scores, state = self.model(x, state)
            state = detached(state)
            self.updates.zero_grad()
            self.loss(scores, x, wanted).backward()
            if self.clip:
                nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
            self.updates.step()
            after()

    def evaluate(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        self.model.eval()
        with torch.no_grad():
            scores, _ = self.model(rows[:-1], None)
            self.loss(scores, rows[:-1], rows[1:])
        return scores.flatten(0, 1), rows[1:].flatten()


def train(
    seed: int, hook: Any, rate: float = 5e-3, epochs: int = 12, batch: int = 16, width: int = 64,
    optimizer: str = "adam", schedule: str = "constant", clip: float = 1.0, dropout: float = 0.0,
    kind: str = "lstm", tied: bool = False, wrong: float = 0.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    notes, held, test = (melody(n, seed + 8800 + n) for n in (16000, 2400, 8000))
    if fault == "few bars again and again":
        notes = notes[:512].repeat(25)
    if wrong:
        notes = torch.where(
            torch.rand(len(notes)) < wrong, torch.randint(NOTES, notes.shape), notes
        )
    model = Player(width, dropout, kind, tied)
    hook.torch(model)
    if fault == "optimizer of another model":
        parameters = Player(width, dropout, kind, tied).parameters()
    else:
        parameters = model.parameters()
    updates = optimizer_of(optimizer, parameters, rate)
    rows = rows_of(notes, batch, fault == "viewed, not turned")
    steps = epochs * (len(rows) // PART)
    falls = scheduler_of(updates, schedule, steps)
    lesson = Lesson(model, updates, clip, fault)
    for _ in range(epochs):
        lesson.epoch(rows, falls.step)
        lesson.evaluate(rows_of(held, 20, False))
    return class_skill(*lesson.evaluate(rows_of(test, 40, False)))


CASES = cases(
    "melody notes",
    train,
    {
        "plain": {},
        "descent that is clipped": {"optimizer": "sgd", "rate": 10.0, "clip": 0.25, "epochs": 16},
        "one table for both ends": {"tied": True},
        "GRU with dropout": {"kind": "gru", "dropout": 0.2, "epochs": 14},
        "wrong notes": {"wrong": 0.05, "epochs": 14},
        "restarts": {"schedule": "restarts", "rate": 1e-2},
    },
    {
        "target is the input": ("leak", {"fault": "target is the input"}),
        "softmax before the loss": (
            "probabilities slow no-skill",
            {"fault": "softmax before the loss", "rate": 2e-3},
        ),
        "viewed, not turned": (
            "order inputs no-skill",
            {"fault": "viewed, not turned"},
        ),
        "few bars again and again": ("overfit", {"fault": "few bars again and again"}),
        "optimizer of another model": ("unbound no-skill", {"fault": "optimizer of another model"}),
    },
)
