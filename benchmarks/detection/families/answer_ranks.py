"""Answers to a question put in order: a cross-encoder that reads both, by a margin or a list loss.

A question of four words has six answers of six; each answer has a word that belongs to a question's
word for none to four of them, and the most are best. The skill is the share of questions whose
best answer comes first, above chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

THEMES, ASKED, SAID, ANSWERS, WIDTH = 24, 4, 6, 6, 32
FILLERS, WORDS = 12, 1 + 2 * THEMES + 12


def questions(count: int, seed: int) -> dict[str, Tensor]:
    """Words of question and answer (N, ANSWERS, 11), and how many of the four are met."""
    draw = torch.Generator().manual_seed(seed)
    themes = torch.rand(count, THEMES, generator=draw).argsort(1)
    asked = themes[:, None, :ASKED].expand(-1, ANSWERS, -1)
    met = torch.randint(0, 3, (count, ANSWERS), generator=draw)
    best = torch.randint(ANSWERS, (count, 1), generator=draw)
    met.scatter_(1, best, torch.randint(3, 5, (count, 1), generator=draw))
    place = torch.arange(ASKED)
    rest = torch.rand(count, ANSWERS, THEMES - ASKED, generator=draw).argsort(2)[..., :ASKED]
    other = themes[:, None, ASKED:].expand(-1, ANSWERS, -1).gather(2, rest)
    themed = 1 + THEMES + torch.where(place < met[..., None], asked, other)
    filler = 1 + 2 * THEMES + torch.randint(FILLERS, (count, ANSWERS, SAID - ASKED), generator=draw)
    said = torch.cat([themed, filler], 2)
    said = said.gather(2, torch.rand(said.shape, generator=draw).argsort(2))
    between = torch.zeros(count, ANSWERS, 1, dtype=torch.long)
    return {"words": torch.cat([1 + asked, between, said], 2), "met": met}


class CrossEncoder(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.parts = nn.Parameter(0.1 * torch.randn(2, WIDTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.query, self.key = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.value, self.dropout = nn.Linear(WIDTH, WIDTH), nn.Dropout(dropout)
        self.feed = nn.Sequential(nn.Linear(2 * WIDTH, 64), nn.ReLU(), nn.Linear(64, WIDTH))
        self.score = nn.Linear(WIDTH, 1)

    def forward(self, words: Tensor) -> Tensor:
        part = (torch.arange(words.shape[-1]) > ASKED).long()
        h = self.dropout(self.norm(self.words(words) + self.parts[part]))
        weight = (self.query(h) @ self.key(h).transpose(-1, -2) / WIDTH**0.5).softmax(-1)
        h = self.feed(torch.cat([h, weight @ self.value(h)], -1)).relu()
        out: Tensor = self.score(h.mean(-2))
        return out.squeeze(-1)


def ranking_loss(kind: str, scores: Tensor, met: Tensor, fault: str) -> Tensor:
    """Of scores (N, ANSWERS) and grades of the same shape."""
    if kind == "list":
        return F.cross_entropy(scores, (2.0 * met).softmax(1))
    if kind == "grades":
        return F.mse_loss(scores, met.float())
    better = met[:, :, None] > met[:, None]
    apart = scores[:, :, None] - scores[:, None]
    if fault == "arguments swapped":
        apart = -apart
    if kind == "logistic":
        return F.softplus(-apart)[better].mean()
    return F.relu(1 - apart)[better].mean()


def batches(data: dict[str, Tensor], size: int) -> Iterator[dict[str, Tensor]]:
    while True:
        for rows in torch.randperm(len(data["met"])).split(size):
            yield {key: of[rows] for key, of in data.items()}


def train(
    seed: int, hook: Any, loss: str = "margin", rate: float = 3e-3, steps: int = 2200,
    batch: int = 8, schedule: str = "warmup", dropout: float = 0.0, decay: float = 0.0,
    accumulate: int = 1, count: int = 3000, evaluated: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    data, held = questions(count, seed + 500), questions(100, seed + 501)
    test = questions(800, seed + 502)
    if fault == "grades of another question":
        data["met"] = data["met"].roll(1, 0)
    if fault == "answers cut off":
        data, held, test = (
            {**of, "words": of["words"][..., : ASKED + 2]} for of in (data, held, test)
        )
    model = CrossEncoder(dropout)
    if fault == "head alone":
        model.requires_grad_(False)
        model.score.requires_grad_(True)
    hook.torch(model)
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=decay)
    scheduler = scheduler_of(optimizer, schedule, steps)
    source = batches(data, batch)
    for step in range(steps):
        optimizer.zero_grad()
        for _ in range(accumulate):
            rows = next(source)
            error = ranking_loss(loss, model(rows["words"]), rows["met"], fault)
            (error / accumulate).backward()
        optimizer.step()
        scheduler.step()
        if evaluated and step % 200 == 199:
            model.eval()
            with torch.no_grad():
                ranking_loss(loss, model(held["words"]), held["met"], fault)
            model.train()
    model.eval()
    with torch.no_grad():
        scores = model(test["words"])
    first = (scores.argmax(1) == test["met"].argmax(1)).float().mean()
    return float((first - 1 / ANSWERS) / (1 - 1 / ANSWERS))


CASES = cases(
    "answer ranks",
    train,
    {
        "plain": {},
        "list loss": {"loss": "list"},
        "grades as numbers": {"loss": "grades"},
        "logistic loss, decay of 0.1": {"loss": "logistic", "decay": 0.1},
        "accumulated, batches of four": {"batch": 4, "accumulate": 2},
        "no evaluation, constant rate": {"evaluated": False, "schedule": "constant"},
    },
    {
        "arguments swapped": ("no-skill worse", {"fault": "arguments swapped"}),
        "answers cut off": ("inputs no-skill overfit", {"fault": "answers cut off"}),
        "grades of another question": ("no-skill overfit", {"fault": "grades of another question"}),
        "head alone": ("unbound no-gradient no-skill", {"fault": "head alone"}),
        "forty questions": ("overfit", {"count": 40}),
    },
)  # fmt: skip
