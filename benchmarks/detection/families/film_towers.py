"""Which film a person watches next: two towers and the softmax over the films of the batch.

A person's tower averages what was watched before beside the country, a film's tower sees its number
and genre. The skill is the recall of the film watched next among the best ten, above popularity.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn

from benchmarks.detection.case import cases

FILMS, GENRES, COUNTRIES, PAST, WIDTH = 240, 12, 5, 5, 16
OF = torch.arange(FILMS) % GENRES
POPULAR = 1 / (torch.randperm(FILMS, generator=torch.Generator().manual_seed(7)) + 20.0)
Rows = dict[str, Tensor]


def evenings(count: int, seed: int) -> Rows:
    """What people watched, of two genres each, and in some order of series; and what came next."""
    draw = torch.Generator().manual_seed(seed)
    country = torch.randint(COUNTRIES, (count,), generator=draw)
    liked = torch.randint(GENRES, (count, 2), generator=draw)
    chance = torch.full((count, GENRES), 0.004).scatter(1, liked, 1.0)[:, OF] * POPULAR
    part = torch.arange(FILMS) // GENRES % COUNTRIES  # films of one's own country are liked more
    chance = chance * (1 + 60.0 * (part == country[:, None]))
    watched = torch.multinomial(chance, PAST + 1, generator=draw)
    return {"country": country, "past": watched[:, :PAST], "film": watched[:, PAST]}


class Towers(nn.Module):
    def __init__(self, temperature: float, normed: bool, learned: bool) -> None:
        super().__init__()
        self.films = nn.Embedding(FILMS, WIDTH)
        self.countries = nn.Embedding(COUNTRIES, 8)
        self.genres = nn.Embedding(GENRES, 8)
        self.person = nn.Sequential(nn.Linear(WIDTH + 16, 48), nn.ReLU(), nn.Linear(48, WIDTH))
        self.film = nn.Sequential(nn.Linear(WIDTH + 8, 48), nn.ReLU(), nn.Linear(48, WIDTH))
        self.normed = normed
        self.warmth = nn.Parameter(torch.tensor(1 / temperature), requires_grad=learned)
        nn.init.normal_(self.films.weight, std=0.1)

    def people(self, rows: Rows) -> Tensor:
        seen = self.films(rows["past"]).mean(1), self.genres(OF[rows["past"]]).mean(1)
        h: Tensor = self.person(torch.cat([*seen, self.countries(rows["country"])], 1))
        return F.normalize(h, dim=1) if self.normed else h

    def items(self, film: Tensor) -> Tensor:
        h: Tensor = self.film(torch.cat([self.films(film), self.genres(OF[film])], 1))
        return F.normalize(h, dim=1) if self.normed else h

    def forward(self, rows: Rows, films: Tensor) -> tuple[Tensor, Tensor]:
        return self.people(rows), self.items(films)


def loss_of(model: Towers, rows: Rows, how: str, fault: str) -> Tensor:
    people, films = model(rows, rows["film"])
    scores = people @ films.T * model.warmth
    wanted = torch.arange(len(scores))
    if how == "corrected for popularity":
        scores = scores - 0.3 * (POPULAR / POPULAR.sum())[rows["film"]].log()
    if how == "same film masked":
        same = rows["film"][:, None] == rows["film"]
        scores = scores.masked_fill(same & ~torch.eye(len(scores), dtype=torch.bool), -1e9)
    if how == "both directions":
        return (F.cross_entropy(scores, wanted) + F.cross_entropy(scores.T, wanted)) / 2
    if fault == "wanted is the first":
        wanted = torch.zeros_like(wanted)
    return F.cross_entropy(scores, wanted)


def recall(model: Towers, rows: Rows, number: Tensor) -> tuple[float, float]:
    """Among the best ten of all films, and that of the ten most popular."""
    model.eval()
    with torch.no_grad():
        people, films = model({**rows, "past": number[rows["past"]]}, torch.arange(FILMS))
        scores = people @ films.T
    model.train()
    if not bool(torch.isfinite(scores).all()):
        return float("nan"), 0.0
    found = [(of.topk(10).indices == rows["film"][:, None]).any(1).double().mean().item()
             for of in (scores, POPULAR.expand(len(scores), -1))]  # fmt: skip
    return found[0], found[1]


def train(
    seed: int, hook: Any, steps: int = 2000, batch: int = 64, rate: float = 3e-3, how: str = "",
    temperature: float = 0.1, normed: bool = True, learned: bool = False, optimizer: str = "adam",
    every: int = 250, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    rows, held, test = (evenings(n, seed + 8500 + n) for n in (20000, 600, 2000))
    if fault == "joined to other people":
        rows["film"] = rows["film"].roll(1)
    if fault == "sorted by film":
        order = rows["film"].argsort(stable=True)
        rows = {name: of[order] for name, of in rows.items()}
    same = torch.arange(FILMS)
    number = torch.randperm(FILMS) if fault == "numbers given again" else same
    model = Towers(temperature, normed, learned)
    hook.torch(model)
    chosen = [p for p in model.parameters() if p.requires_grad]
    step_of: Any = {
        "adam": lambda: torch.optim.Adam(chosen, rate),
        "adagrad": lambda: torch.optim.Adagrad(chosen, rate),
        "sgd": lambda: torch.optim.SGD(chosen, rate),
    }[optimizer]()
    for step in range(steps):
        at = torch.randint(len(rows["film"]), (batch,))
        if fault == "sorted by film":
            at = torch.arange(step * batch, (step + 1) * batch) % len(rows["film"])
        error = loss_of(model, {name: of[at] for name, of in rows.items()}, how, fault)
        step_of.zero_grad(set_to_none=True)
        error.backward()
        step_of.step()
        if every and step % every == every - 1:
            recall(model, held, number)
            with torch.no_grad():
                loss_of(model, {name: of[:128] for name, of in held.items()}, how, fault)
    found, popular = recall(model, test, number)
    return (found - popular) / (1 - popular)


CASES = cases(
    "film towers",
    train,
    {
        "plain": {},
        "corrected for popularity": {"how": "corrected for popularity"},
        "same film masked": {"how": "same film masked", "learned": True},
        "Adagrad, no evaluation": {"optimizer": "adagrad", "rate": 0.05, "every": 0},
        "batch of 24": {"batch": 24, "rate": 2e-3, "steps": 3000},
        "both directions, plain products": {
            "how": "both directions", "normed": False, "temperature": 1.0,
        },
    },
    {
        "sorted by film": ("order no-skill collapse", {"fault": "sorted by film"}),
        "wanted is the first": ("no-skill collapse ignored", {"fault": "wanted is the first"}),
        "cosines without temperature": (
            "slow no-skill",
            {"temperature": 1.0, "optimizer": "sgd", "rate": 0.05},
        ),
        "joined to other people": ("no-skill overfit", {"fault": "joined to other people"}),
        "numbers given again": ("inputs overfit", {"fault": "numbers given again"}),
    },
)  # fmt: skip
