"""Which people of a made-up network know each other: messages by sparse products, negatives."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of, ranking_skill, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

PEOPLE, FEATURES = 500, 20


def network(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Features (N, F), the pairs (E, 2) that are known, and those held out."""
    draw = torch.Generator().manual_seed(seed)
    place = torch.randn(PEOPLE, 4, generator=draw)
    near = torch.cdist(place, place) + 0.25 * torch.randn(PEOPLE, PEOPLE, generator=draw)
    near = (near + near.T).triu(1) + 1e6 * torch.ones(PEOPLE, PEOPLE).tril()
    pairs = near.flatten().argsort()[:4500]
    pairs = torch.stack([pairs // PEOPLE, pairs % PEOPLE], 1)
    pairs = pairs[torch.randperm(len(pairs), generator=draw)]
    mixing = torch.randn(4, FEATURES, generator=draw)
    seen = torch.tanh(place @ mixing) + 0.8 * torch.randn(PEOPLE, FEATURES, generator=draw)
    return seen, pairs[:3600], pairs[3600:]


def adjacency(pairs: Tensor, fault: str = "") -> Tensor:
    """A sparse matrix (N, N) with loops, of which the rows and columns are normalised."""
    both = torch.cat([pairs, pairs.flip(1), torch.arange(PEOPLE)[:, None].repeat(1, 2)])
    degree = torch.bincount(both[:, 0], minlength=PEOPLE).float()
    values = (degree[both[:, 0]] * degree[both[:, 1]]) ** -0.5
    if fault == "degrees not divided":
        values = (degree[both[:, 0]] * degree[both[:, 1]]) ** 0.5
    shape = (PEOPLE, PEOPLE)
    return torch.sparse_coo_tensor(both.T, values, shape, check_invariants=False).coalesce()


class Encoder(nn.Module):
    def __init__(self, dropout: float, dot: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(FEATURES, 48), nn.Linear(48, 24)
        self.dropout = nn.Dropout(dropout)
        self.decoder = (
            None if dot else nn.Sequential(nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 1))
        )

    def forward(self, graph: Tensor, x: Tensor) -> Tensor:
        hidden = self.dropout(torch.relu(torch.sparse.mm(graph, self.first(x))))
        return torch.sparse.mm(graph, self.second(hidden))

    def score(self, found: Tensor, pairs: Tensor) -> Tensor:
        one, other = found[pairs[:, 0]], found[pairs[:, 1]]
        if self.decoder is None:
            return (one * other).sum(1)
        return self.decoder(one * other).squeeze(1)


def strangers(count: int, known: Tensor, hard: Tensor | None = None) -> Tensor:
    """Pairs at random of which none is known; at one end people who know many, if so wanted."""
    pairs = torch.randint(PEOPLE, (2 * count, 2))
    if hard is not None:
        pairs[:, 0] = hard[torch.randint(len(hard), (2 * count,))]
    codes = pairs.amin(1) * PEOPLE + pairs.amax(1)
    taken = torch.isin(codes, known[:, 0] * PEOPLE + known[:, 1]) | (pairs[:, 0] == pairs[:, 1])
    return pairs[~taken][:count]


def train(
    seed: int, hook: Any, rate: float = 5e-3, steps: int = 700, batch: int = 400,
    dot: bool = False, dropout: float = 0.0, negatives: int = 1, schedule: str = "constant",
    popular: bool = False, weight: float = 1.0, decay: float = 0.0, noise: float = 0.0,
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, known, held = network(seed + 460)
    if noise:
        wrong = torch.rand(len(known)) < noise
        known = torch.where(wrong[:, None], torch.randint(PEOPLE, known.shape), known)
    pairs = known
    if fault == "numbers of people mixed up":
        names = torch.randperm(PEOPLE)
        x, pairs, held = x * 0 + torch.randn(x.shape), names[known], held
    graph, trained_on = adjacency(known, fault), pairs
    if fault == "few pairs":
        trained_on = pairs[:15]
    model = Encoder(dropout, dot)
    if fault == "zero start":
        for value in model.parameters():
            nn.init.zeros_(value)
    chosen = model.decoder if fault == "decoder alone" else model
    assert chosen is not None
    optimizer = optimizer_of("adamw", chosen.parameters(), rate, decay)
    scheduler = scheduler_of(optimizer, schedule, steps)
    hook.torch(model)
    for step in range(steps):
        drawn = trained_on[torch.randint(len(trained_on), (batch,))]
        others = strangers(negatives * batch, known, known[:, 0] if popular else None)
        if fault == "negatives are friends":
            others = known[torch.randint(len(known), (negatives * batch,))]
        if fault == "not a number" and step == 350:
            x[77, 3] = float("inf")
        found = model(graph, x)
        if fault == "messages detached":
            found = found.detach()
        good, bad = model.score(found, drawn), model.score(found, others)
        sign = -1 if fault == "wrong sign" else 1
        loss = weight * F.softplus(-sign * good).mean() + F.softplus(sign * bad).mean()
        if fault == "no negatives":
            loss = F.softplus(-good).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % 100 == 99:
            model.eval()
            with torch.no_grad():
                seen = model(graph, x)
                good, bad = model.score(seen, held), model.score(seen, strangers(900, known))
                (F.softplus(-good).mean() + F.softplus(bad).mean()).item()
            model.train()
    model.eval()
    with torch.no_grad():
        seen = model(graph, x * 100 if fault == "features not scaled" else x)
        both = torch.cat([held, strangers(3000, torch.cat([known, held]))])
        return ranking_skill(model.score(seen, both), (torch.arange(len(both)) < len(held)).float())


CASES = cases(
    "link prediction",
    train,
    {
        "plain": {},
        "scalar product": {"dot": True},
        "five negatives": {"negatives": 5, "weight": 5.0},
        "dropout and decay": {"dropout": 0.3, "decay": 0.1},
        "batch of 24": {"batch": 24, "rate": 2e-3, "steps": 1000},
        "one cycle": {"schedule": "one cycle", "rate": 2e-2},
        "negatives that know many": {"popular": True},
        "some pairs wrong": {"noise": 0.05},
    },
    {
        "numbers mixed up": ("no-skill overfit", {"fault": "numbers of people mixed up"}),
        "negatives are friends": ("no-skill", {"fault": "negatives are friends"}),
        "no negatives": ("collapse no-skill", {"fault": "no negatives"}),
        "wrong sign": ("worse no-skill", {"fault": "wrong sign"}),
        "messages detached": ("no-gradient unbound", {"fault": "messages detached", "rate": 1e-3}),
        "degrees not divided": (
            "inputs worse fast",
            {"fault": "degrees not divided", "rate": 2e-2},
        ),
        "zero start": ("dead no-gradient no-skill", {"fault": "zero start"}),
        "a feature is infinite": ("not-finite", {"fault": "not a number"}),
        "15 pairs": ("overfit", {"fault": "few pairs"}),
        "rate / 1000": ("slow no-skill", {"rate": 5e-6, "steps": 500}),
        "rate x 400": ("fast worse no-skill dead", {"rate": 2.0}),
    },
)
