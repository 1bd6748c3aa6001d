"""The language of a word, one of six, from its letters: a GRU over packed sequences.

Each made-up language has its own habit of which letter follows which. The skill is the accuracy on
other words, of each language equally many, above chance.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin, optimizer_of
from benchmarks.detection.skill import class_skill

LETTERS, LANGUAGES, LONGEST = 26, 6, 12


def words(count: int, seed: int, shares: list[float]) -> tuple[Tensor, Tensor, Tensor]:
    """Letters from 1 on (count, LONGEST), padded with 0, lengths, and languages."""
    draw, habit = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(7)
    follows = torch.rand(LANGUAGES, LETTERS, LETTERS, generator=habit) ** 7
    language = torch.multinomial(torch.tensor(shares), count, replacement=True, generator=draw)
    letters = [torch.randint(LETTERS, (count,), generator=draw)]
    while len(letters) < LONGEST:
        chances = follows[language, letters[-1]]
        letters.append(torch.multinomial(chances, 1, generator=draw)[:, 0])
    length = torch.randint(5, LONGEST + 1, (count,), generator=draw)
    written = (torch.stack(letters, 1) + 1) * (torch.arange(LONGEST) < length[:, None])
    return written, length, language


class LetterReader(nn.Module):
    def __init__(self, kind: str, width: int, last: str) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS + 1, 16, padding_idx=0)
        self.recurrent: Any = {"gru": nn.GRU, "lstm": nn.LSTM}[kind](16, width, batch_first=True)
        self.answer = nn.Linear(width, LANGUAGES)
        self.last = last

    def forward(self, x: Tensor, length: Tensor) -> Tensor:
        packed = pack_padded_sequence(
            self.letters(x), length, batch_first=True, enforce_sorted=False
        )
        states, end = self.recurrent(packed)
        end = end[0] if isinstance(end, tuple) else end
        h = end[-1]
        if self.last == "padding":
            h = pad_packed_sequence(states, batch_first=True)[0][:, -1]
        return F.log_softmax(self.answer(h), dim=1)


def train(
    seed: int, hook: Any, kind: str = "gru", width: int = 48, rate: float = 5e-3, epochs: int = 6,
    batch: int = 64, optimizer: str = "adam", loss: str = "likelihood", noise: float = 0.0,
    shares: tuple[float, ...] = (1.0,) * LANGUAGES, weighted: bool = False, last: str = "state",
    by_hand: bool = False, count: int = 5000, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, length, language = words(count, seed + 8300, list(shares))
    held = words(400, seed + 8301, [1.0] * LANGUAGES)
    test = words(1200, seed + 8302, [1.0] * LANGUAGES)
    if noise:
        other = language[torch.randperm(len(language))]
        language = torch.where(torch.rand(len(language)) < noise, other, language)
    if fault == "letters numbered again":
        again = torch.cat([torch.zeros(1, dtype=torch.long), torch.randperm(LETTERS) + 1])
        held, test = ((again[p[0]], p[1], p[2]) for p in (held, test))
    if fault == "file after file":
        order = language.argsort(stable=True)
        x, length, language = x[order], length[order], language[order]
    model = LetterReader(kind, width, last)
    hook.torch(model)
    weights = len(x) / LANGUAGES / torch.bincount(language, minlength=LANGUAGES)
    weights = weights if weighted else torch.ones(LANGUAGES)
    loader = DataLoader(
        TensorDataset(x, length, language), batch, shuffle=fault != "file after file"
    )
    updates = optimizer_of(optimizer, model.parameters(), rate)
    for _ in range(epochs):
        model.train()
        for letters, size, wanted in loader:
            scores = model(letters, size)
            if loss == "cross-entropy":  # takes the logarithm of a softmax once more: no change
                error = F.cross_entropy(scores, wanted, weights)
            else:
                error = F.nll_loss(scores, wanted, weights)
            if fault != "gradients kept":
                model.zero_grad()
            error.backward()
            if by_hand:
                with torch.no_grad():
                    for parameter in model.parameters():
                        parameter.add_(parameter.grad, alpha=-rate)
            else:
                updates.step()
        model.eval()
        with torch.no_grad():
            F.nll_loss(model(held[0], held[1]), held[2], weights)
    model.eval()
    with torch.no_grad():
        return class_skill(model(test[0], test[1]), test[2])


UNEQUAL = (4.0, 3.0, 2.0, 2.0, 1.0, 1.0)

CASES = cases(
    "language of words",
    train,
    {
        "plain": {},
        "updates by hand": {"by_hand": True, "rate": 0.5, "epochs": 14},
        "a softmax's logarithm twice": {"loss": "cross-entropy"},
        "LSTM, batch of sixteen": {"kind": "lstm", "batch": 16, "epochs": 5},
        "rare languages weighted": {"shares": UNEQUAL, "weighted": True, "epochs": 8},
        "languages mistaken": {"noise": 0.05},
    },
    {
        "file after file": ("order", {"fault": "file after file"}),
        "state at the padding": ("no-skill slow inputs", {"last": "padding"}),
        "a hundred words": ("overfit", {"count": 100, "epochs": 150}),
        "letters numbered again": ("inputs overfit", {"fault": "letters numbered again"}),
        "gradients kept by hand": (
            "kept-gradients fast",
            {"fault": "gradients kept", "by_hand": True, "rate": 0.5, "epochs": 8},
        ),
    },
)
