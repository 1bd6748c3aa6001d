"""The next token of a language with a grammar of its own, by a recurrent network."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from benchmarks.detection.kit import normal
from benchmarks.detection.task import Samples, Task

TOKENS, LENGTH = 24, 16


class RecurrentModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(TOKENS, 24)
        self.cell = nn.GRU(24, 32, batch_first=True)
        self.head = nn.Linear(32, TOKENS)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.cell(self.embed(x))[0])
        return scores


def sentences(count: int, seed: int) -> Tensor:
    """A token depends on the two before it; each has about three likely successors."""
    likely = (3 * normal(TOKENS, TOKENS, TOKENS, seed=13)).softmax(2)
    draw = torch.Generator().manual_seed(seed)
    found = [torch.randint(TOKENS, (count,), generator=draw) for _ in range(2)]
    while len(found) <= LENGTH:
        chances = likely[found[-2] % 3, found[-1]]
        found.append(torch.multinomial(chances, 1, generator=draw)[:, 0])
    return torch.stack(found, 1)


def samples(seed: int) -> Samples:
    train, held = sentences(3000, seed + 210), sentences(400, seed + 211)
    return Samples(train[:, :-1], train[:, 1:], held[:, :-1], held[:, 1:])


def criterion(scores: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(scores.transpose(1, 2), y)


def skill(scores: Tensor, y: Tensor) -> float:
    shares = torch.bincount(y.flatten(), minlength=TOKENS) / y.numel()
    entropy = -(shares * shares.clamp(min=1e-9).log()).sum()
    return 2 * (1 - (criterion(scores, y) / entropy).item())


TASK = Task(
    frozenset(["tokens", "causal", "recurrent"]),
    samples,
    RecurrentModel,
    criterion,
    skill,
    {"steps": 500, "rate": 1e-2},
)
