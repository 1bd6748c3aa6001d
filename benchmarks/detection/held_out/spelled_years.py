"""Years written in words become digits: an encoder, a decoder, teacher forcing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin

WORDS, DIGITS, START, LENGTH = 31, 11, 10, 4


def years(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """(N, 5) words: whether the digits stand in order or reversed, then the digits."""
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(10, (count, LENGTH), generator=draw)
    turned = torch.randint(2, (count, 1), generator=draw)
    words = torch.where(turned > 0, y.flip(1) + 10, y)
    return torch.cat([20 + 5 * turned, words], 1), y


class Translator(nn.Module):
    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.words, self.digits = nn.Embedding(WORDS, 24), nn.Embedding(DIGITS, 24)
        self.encoder = nn.GRU(24, width, batch_first=True)
        self.decoder = nn.GRU(24, width, batch_first=True)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor, before: Tensor) -> Tensor:
        _, state = self.encoder(self.words(x))
        scores: Tensor = self.head(self.decoder(self.digits(before), state)[0])
        return scores

    def translate(self, x: Tensor) -> Tensor:
        found = torch.full((len(x), 1), START)
        for _ in range(LENGTH):
            found = torch.cat([found, self(x, found)[:, -1:].argmax(2)], 1)
        return found[:, 1:]


def train(seed: int, hook: Any, rate: float = 6e-3, steps: int = 900, clip: float = 1.0,
          sampled: float = 0.0, cosine: bool = False, fault: str = "") -> float:  # fmt: skip
    begin(seed)
    (x, y), (held_x, held_y) = years(5000, seed + 4300), years(400, seed + 4301)
    if fault == "pairs in another order":
        x = x[torch.randperm(len(x))]
    if fault == "unknown words":
        x, held_x = x.clamp(max=2), held_x.clamp(max=2)
    model = Translator()
    if fault == "recurrence explodes":
        for value in model.encoder.parameters():
            nn.init.normal_(value, std=8.0)
    hook.torch(model)
    used = model.head if fault == "head alone in the optimizer" else model
    optimizer = torch.optim.Adam(used.parameters(), rate)
    plan = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        rows = torch.randint(len(x), (64,))
        wanted = y[rows]
        first = torch.full((64, 1), START)
        before = torch.cat([first, wanted[:, :-1]], 1)
        if fault == "decoder sees its answer":
            before = wanted
        if sampled:
            before = torch.where(torch.rand(before.shape) < sampled, START, before)
        scores = model(x[rows], before)
        if fault == "view instead of transpose":
            loss = nn.functional.cross_entropy(scores.view(64, 10, LENGTH), wanted)
        else:
            loss = nn.functional.cross_entropy(scores.transpose(1, 2), wanted)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        if cosine:
            plan.step()
    model.eval()
    with torch.no_grad():
        return ((model.translate(held_x) == held_y).double().mean().item() - 0.1) / 0.9


CASES = cases(
    "spelled years",
    train,
    {
        "plain": {},
        "inputs dropped": {"sampled": 0.2},
        "cosine": {"cosine": True, "rate": 8e-3},
        "clipped hard": {"clip": 0.25},
    },
    {
        "pairs in another order": ("no-skill", {"fault": "pairs in another order"}),
        "unknown words": ("inputs no-skill", {"fault": "unknown words"}),
        "recurrence explodes": (
            "saturated no-skill slow dead", {"fault": "recurrence explodes", "rate": 1e-3},
        ),
        "head alone in the optimizer": ("unbound", {"fault": "head alone in the optimizer"}),
        "decoder sees its answer": ("leak", {"fault": "decoder sees its answer"}),
        "view instead of transpose": ("permuted no-skill", {"fault": "view instead of transpose"}),
        "rate of 2": ("fast worse no-skill saturated dead", {"rate": 2.0, "clip": 1e9}),
    },
)  # fmt: skip
