"""Word vectors by skip-gram with negative sampling, with the loss written by hand.

Made-up texts keep to one of twelve subjects, between words such as "the" that go with everything.
The skill is the share of a word's five nearest neighbours that belong to its subject, above chance.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin, scheduler_of

SUBJECTS, EACH, COMMON, WIDTH, LENGTH = 12, 20, 20, 48, 16
WORDS = SUBJECTS * EACH + COMMON


def texts(count: int, seed: int) -> Tensor:
    """(count, LENGTH) words; those that go with everything are the last ones."""
    draw = torch.Generator().manual_seed(seed)
    often = 1 / torch.arange(2, EACH + 2).float()
    own = torch.multinomial(often, count * LENGTH, replacement=True, generator=draw)
    own = own.view(count, LENGTH) + EACH * torch.randint(SUBJECTS, (count, 1), generator=draw)
    common = torch.randint(SUBJECTS * EACH, WORDS, (count, LENGTH), generator=draw)
    return torch.where(torch.rand(count, LENGTH, generator=draw) < 0.5, own, common)


def pairs(words: Tensor, subsample: bool, window: int = 4) -> Tensor:
    """(N, 2): a word, and one near it."""
    near = [torch.stack([words[:, :-d], words[:, d:]], -1).view(-1, 2) for d in range(1, window)]
    found = torch.cat(near)
    found = torch.cat([found, found.flip(1)])
    if subsample:
        share = torch.bincount(words.flatten(), minlength=WORDS) / words.numel()
        kept = (0.004 / share.clamp(min=1e-6)).sqrt().clamp(max=1)
        found = found[(torch.rand(found.shape) < kept[found]).all(1)]
    return found[torch.randperm(len(found))]


class SkipGram(nn.Module):
    def __init__(self, start: str, sparse: bool) -> None:
        super().__init__()
        self.centre = nn.Embedding(WORDS, WIDTH, sparse=sparse)
        self.context = nn.Embedding(WORDS, WIDTH, sparse=sparse)
        if start != "normal":
            nn.init.uniform_(self.centre.weight, -0.5 / WIDTH, 0.5 / WIDTH)
            nn.init.uniform_(self.context.weight, -0.5 / WIDTH, 0.5 / WIDTH)
        if start in ("contexts at zero", "zero"):
            nn.init.zeros_(self.context.weight)
        if start == "zero":
            nn.init.zeros_(self.centre.weight)

    def forward(self, centre: Tensor, context: Tensor, others: Tensor, fault: str) -> Tensor:
        """The loss of each pair (N,), with other words (N, K) as negatives."""
        u, v, n = self.centre(centre), self.context(context), self.context(others)
        right = (u.unsqueeze(1) * v).sum(-1) if fault == "broadcast" else (u * v).sum(-1)
        wrong = torch.bmm(n, u.unsqueeze(2)).squeeze(2)
        if fault == "logarithm":
            return -right.sigmoid().log() - (1 - wrong.sigmoid()).log().sum(1)
        sign = 1 if fault == "sign" else -1
        return -F.logsigmoid(right) - F.logsigmoid(sign * wrong).sum(1)


def train(
    seed: int, hook: Any, optimizer: str = "adam", rate: float = 1e-2, steps: int = 900,
    batch: int = 256, negatives: int = 5, start: str = "uniform", summed: bool = False,
    subsample: bool = True, schedule: str = "constant", evaluated: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    words = texts(3000, seed + 8100)
    chosen, held = pairs(words, subsample), pairs(texts(300, seed + 8101), subsample)
    weights = torch.bincount(words.flatten(), minlength=WORDS).float() ** 0.75
    model = SkipGram(start, optimizer == "sparse")
    hook.torch(model)
    updates: Any = {
        "adam": torch.optim.Adam, "sparse": torch.optim.SparseAdam, "sgd": torch.optim.SGD,
        "adagrad": torch.optim.Adagrad,
    }[optimizer](model.parameters(), lr=rate)  # fmt: skip
    falls = scheduler_of(updates, schedule, steps)

    def loss_of(rows: Tensor) -> Tensor:
        others = torch.multinomial(weights, len(rows) * negatives, replacement=True)
        each = model(rows[:, 0], rows[:, 1], others.view(len(rows), negatives), fault)
        return each.sum() if summed else each.mean()

    for step in range(steps):
        first = step * batch % (len(chosen) - batch)
        loss = loss_of(chosen[first : first + batch])
        updates.zero_grad()
        loss.backward()
        updates.step()
        falls.step()
        if evaluated and step % 100 == 99:
            model.eval()
            with torch.no_grad():
                loss_of(held[:1024])
            model.train()
    vectors = F.normalize(model.centre.weight.detach()[: SUBJECTS * EACH], dim=1)
    if not bool(torch.isfinite(vectors).all()) or bool((vectors == 0).all()):
        return math.nan
    alike = (vectors @ vectors.T).fill_diagonal_(-2).topk(5).indices // EACH
    same = (alike == torch.arange(SUBJECTS * EACH)[:, None] // EACH).double().mean().item()
    chance = (EACH - 1) / (SUBJECTS * EACH - 1)
    return float((same - chance) / (1 - chance))


CASES = cases(
    "word vectors",
    train,
    {
        "plain": {},
        "summed loss by descent": {"optimizer": "sgd", "rate": 0.05, "summed": True},
        "sparse gradients": {"optimizer": "sparse"},
        "contexts start at zero": {"start": "contexts at zero", "schedule": "one cycle"},
        "frequent words kept": {"subsample": False, "steps": 1400},
        "fifteen negatives without evaluation": {"negatives": 15, "evaluated": False},
    },
    {
        "negatives pulled nearer": ("collapse no-skill saturated", {"fault": "sign"}),
        "scores of all with all": (
            "broadcast no-skill collapse",
            {"fault": "broadcast", "batch": 64},
        ),
        "logarithm of a sigmoid": ("not-finite", {"fault": "logarithm", "start": "normal"}),
        "both tables start at zero": ("no-gradient dead no-skill", {"start": "zero"}),
        "rate of a sum for a mean": (
            "slow no-skill",
            {"optimizer": "sgd", "rate": 0.025, "schedule": "one cycle"},
        ),
    },
)
