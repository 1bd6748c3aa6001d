"""Which items a user likes, by factors of a matrix; ratings or pairs, sparse gradients."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, explained, normal
from torch import Tensor, nn

from benchmarks.detection.case import cases

USERS, ITEMS, WIDTH = 120, 80, 8


def ratings(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    user = torch.randint(USERS, (count,), generator=draw)
    item = torch.randint(ITEMS, (count,), generator=draw)
    match = (normal(USERS, 3, seed=21)[user] * normal(ITEMS, 3, seed=22)[item]).sum(1)
    return user, item, match + 0.3 * torch.randn(count, generator=draw)


class Factors(nn.Module):
    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.users = nn.Embedding(USERS, WIDTH, sparse=sparse)
        self.items = nn.Embedding(ITEMS, WIDTH, sparse=sparse)
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, 0, 0.3)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        return (self.users(user) * self.items(item)).sum(1)


def train(
    seed: int,
    hook: Any,
    rate: float = 1e-2,
    steps: int = 1500,
    batch: int = 128,
    sparse: bool = True,
    loss: str = "squares",
    noise: float = 0.0,
    fault: str = "",
    memorise: int | None = None,
    decay: float = 0.0,
) -> float:
    begin(seed)
    user, item, rating = ratings(memorise or 40_000, seed + 90)
    held = ratings(4000, seed + 91)
    if fault == "shuffled":
        rating = rating[torch.randperm(len(rating))]
    rating = rating + noise * torch.randn(len(rating))
    model = Factors(sparse)
    parameters = list(model.items.parameters() if fault == "left out" else model.parameters())
    optimizer: Any = (
        torch.optim.SparseAdam(parameters, rate)
        if sparse
        else torch.optim.AdamW(parameters, rate, weight_decay=decay)
    )
    criterion: Any = {"squares": nn.MSELoss(), "huber": nn.HuberLoss(), "pairs": None}[loss]
    hook.torch(model)
    for step in range(steps):
        rows = torch.randint(len(user), (batch,))
        wanted = rating[rows]
        if fault == "broadcast":
            wanted = wanted[:, None]
        if fault == "users all the same":
            found = model(torch.zeros_like(user[rows]), item[rows])
        else:
            found = model(user[rows], item[rows])
        if loss == "pairs":  # of two visits by one user the better one is to be first
            other = torch.randint(ITEMS, (batch,))
            hidden = normal(USERS, 3, seed=21)[user[rows]] * normal(ITEMS, 3, seed=22)[other]
            first = (wanted.flatten() > hidden.sum(1)).float() * 2 - 1
            if fault == "pairs by chance":
                first = first[torch.randperm(batch)]
            value = -F.logsigmoid(first * (found - model(user[rows], other))).mean()
        else:
            value = criterion(found, wanted)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        if step % 250 == 249 and loss != "pairs":
            model.eval()
            with torch.no_grad():
                criterion(model(held[0], held[1]), held[2])
            model.train()
    model.eval()
    with torch.no_grad():
        found = model(held[0], held[1])
    if not bool(torch.isfinite(found).all()):
        return float("nan")
    if loss == "pairs":
        return float(torch.corrcoef(torch.stack([found, held[2]]))[0, 1])
    return explained(found, held[2])


CASES = cases(
    "recommender",
    train,
    {
        "plain": {},
        "dense gradients": {"sparse": False},
        "pairs": {"loss": "pairs", "steps": 2000},
        "Huber": {"loss": "huber", "steps": 1800},
        "ratings with noise": {"noise": 0.3},
        "batch of sixteen": {"batch": 16, "steps": 2500, "rate": 1e-2},
    },
    {
        "ratings shuffled": ("no-skill", {"fault": "shuffled"}),
        "pairs by chance": ("no-skill", {"loss": "pairs", "fault": "pairs by chance"}),
        "(N) against (N, 1)": ("broadcast no-skill", {"fault": "broadcast"}),
        "users in no optimizer": ("unbound", {"fault": "left out"}),
        "users all the same": ("inputs no-skill", {"fault": "users all the same"}),
        "memorises 300": ("overfit", {"memorise": 300}),
        "rate x 1000": ("fast no-skill", {"rate": 10.0}),
        "rate / 1000": ("slow no-skill", {"rate": 1e-5}),
        "decay forgets": ("no-skill collapse", {"sparse": False, "decay": 30.0}),
    },
)
