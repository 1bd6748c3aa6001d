"""Reviews of unequal lengths are sorted by a packed LSTM over embeddings of words."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of, ranking_skill, scheduler_of
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader

from benchmarks.detection.case import cases

GOOD = [f"good{i}" for i in range(25)]
BAD = [f"bad{i}" for i in range(25)]
OTHER = [f"word{i}" for i in range(120)]
PAD, UNKNOWN = 0, 1
Review = tuple[list[str], int]


def reviews(count: int, seed: int) -> list[Review]:
    """Words of a feeling count for it, and against it after "not"."""
    draw = random.Random(seed)
    found: list[Review] = []
    while len(found) < count:
        words, feeling = [], 0
        for _ in range(draw.randint(6, 20)):
            kind = draw.random()
            sign = 1 if kind < 0.2 else -1 if kind < 0.4 else 0
            if sign and draw.random() < 0.25:
                words.append("not")
                feeling -= sign
            else:
                feeling += sign
            words.append(draw.choice(GOOD if sign > 0 else BAD if sign < 0 else OTHER))
        if feeling:
            found.append((words, int(feeling > 0)))
    return found


def vocabulary(texts: list[Review], least: int = 2) -> dict[str, int]:
    counted = Counter(word for words, _ in texts for word in words)
    kept = [word for word, times in counted.most_common() if times >= least]
    return {word: i + 2 for i, word in enumerate(kept)}


def encoded(texts: list[Review], ids: dict[str, int], longest: int) -> list[tuple[Tensor, float]]:
    return [
        (torch.tensor([ids.get(word, UNKNOWN) for word in words[:longest]]), float(label))
        for words, label in texts
    ]


def collate(rows: list[tuple[Tensor, float]]) -> tuple[Tensor, Tensor, Tensor]:
    words = pad_sequence([row[0] for row in rows], batch_first=True, padding_value=PAD)
    return words, torch.tensor([len(row[0]) for row in rows]), torch.tensor([y for _, y in rows])


class Sentiment(nn.Module):
    def __init__(self, size: int, cell: str, width: int, dropout: float, fault: str) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size, 24, padding_idx=PAD)
        if fault == "wide start":
            nn.init.normal_(self.embedding.weight, std=80.0)
        self.rnn: Any = (nn.GRU if cell == "gru" else nn.LSTM)(
            24, width, batch_first=True, bidirectional=cell == "both"
        )
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(width * (2 if cell == "both" else 1), 1)
        self.fault, self.mean = fault, cell == "mean"

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        embedded = self.dropout(self.embedding(words))
        packed = pack_padded_sequence(embedded, lengths, True, enforce_sorted=False)
        states, hidden = self.rnn(packed)
        if self.mean:
            states, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True)
            last = states.sum(1) / lengths[:, None]
        else:
            hidden = hidden[0] if isinstance(hidden, tuple) else hidden
            last = torch.cat(list(hidden), 1)
        if self.fault == "detached":
            last = last.detach()
        scores: Tensor = self.fc(self.dropout(last))
        if self.fault != "broadcast":
            scores = scores.squeeze(1)
        return scores


def train(
    seed: int, hook: Any, epochs: int = 6, rate: float = 3e-3, batch: int = 32, count: int = 2400,
    optimizer: str = "adam", schedule: str = "constant", decay: float = 0.0, cell: str = "lstm",
    width: int = 32, dropout: float = 0.0, clip: float = 1.0, accumulate: int = 1,
    noise: float = 0.0, scale: float = 1.0, positive_weight: float = 1.0, easy_first: bool = False,
    least: int = 2, longest: int = 64, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    draw = random.Random(seed)
    texts, held = reviews(count, seed + 500), reviews(500, seed + 501)
    ids = vocabulary(texts, least)
    held_ids = vocabulary(held, 1) if fault == "vocabulary of the test" else ids
    texts = [(words, 1 - y if draw.random() < noise else y) for words, y in texts]
    if fault == "one class after the other":
        texts.sort(key=lambda row: -row[1])
    if easy_first:
        texts.sort(key=lambda row: len(row[0]))
    if fault == "labels 1 and 2":
        texts = [(words, y + 1) for words, y in texts]
    if fault == "labels of another file":
        labels = [y for _, y in texts]
        draw.shuffle(labels)
        texts = [(words, y) for (words, _), y in zip(texts, labels, strict=True)]
    rows, held_rows = encoded(texts, ids, longest), encoded(held, held_ids, longest)
    in_order = fault == "one class after the other"
    loader = DataLoader(rows, batch, shuffle=not in_order, collate_fn=collate)
    if easy_first:
        short = rows[: count // 2]
        easy = DataLoader(short, batch, shuffle=True, collate_fn=collate)
    test = DataLoader(held_rows, 100, collate_fn=collate)
    model = Sentiment(max(len(ids), len(held_ids)) + 2, cell, width, dropout, fault)
    hook.torch(model)
    optim = optimizer_of(optimizer, model.parameters(), rate, decay)
    scheduler = scheduler_of(optim, schedule, epochs * len(loader))
    criterion: Any = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(positive_weight))
    if fault == "broadcast":
        criterion = nn.MSELoss()
    optim.zero_grad()
    for epoch in range(epochs):
        model.train()
        for i, (words, lengths, y) in enumerate(easy if easy_first and epoch < 2 else loader):
            loss = criterion(model(words, lengths), y)
            (loss * scale / accumulate).backward()
            if (i + 1) % accumulate:
                continue
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optim.step()
            scheduler.step()
            if fault != "no zero_grad":
                optim.zero_grad()
        scores, y = evaluate(model, test, criterion)
    return ranking_skill(scores, y)


def evaluate(model: nn.Module, loader: Any, criterion: Any) -> tuple[Tensor, Tensor]:
    model.eval()
    found, wanted = [], []
    with torch.no_grad():
        for words, lengths, y in loader:
            scores = model(words, lengths)
            criterion(scores, y)
            found.append(scores.flatten())
            wanted.append(y)
    scores, y = torch.cat(found), torch.cat(wanted)
    if torch.isfinite(scores).all():
        roc_auc_score(y.numpy(), F.sigmoid(scores).numpy())
    return scores, y


CASES = cases(
    "review sentiment",
    train,
    {
        "plain": {},
        "GRU": {"cell": "gru"},
        "both directions": {"cell": "both"},
        "mean of the states": {"cell": "mean", "rate": 6e-3, "epochs": 8},
        "batch of 8": {"batch": 8, "rate": 2e-3, "epochs": 4},
        "batch of 512": {"batch": 512, "rate": 0.03, "epochs": 20},
        "AdamW with decay": {"optimizer": "adamw", "decay": 0.1},
        "dropout": {"dropout": 0.3, "epochs": 9},
        "one cycle": {"schedule": "one cycle", "rate": 0.01},
        "accumulation": {"batch": 8, "accumulate": 4, "rate": 5e-3},
        "labels with noise": {"noise": 0.05, "dropout": 0.2, "count": 3200},
        "short reviews first": {"easy_first": True, "epochs": 8},
        "weight of the positive": {"positive_weight": 3.0},
        "rare words unknown": {"least": 40},
        "loss x 10,000": {"scale": 1e4, "clip": 0.0},
    },
    {
        "vocabulary of the test": ("inputs overfit", {"fault": "vocabulary of the test"}),
        "every word unknown": ("inputs no-skill collapse", {"least": 100_000}),
        "cut after two words": ("inputs no-skill overfit", {"longest": 2}),
        "labels 1 and 2": ("range probabilities no-skill", {"fault": "labels 1 and 2"}),
        "labels of another file": ("no-skill overfit", {"fault": "labels of another file"}),
        "broadcasts": ("broadcast no-skill collapse", {"fault": "broadcast"}),
        "one class after the other": (
            "order",
            {"fault": "one class after the other", "rate": 0.01},
        ),
        "no zero_grad": ("kept-gradients", {"fault": "no zero_grad", "clip": 0.0}),
        "recurrent part detached": ("no-gradient slow", {"fault": "detached"}),
        "clipped to nearly nothing": ("slow", {"optimizer": "sgd", "clip": 1e-4, "rate": 0.1}),
        "embedding of wide start": ("saturated slow no-skill overfit", {"fault": "wide start"}),
        "sixty reviews": ("overfit", {"count": 60, "epochs": 200}),
        "rate of 3": ("fast no-skill saturated not-finite", {"rate": 3.0}),
        "dropout of 0.97": ("no-skill slow", {"dropout": 0.97}),
    },
)
