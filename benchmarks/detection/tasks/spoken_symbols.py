"""Symbols read off a noisy signal without alignment, by CTC."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from benchmarks.detection.task import Samples, Task

FRAMES, CHANNELS, SYMBOLS, LONGEST = 20, 8, 5, 4


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRU(CHANNELS, 24, batch_first=True, bidirectional=True)
        self.head = nn.Linear(48, SYMBOLS + 1)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.cell(x)[0])
        return scores.log_softmax(2)


def signals(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Each symbol lasts two to five frames; a frame of silence precedes it."""
    draw = torch.Generator().manual_seed(seed)
    sounds = torch.randn(SYMBOLS + 1, CHANNELS, generator=torch.Generator().manual_seed(12))
    sounds[0] = 0
    y = torch.randint(1, SYMBOLS + 1, (count, LONGEST), generator=draw)
    y[:, -1] *= torch.randint(2, (count,), generator=draw)
    frames = torch.zeros(count, FRAMES, dtype=torch.long)
    for row, symbols in zip(frames, y, strict=True):
        at = 0
        for symbol in symbols[symbols > 0]:
            length = int(torch.randint(2, 5, (1,), generator=draw))
            row[at + 1 : at + 1 + length] = symbol
            at += 1 + length
    return sounds[frames] + 0.6 * torch.randn(count, FRAMES, CHANNELS, generator=draw), y


def criterion(outputs: Tensor, y: Tensor) -> Tensor:
    lengths = torch.full((len(y),), outputs.shape[1])
    return F.ctc_loss(outputs.transpose(0, 1), y, lengths, (y > 0).sum(1))


def skill(outputs: Tensor, y: Tensor) -> float:
    """The share of signals that are read without a mistake."""
    right = 0
    for frames, symbols in zip(outputs.argmax(2), y, strict=True):
        found = torch.unique_consecutive(frames)
        right += found[found > 0].tolist() == symbols[symbols > 0].tolist()
    return right / len(y)


TASK = Task(
    frozenset(["ctc", "series", "recurrent"]),
    lambda seed: Samples(*signals(1500, seed + 200), *signals(300, seed + 201)),
    Reader,
    criterion,
    skill,
    {"steps": 350, "rate": 1e-2, "clip": 5.0},
)
