"""Clicks of users on items: sparse embeddings of users and items, few clicks, two optimizers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin, dense, normal
from benchmarks.detection.skill import ranking_skill

USERS, ITEMS, WIDTH = 200, 100, 8


def visits(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    tastes, traits = normal(USERS, 3, seed=5), normal(ITEMS, 3, seed=6)
    user = torch.randint(USERS, (count,), generator=draw)
    item = torch.randint(ITEMS, (count,), generator=draw)
    likes = (tastes[user] * traits[item]).sum(1) * 2.5 - 3.0
    click = torch.rand(count, generator=draw) < likes.sigmoid()
    return user, item, click.float()


class Clicks(nn.Module):
    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.users = nn.Embedding(USERS, WIDTH, sparse=sparse)
        self.items = nn.Embedding(ITEMS, WIDTH, sparse=sparse)
        self.top = dense([3 * WIDTH, 32, 1])

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        u, i = self.users(user), self.items(item)
        return self.top(torch.cat([u, i, u * i], 1))


def train(
    seed: int,
    hook: Any,
    rate: float = 5e-3,
    steps: int = 1200,
    batch: int = 128,
    sparse: bool = True,
    positive: float | None = None,
    loss: str = "logits",
    shuffled: bool = False,
    embeddings: bool = True,
    top: bool = True,
    zero_grad: bool = True,
    noise: float = 0.0,
    squeeze: bool = True,
    weight_decay: float = 0.0,
) -> float:
    begin(seed)
    user, item, click = visits(40_000, seed + 40)
    held = visits(4000, seed + 41)
    if shuffled:
        click = click[torch.randperm(len(click))]
    if noise:
        click = torch.where(torch.rand(len(click)) < noise, 1 - click, click)
    model = Clicks(sparse)
    lists = [*model.users.parameters(), *model.items.parameters()] if embeddings else []
    optimizers: list[Any] = []
    if lists:
        optimizers.append((torch.optim.SparseAdam if sparse else torch.optim.Adam)(lists, rate))
    if top:
        optimizers.append(torch.optim.Adam(model.top.parameters(), rate, weight_decay=weight_decay))
    weight = None if positive is None else torch.tensor(positive)
    criterion = {
        "logits": nn.BCEWithLogitsLoss(pos_weight=weight),
        "twice": nn.BCEWithLogitsLoss(),
        "squares": nn.MSELoss(),
    }[loss]
    hook.torch(model)
    for step in range(steps):
        rows = torch.randint(len(click), (batch,))
        scores = model(user[rows], item[rows])
        scores = scores.squeeze(1) if squeeze else scores
        if loss == "twice":
            scores = scores.sigmoid()
        value = criterion(scores, click[rows])
        if zero_grad:
            for optimizer in optimizers:
                optimizer.zero_grad()
        value.backward()
        for optimizer in optimizers:
            optimizer.step()
        if step % 200 == 199:
            model.eval()
            with torch.no_grad():
                criterion(model(held[0], held[1]).squeeze(1), held[2])
            model.train()
    model.eval()
    with torch.no_grad():
        return ranking_skill(model(held[0], held[1]).squeeze(1), held[2])


CASES = cases(
    "click-through rate",
    train,
    {
        "plain": {},
        "dense gradients": {"sparse": False},
        "positives weighted": {"positive": 4.0},
        "small batches": {"batch": 48, "steps": 2500},
        "labels with noise": {"noise": 0.01, "steps": 1400},
    },
    {
        "shuffled labels": ("no-skill overfit", {"shuffled": True}),
        "rate x 1000": ("fast no-skill dead", {"rate": 5.0}),
        "rate / 1000": ("slow no-skill", {"rate": 5e-6}),
        "embeddings in no optimizer": ("unbound no-skill", {"embeddings": False}),
        "(N, 1) against (N)": ("broadcast no-skill", {"squeeze": False, "loss": "squares"}),
        "decay forgets": ("no-skill collapse worse", {"weight_decay": 3.0}),
    },
)
