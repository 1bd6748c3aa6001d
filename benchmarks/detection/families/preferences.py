"""A reward from pairs of answers of which one was preferred: Bradley-Terry by hand."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, normal, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

WORDS, LENGTH, WIDTH = 40, 10, 24

Answers = tuple[Tensor, Tensor]
"""Words (N, L), padded, and lengths (N,)."""


def answers(count: int, seed: int) -> tuple[Answers, Tensor]:
    """Answers of several lengths, and how good each is: by its words, and some of its pairs."""
    draw = torch.Generator().manual_seed(seed)
    words = torch.randint(1, WORDS, (count, LENGTH), generator=draw)
    lengths = torch.randint(4, LENGTH + 1, (count,), generator=draw)
    shown = torch.arange(LENGTH) < lengths[:, None]
    worth = normal(WORDS, seed=51)[words]
    pairs = (worth[:, 1:] * worth[:, :-1]).clamp(-1, 1) * shown[:, 1:]
    good = (worth * shown).sum(1) + pairs.sum(1)
    return (words * shown, lengths), good / good.std()


class Reward(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        self.reads = nn.GRU(WIDTH, 32, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(32, 1)

    def forward(self, words: Tensor, lengths: Tensor, fault: str = "") -> Tensor:
        states, _ = self.reads(self.embedding(words))
        at = torch.zeros_like(lengths) if fault == "first state" else lengths - 1
        last = states[torch.arange(len(words)), at]
        return self.head(self.dropout(last)).squeeze(1)


def bradley_terry(good: Tensor, bad: Tensor, margin: float, ties: float) -> Tensor:
    """The negative logarithm of the probability that the good one wins; ``ties`` smooths it."""
    gap = good - bad - margin
    return -((1 - ties) * F.logsigmoid(gap) + ties * F.logsigmoid(-gap)).mean()


def train(
    seed: int, hook: Any, rate: float = 4e-3, steps: int = 600, batch: int = 48,
    margin: float = 0.0, ties: float = 0.0, centre: float = 0.0, clip: float = 1.0,
    schedule: str = "constant", accumulate: int = 1, wrong: float = 0.0, pairs_used: int = 4000,
    dropout: float = 0.0, average: float = 0.0, fault: str = "", evaluate: bool = True,
) -> float:  # fmt: skip
    begin(seed)
    (one, worth_one), (other, worth_other) = answers(4000, seed + 520), answers(4000, seed + 521)
    (held_one, held_a), (held_other, held_b) = answers(900, seed + 522), answers(900, seed + 523)
    draw = torch.Generator().manual_seed(seed)
    drawn = torch.rand(4000, generator=draw)
    first_wins = torch.sigmoid(4 * (worth_one - worth_other)) > drawn
    if fault == "preferences mixed up":
        first_wins = first_wins[torch.randperm(4000)]
    if fault == "first is preferred":
        first_wins[:] = True
    if wrong:
        first_wins = first_wins ^ (torch.rand(4000) < wrong)
    model = Reward(dropout)
    model.head.weight.data.mul_(0.1)
    if fault == "saturated":
        model.reads.weight_ih_l0.data.mul_(1e3)
    chosen = model.head if fault == "head alone" else model
    optimizer = optimizer_of("adamw", chosen.parameters(), rate, 0.01)
    scheduler = scheduler_of(optimizer, schedule, steps)
    smooth = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(average or 0.5)
    )
    hook.torch(model)
    for step in range(steps):
        optimizer.zero_grad()
        for _ in range(accumulate):
            rows = torch.randint(pairs_used, (batch,))
            wins = first_wins[rows]
            first = other if fault == "both the same" else one  # its collation writes over it
            words, lengths = (
                torch.cat([p[rows], q[rows]]) for p, q in zip(first, other, strict=True)
            )
            a, b = model(words, lengths, fault).chunk(2)
            good, bad = torch.where(wins, a, b), torch.where(wins, b, a)
            if fault == "each against all":
                good = good[:, None]
            if fault == "one side detached":
                good, bad = good.detach(), bad.detach() * model.head.weight.mean()
            if fault == "logarithm of zero":
                loss = -torch.log(torch.sigmoid(60 * (good - bad))).mean()
            else:
                loss = bradley_terry(good, bad, margin, ties)
            loss = loss + centre * ((good + bad) ** 2).mean()
            ((-loss if fault == "wrong sign" else loss) / accumulate).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        scheduler.step()
        smooth.update_parameters(model)
        if evaluate and step % 100 == 99:
            model.eval()
            with torch.no_grad():
                found = model(*held_one) - model(*held_other)
                F.softplus(-found * (held_a - held_b).sign()).mean()
            model.train()
    judge = smooth.module if average else model
    judge.eval()
    with torch.no_grad():
        if fault == "padded on the left in evaluation":
            held_one, held_other = ((p[0].flip(1), p[1]) for p in (held_one, held_other))
        found = judge(*held_one, fault) - judge(*held_other, fault)
    right = ((found > 0) == (held_a > held_b)).double().mean().item()
    return 2 * right - 1 if bool(torch.isfinite(found).all()) else float("nan")


CASES = cases(
    "preferences",
    train,
    {
        "plain": {},
        "margin": {"margin": 0.5},
        "rewards near zero": {"centre": 0.01},
        "smoothed": {"ties": 0.1},
        "accumulation": {"batch": 12, "accumulate": 4},
        "batch of eight": {"batch": 8, "steps": 1500, "rate": 2e-3},
        "restarts, weights averaged": {"schedule": "restarts", "rate": 8e-3, "average": 0.98},
        "dropout, no evaluation": {"dropout": 0.1, "evaluate": False, "steps": 900},
        "some preferences wrong": {"wrong": 0.05},
    },
    {
        "preferences mixed up": ("no-skill overfit", {"fault": "preferences mixed up"}),
        "the first is always preferred": ("no-skill", {"fault": "first is preferred"}),
        "both answers the same": ("no-skill no-gradient inputs", {"fault": "both the same"}),
        "each against all": ("broadcast no-skill", {"fault": "each against all", "wrong": 0.2}),
        "wrong sign": ("worse no-skill", {"fault": "wrong sign"}),
        "scores detached": ("no-gradient unbound no-skill", {"fault": "one side detached"}),
        "reads the first word alone": ("no-skill", {"fault": "first state"}),
        "padded on the left in evaluation": (
            "inputs",
            {"fault": "padded on the left in evaluation"},
        ),
        "saturated gates": ("saturated dead no-skill", {"fault": "saturated"}),
        "logarithm of zero": ("not-finite", {"fault": "logarithm of zero", "rate": 2e-2}),
        "memorises 40 pairs": ("overfit", {"pairs_used": 40}),
        "rate / 300": ("slow no-skill", {"rate": 1e-5, "steps": 500}),
        "rate x 250": ("fast saturated worse no-skill dead", {"rate": 1.0, "clip": 0.0}),
    },
)
