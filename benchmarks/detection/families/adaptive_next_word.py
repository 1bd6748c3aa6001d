"""The next word, by a recurrent network with an adaptive softmax or embeddings tied to its output.

A text of three hundred words, frequent and rare as words are: each most often draws one of three
others after it, and after one of the ten commonest the word before that decides. The text runs in
parallel columns with the state carried on. The skill is the share of the nats between frequencies
alone and the text's own chances.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn

from benchmarks.detection.case import cases

WORDS, COMMON, SPAN, WIDTH = 300, 10, 10, 40
FREQUENCY = 1 / np.arange(3, WORDS + 3)
FREQUENCY /= FREQUENCY.sum()
NEXT = np.random.default_rng(11).choice(WORDS, (2, WORDS, 3), p=FREQUENCY)
CHANCE = 0.15 * FREQUENCY[None, None] + np.zeros((2, WORDS, 1))
for place, share in enumerate((0.5, 0.25, 0.1)):
    np.add.at(CHANCE, (*np.indices((2, WORDS)), NEXT[..., place]), share)


def text(count: int, seed: int) -> tuple[Tensor, float]:
    """Words by their rank, and the mean nats of each under the chances it was drawn by."""
    draw = np.random.default_rng(seed)
    summed = CHANCE.cumsum(2)
    words, nats = [20, 30], 0.0
    for chance in draw.random(count):
        skipped = words[-1] < COMMON
        table = (1, words[-2]) if skipped else (0, words[-1])
        word = min(int(np.searchsorted(summed[table], chance)), WORDS - 1)
        nats -= math.log(CHANCE[table][word])
        words.append(word)
    return torch.tensor(words[2:]), nats / count


def columns(words: Tensor, count: int, wrong: bool = False) -> Tensor:
    """(length, count): column after column is the text."""
    words = words[: len(words) // count * count]
    return words.view(-1, count) if wrong else words.view(count, -1).t().contiguous()


class Reader(nn.Module):
    def __init__(self, kind: str, cell: str, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        nn.init.uniform_(self.words.weight, -0.1, 0.1)
        self.recurrent: Any = (nn.LSTM if cell == "lstm" else nn.GRU)(WIDTH, WIDTH)
        self.dropout = nn.Dropout(dropout)
        if kind == "adaptive":
            self.adaptive = nn.AdaptiveLogSoftmaxWithLoss(WIDTH, WORDS, [40, 120], div_value=2.0)
        else:
            self.bias = nn.Parameter(torch.zeros(WORDS))
        self.kind = kind

    def forward(self, words: Tensor, wanted: Tensor, state: Any) -> tuple[Any, Any]:
        """What the last layer says, and the state to carry on."""
        h, state = self.recurrent(self.dropout(self.words(words)), state)
        dropped = self.dropout(h).flatten(0, 1)
        if self.kind == "adaptive":
            return self.adaptive(dropped, wanted.flatten()), state
        return F.linear(dropped, self.words.weight, self.bias), state


def carried(state: Any) -> Any:
    return tuple(s.detach() for s in state) if isinstance(state, tuple) else state.detach()


def train(
    seed: int, hook: Any, kind: str = "adaptive", cell: str = "gru", optimizer: str = "adam",
    rate: float = 3e-3, updates: int = 2000, batch: int = 16, dropout: float = 0.0,
    carry: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    (past, _), (held, _), (test, floor) = (
        text(n, seed + 10 * k) for k, n in ((1, 40000), (2, 2000), (3, 6000))
    )
    lines = columns(past, batch, wrong=fault == "columns of the wrong view")
    model = Reader(kind, cell, dropout)
    hook.torch(model)
    descent = torch.optim.SGD if optimizer == "sgd" else torch.optim.Adam
    steps = descent(model.parameters(), lr=rate)

    def loss_of(out: Any, wanted: Tensor) -> Any:
        if kind == "adaptive":
            return out.output.mean() if fault == "output for the loss" else out.loss
        if fault == "scores for logarithms":
            return F.nll_loss(out, wanted.flatten())
        return F.cross_entropy(out, wanted.flatten())

    def wanted_of(line: Tensor) -> Tensor:
        return line[:-1] if fault == "wanted is not shifted" else line[1:]

    best, state, at = math.inf, None, 0
    for update in range(updates):
        if at + SPAN >= len(lines):
            at, state = 0, None
        part = lines[at : at + SPAN + 1]
        out, state = model(part[:-1], wanted_of(part), state)
        state = carried(state) if carry else None
        loss = loss_of(out, wanted_of(part))
        steps.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        steps.step()
        at += SPAN
        if update % 100 == 99:
            model.eval()
            with torch.no_grad():
                line = columns(held, 10)
                now = float(loss_of(model(line[:-1], wanted_of(line), None)[0], wanted_of(line)))
            model.train()
            if optimizer == "sgd" and (now < best) == (fault == "annealed when better"):
                steps.param_groups[0]["lr"] /= 2
            best = min(best, now)
    seen = torch.bincount(past, minlength=WORDS) + 1.0
    alone = float(-(seen / seen.sum()).log()[test].mean())
    model.eval()
    with torch.no_grad():
        line = columns(test, 10)
        out = model(line[:-1], line[1:], None)[0]
        nats = out.loss if kind == "adaptive" else F.cross_entropy(out, line[1:].flatten())
    return (alone - float(nats)) / (alone - floor)


SGD: dict[str, Any] = {"optimizer": "sgd", "rate": 8.0, "cell": "lstm"}

CASES = cases(
    "adaptive next word",
    train,
    {
        "plain": {},
        "tied embeddings": {"kind": "tied"},
        "SGD, annealed when no better": SGD,
        "dropout": {"dropout": 0.1},
        "state not carried on": {"carry": False},
    },
    {
        "columns of the wrong view": ("no-skill order", {"fault": "columns of the wrong view"}),
        "wanted is not shifted": ("leak", {"fault": "wanted is not shifted"}),
        "output for the loss": ("worse no-skill", {"fault": "output for the loss"}),
        "scores for logarithms": (
            "probabilities worse", {"kind": "tied", "fault": "scores for logarithms"},
        ),
        "annealed when better": ("schedule slow", {**SGD, "fault": "annealed when better"}),
    },
)  # fmt: skip
