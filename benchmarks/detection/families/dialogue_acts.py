"""Acts of a dialogue, by recurrent networks of two levels: words to turns, and turns to a dialogue.

Of up to seven turns of up to six words, each asks, answers, agrees, refuses, thanks or tells. Many
words are said in two acts, and what was said before decides. Both levels are packed. The skill is
the accuracy over turns, above that of the most frequent act.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, class_skill, scheduler_of
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks.detection.case import cases

ACTS, TURNS, LONGEST, EACH, SHARED = 6, 7, 6, 10, 12
WORDS = 1 + ACTS * EACH + ACTS // 2 * SHARED
AFTER = torch.tensor(
    [
        [1.0, 14, 1, 3, 1, 1], [5, 1, 8, 1, 4, 2], [8, 1, 1, 1, 1, 8],
        [4, 1, 1, 1, 1, 10], [6, 1, 2, 1, 1, 4], [3, 1, 7, 7, 2, 1],
    ]
)  # fmt: skip
"""How often each act follows: asks, answers, agrees, refuses, thanks, tells."""


def dialogues(count: int, seed: int) -> dict[str, Tensor]:
    """Words (N, TURNS, LONGEST), acts (N, TURNS) with -100 behind the last, and the turns."""
    draw = torch.Generator().manual_seed(seed)
    acts = [torch.multinomial(torch.ones(count, ACTS), 1, generator=draw)[:, 0]]
    for _ in range(TURNS - 1):
        acts.append(torch.multinomial(AFTER[acts[-1]], 1, generator=draw)[:, 0])
    act, shape = torch.stack(acts, 1), (count, TURNS, LONGEST)
    own = act[..., None] * EACH + torch.randint(EACH, shape, generator=draw)
    shared = act[..., None] // 2 * SHARED + torch.randint(SHARED, shape, generator=draw)
    words = 1 + torch.where(torch.rand(shape, generator=draw) < 0.15, own, ACTS * EACH + shared)
    length = torch.randint(1, LONGEST + 1, (count, TURNS, 1), generator=draw)
    turns = torch.randint(3, TURNS + 1, (count,), generator=draw)
    act = act.masked_fill(torch.arange(TURNS) >= turns[:, None], -100)
    return {"words": words * (torch.arange(LONGEST) < length), "acts": act, "turns": turns}


class TwoLevels(nn.Module):
    def __init__(self, width: int, dropout: float, residual: bool, fault: str) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width, padding_idx=0)
        self.turn = nn.GRU(width, width, batch_first=True)
        self.dialogue = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(dropout)
        self.act = nn.Linear(2 * width, ACTS)
        self.own = nn.Linear(width, ACTS) if residual else None
        self.fault = fault

    def forward(self, words: Tensor, turns: Tensor) -> Tensor:
        count = len(words)
        flat = words.flatten(0, 1)
        length, order = (flat != 0).sum(1).sort(descending=True)
        packed = pack_padded_sequence(self.words(flat[order]), length, batch_first=True)
        out, last = self.turn(packed)
        if self.fault == "last place of the padded":
            h = pad_packed_sequence(out, batch_first=True, total_length=LONGEST)[0][:, -1]
        else:
            h = last[0]
        if self.fault != "order not restored":
            h = h[order.argsort()]
        h = self.dropout(h).view(count, TURNS, -1)
        if self.fault == "dialogues taken for time":
            packed = pack_padded_sequence(h.transpose(0, 1), torch.full((TURNS,), count), True)
            both = pad_packed_sequence(self.dialogue(packed)[0], True)[0].transpose(0, 1)
            both = both.reshape(TURNS, count, -1).roll(1, 0).transpose(0, 1)
        else:
            packed = pack_padded_sequence(h, turns, batch_first=True, enforce_sorted=False)
            both = pad_packed_sequence(self.dialogue(packed)[0], True, total_length=TURNS)[0]
        scores: Tensor = self.act(self.dropout(both))
        return scores if self.own is None else scores + self.own(h)


def train(
    seed: int, hook: Any, rate: float = 4e-3, steps: int = 500, batch: int = 16,
    optimizer: str = "adam", schedule: str = "constant", dropout: float = 0.0, clip: float = 0.0,
    residual: bool = False, summed: bool = False, count: int = 1500, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    data, held = dialogues(count, seed + 90), dialogues(100, seed + 91)
    test = dialogues(600, seed + 92)
    if fault == "acts of the turn before":
        data["acts"][:, 1:] = data["acts"][:, :-1].where(data["acts"][:, 1:] >= 0, -100)
    model = TwoLevels(32, dropout, residual, fault)
    hook.torch(model)
    kind = torch.optim.RMSprop if optimizer == "rmsprop" else torch.optim.Adam
    descent = kind(model.parameters(), lr=rate)
    scheduler = scheduler_of(descent, schedule, steps)
    loss_of = nn.CrossEntropyLoss(reduction="sum" if summed else "mean")
    for step in range(steps):
        rows = torch.randperm(count)[:batch]
        scores = model(data["words"][rows], data["turns"][rows])
        loss = loss_of(scores.flatten(0, 1), data["acts"][rows].flatten())
        descent.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        descent.step()
        scheduler.step()
        if step % 100 == 99:
            model.eval()
            with torch.no_grad():
                scores = model(held["words"], held["turns"])
                F.cross_entropy(scores.flatten(0, 1), held["acts"].flatten())
            model.train()
    model.eval()
    with torch.no_grad():
        scores = model(test["words"], test["turns"])
    real = test["acts"] >= 0
    return class_skill(scores[real], test["acts"][real])


CASES = cases(
    "dialogue acts",
    train,
    {
        "plain": {},
        "loss summed, clipped": {"summed": True, "clip": 1.0},
        "turns beside the dialogue": {"residual": True},
        "RMSprop, one cycle": {"optimizer": "rmsprop", "schedule": "one cycle"},
        "dropout": {"dropout": 0.2, "steps": 600},
    },
    {
        "order not restored": ("no-skill overfit", {"fault": "order not restored"}),
        "last place of the padded": ("inputs no-skill", {"fault": "last place of the padded"}),
        "dialogues taken for time": ("no-skill overfit", {"fault": "dialogues taken for time"}),
        "acts of the turn before": ("inputs overfit worse", {"fault": "acts of the turn before"}),
        "twenty dialogues": ("overfit", {"count": 20}),
    },
)  # fmt: skip
