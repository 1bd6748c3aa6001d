"""Embeddings of faces that were never seen in training: ArcFace and triplets, losses by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, dense, normal, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

PEOPLE, HELD_PEOPLE, TRAITS, SIZE, WIDTH = 60, 40, 6, 40, 16


def faces(people: int, each: int, seed: int) -> tuple[Tensor, Tensor]:
    """Pictures of people in other poses each time; who it is."""
    draw = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), each)
    traits = torch.from_numpy(draw.standard_normal((people, TRAITS))[who]).float()
    pose = torch.from_numpy(draw.standard_normal((len(who), 8))).float()
    blur = torch.from_numpy(draw.standard_normal((len(who), SIZE))).float()
    seen = torch.tanh(traits @ normal(TRAITS, SIZE, seed=51) / 2)
    x = seen + pose @ normal(8, SIZE, seed=52) / 2 + 0.1 * blur
    return x, torch.from_numpy(who)


class ArcFace(nn.Module):
    def __init__(self, people: int, heat: float, margin: float) -> None:
        super().__init__()
        self.centres = nn.Parameter(torch.randn(people, WIDTH))
        self.heat, self.margin = heat, margin

    def forward(self, z: Tensor, who: Tensor, fault: str = "") -> Tensor:
        axis = 0 if fault == "normalised over the batch" else 1
        near = F.normalize(z, dim=axis) @ F.normalize(self.centres, dim=1).T
        angle = torch.acos(near.clamp(-1 + 1e-6, 1 - 1e-6))
        own = F.one_hot(who, len(self.centres)).bool()
        logits = self.heat * torch.where(own, torch.cos(angle + self.margin), near)
        return -logits.log_softmax(1).gather(1, who[:, None]).mean()


def triplets(z: Tensor, who: Tensor, margin: float, mining: str, fault: str) -> Tensor:
    """Of each face: the farthest of the same person, against the nearest of another."""
    z = z if fault == "lengths are free" else F.normalize(z, dim=1)
    apart = ((z[:, None] - z[None]) ** 2).sum(2).clamp(min=1e-9).sqrt()
    same = who[:, None] == who[None]
    if fault == "negatives are positives":
        same = same.logical_not() | torch.eye(len(who)).bool()
    if mining == "all":
        terms = (apart[:, :, None] - apart[:, None, :] + margin).relu()
        counted = (same & ~torch.eye(len(who)).bool())[:, :, None] & ~same[:, None, :]
        return (terms * counted).sum() / ((terms > 0) & counted).sum().clamp(min=1)
    farthest = (apart * same).max(1).values
    nearest = apart.masked_fill(same, math.inf).min(1).values
    if fault == "pull alone":
        return farthest.mean()
    return F.softplus(farthest - nearest).mean() if mining == "soft" else (
        (farthest - nearest + margin).relu().mean()
    )  # fmt: skip


def recall(body: nn.Module, x: Tensor, who: Tensor) -> float:
    """The share of faces whose nearest other one is of the same person, above chance."""
    body.eval()
    with torch.no_grad():
        z = F.normalize(body(x), dim=1)
    near = (z @ z.T).fill_diagonal_(-2)
    right = (who[near.argmax(1)] == who).double().mean().item()
    chance = 1 / HELD_PEOPLE
    return (right - chance) / (1 - chance) if bool(torch.isfinite(z).all()) else math.nan


def train(
    seed: int, hook: Any, loss: str = "arcface", steps: int = 900, rate: float = 3e-3,
    people: int = 12, each: int = 4, heat: float = 16.0, margin: float = 0.3,
    schedule: str = "cosine", optimizer: str = "adam", wrong: float = 0.0, dropout: float = 0.0,
    margin_grows: bool = False, centre_rate: float = 1.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, who = faces(PEOPLE, 40, seed + 360)
    held, held_who = faces(HELD_PEOPLE, 10, seed + 361)
    usual = x.mean(0)
    x, held = x - usual, held - usual
    if fault == "names shuffled":
        who = who[torch.randperm(len(who))]
    if fault == "two people":
        x, who = x[: 2 * each], who[: 2 * each]
    if wrong:
        other = torch.randint(PEOPLE, who.shape)
        who = torch.where(torch.rand(len(who)) < wrong, other, who)
    body = nn.Sequential(nn.Dropout(dropout), dense([SIZE, 64, WIDTH]))
    if fault == "dead units":
        nn.init.constant_(body[1][0].bias, -60.0)
    head = ArcFace(PEOPLE, heat, margin)
    groups: list[dict[str, Any]] = [{"params": [*body.parameters()]}]
    groups += [{"params": [*head.parameters()], "lr": rate * centre_rate}]
    stepper = optimizer_of(optimizer, groups[1:] if fault == "body forgotten" else groups, rate)
    scheduler = scheduler_of(stepper, schedule, steps)
    whole = nn.ModuleDict({"body": body, "head": head})
    hook.torch(whole if loss == "arcface" else body)
    of_person = [(who == person).nonzero().flatten() for person in range(int(who.max()) + 1)]
    for step in range(steps):
        chosen = torch.randperm(len(of_person))[:people]
        parts = [of_person[int(p)][torch.randint(len(of_person[int(p)]), (each,))] for p in chosen]
        rows = torch.cat(parts)
        if margin_grows:
            head.margin = margin * min(1.0, 2 * step / steps)
        z = body(x[rows])
        if fault == "embeddings detached":
            z = z.detach()
        names = who[rows]
        if fault == "names sorted":
            names = names.sort().values
        if loss == "arcface":
            value = head(z, names, fault)
        else:
            value = triplets(z, names, margin, loss, fault)
        stepper.zero_grad()
        value.backward()
        stepper.step()
        scheduler.step()
    return recall(body, held * (255 if fault == "inputs x 255" else 1), held_who)


CASES = cases(
    "angular margin",
    train,
    {
        "plain": {},
        "triplets, hardest": {"loss": "hardest", "steps": 1200},
        "triplets, soft": {"loss": "soft", "steps": 1200},
        "heat of 30, margin grows": {"heat": 30.0, "margin_grows": True},
        "wrong names": {"wrong": 0.1},
        "two of four": {"people": 4, "each": 2, "steps": 1800},
        "centres ten times as fast": {"centre_rate": 10.0},
        "constant rate, momentum": {"schedule": "constant", "optimizer": "momentum", "rate": 5e-2},
    },
    {
        "names shuffled": ("no-skill overfit", {"fault": "names shuffled"}),
        "names sorted": ("no-skill", {"fault": "names sorted"}),
        "negatives are positives": (
            "worse no-skill collapse", {"fault": "negatives are positives", "loss": "soft"}
        ),
        "pull alone": ("collapse no-skill", {"fault": "pull alone", "loss": "hardest"}),
        "embeddings detached": (
            "no-gradient unbound no-skill", {"fault": "embeddings detached"}
        ),
        "body forgotten": ("unbound no-skill", {"fault": "body forgotten"}),
        "two people": ("overfit", {"fault": "two people"}),
        "dead units": ("dead no-skill no-gradient collapse", {"fault": "dead units"}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
    },
)  # fmt: skip
