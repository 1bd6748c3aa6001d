"""Missing facts of a knowledge graph (head, relation, tail), by ComplEx, DistMult, TransE, RotatE.

People live, study and work in cities of countries; facts of a person agree most of the time. The
skill is the mean reciprocal rank of true tails that were held out, known ones left aside, above
that of the relation's most frequent tails.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, factor
from torch import Tensor, nn

from benchmarks.detection.case import cases

COUNTRIES, CITIES, PEOPLE, WIDTH = 6, 30, 400, 32
# Entities in order: people, cities, countries, languages, and a club, university, firm of each city
CITY, COUNTRY = PEOPLE, PEOPLE + CITIES
LANGUAGE = COUNTRY + COUNTRIES
CLUB = LANGUAGE + COUNTRIES
UNIVERSITY, FIRM, ENTITIES = CLUB + CITIES, CLUB + 2 * CITIES, CLUB + 3 * CITIES
RELATIONS = 11


def facts(seed: int, noise: float) -> tuple[Tensor, Tensor, Tensor]:
    """Facts (N, 3) to train on, to validate, and to test."""
    draw = torch.Generator().manual_seed(seed)
    country_of = torch.randint(COUNTRIES, (CITIES,), generator=draw)
    people, cities = torch.arange(PEOPLE), torch.arange(CITIES)
    home = torch.randint(CITIES, (PEOPLE,), generator=draw)

    def mostly(share: float) -> Tensor:
        moved = torch.rand(PEOPLE, generator=draw) > share
        return torch.where(moved, torch.randint(CITIES, (PEOPLE,), generator=draw), home)

    of_people = [
        CITY + home, CITY + mostly(0.93), COUNTRY + country_of[home],
        LANGUAGE + country_of[home], CLUB + mostly(0.95), UNIVERSITY + mostly(0.93),
        FIRM + mostly(0.93),
    ]  # fmt: skip
    triples = [
        torch.stack([people, torch.full_like(people, number), tail], 1)
        for number, tail in enumerate(of_people)
    ]
    known = [
        torch.stack([cities + first, torch.full_like(cities, number), tail], 1)
        for number, first, tail in (
            (7, CITY, COUNTRY + country_of), (8, CLUB, CITY + cities),
            (9, UNIVERSITY, CITY + cities), (10, FIRM, CITY + cities),
        )
    ]  # fmt: skip
    every = torch.cat(triples)
    every = every[torch.randperm(len(every), generator=draw)]
    train = torch.cat([every[700:], *known])
    if noise:
        wrong = torch.rand(len(train), generator=draw) < noise
        train[wrong, 2] = torch.randint(ENTITIES, (int(wrong.sum()),), generator=draw)
    return train, every[:250], every[250:700]


class Embeddings(nn.Module):
    def __init__(self, kind: str, start: float, dropout: float, fault: str) -> None:
        super().__init__()
        self.kind, self.fault = kind, fault
        self.entities = nn.Embedding(ENTITIES, WIDTH)
        self.relations = nn.Embedding(RELATIONS, WIDTH)
        self.dropout = nn.Dropout(dropout)
        for table in (self.entities, self.relations):
            nn.init.normal_(table.weight, std=start)

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor | None = None) -> Tensor:
        """Scores of all tails (N, ENTITIES), or of those named (N, K)."""
        h, r = self.dropout(self.entities(head)), self.relations(relation)
        table = self.entities.weight
        if self.fault == "scaled over entities":
            h, table = h / table.norm(dim=0) ** 2, F.normalize(table, dim=0)
        if self.fault == "detached":
            h, table = h.detach(), table.detach()
        if self.fault == "relations not used":
            r = torch.ones_like(r)
        if self.kind in ("complex", "rotation"):
            real, imaginary = h.chunk(2, -1)
            along, turned = r.chunk(2, -1)
            if self.kind == "rotation":
                along, turned = along.cos(), along.sin()
            h = torch.cat(
                [real * along - imaginary * turned, real * turned + imaginary * along], -1
            )
        else:
            h = h * r if self.kind == "product" else h + r
        if self.kind in ("complex", "product"):
            return h @ table.T if tail is None else torch.einsum("nd,nkd->nk", h, table[tail])
        if tail is None:
            return -torch.cdist(h, table)
        return -(h[:, None] - table[tail]).norm(dim=-1)


def objective(kind: str, net: nn.Module, rows: Tensor, smoothing: float, known: Tensor) -> Tensor:
    head, relation, tail = rows.T
    if kind in ("cross-entropy", "softmax", "others masked", "known masked"):
        scores = net(head, relation)
        if kind == "softmax":
            scores = scores.softmax(-1)
        if kind.endswith("masked"):
            others = known[relation, head]
            if kind == "others masked":
                others = others.scatter(1, tail[:, None], value=False)
            scores = scores.masked_fill(others, -1e9)
        return F.cross_entropy(scores, tail, label_smoothing=smoothing)
    drawn = 20 if kind == "few negatives" else ENTITIES
    other = torch.randint(drawn, (len(rows), 32))
    if kind == "same":
        other = tail[:, None].expand_as(other)
    right, wrong = net(head, relation, tail[:, None]), net(head, relation, other)
    if kind in ("margin", "same"):
        return F.relu(1.0 - right + wrong).mean()
    if kind == "margin turned":
        farther = torch.ones_like(wrong)
        return F.margin_ranking_loss(-right.expand_as(wrong), -wrong, farther, margin=1.0)
    if kind == "facts alone":
        return -right.mean()
    if kind == "adversarial":
        share = wrong.detach().softmax(-1)
        return -(F.logsigmoid(right + 3).mean() + (share * F.logsigmoid(-wrong - 3)).sum(-1).mean())
    if kind == "logarithm":
        return -(right.sigmoid().log().mean() + (1 - wrong.sigmoid()).log().mean())
    one, none = torch.ones_like(right), torch.zeros_like(wrong)
    if kind == "all are true":
        none = torch.ones_like(wrong)
    if kind == "squares":
        found = torch.cat([right, wrong], 1).view(-1)
        return F.mse_loss(found, torch.cat([one, none], 1).view(-1, 1))
    if kind == "sigmoid twice":
        right, wrong = right.sigmoid(), wrong.sigmoid()
    binary = F.binary_cross_entropy_with_logits
    return binary(right, one) + binary(wrong, none) * (1 if kind == "all are true" else 8)


def rank_skill(net: nn.Module, rows: Tensor, known: Tensor, train: Tensor) -> float:
    head, relation, tail = rows.T
    often = torch.zeros(RELATIONS, ENTITIES).index_put_(
        (train[:, 1], train[:, 2]), torch.ones(len(train)), accumulate=True
    )
    reached: list[float] = []
    for scores in (net(head, relation), often[relation]):
        if not bool(torch.isfinite(scores).all()):
            return math.nan
        own = scores.gather(1, tail[:, None])
        others = scores.masked_fill(known[relation, head], -math.inf)
        rank = 1 + (others > own).sum(1) + 0.5 * (others == own).sum(1)
        reached.append(float((1 / rank).mean()))
    return (reached[0] - reached[1]) / (1 - reached[1])


def train(
    seed: int, hook: Any, kind: str = "complex", loss: str = "cross-entropy", rate: float = 5e-3,
    steps: int = 1200, batch: int = 64, optimizer: str = "adam", schedule: str = "constant",
    start: float = 0.3, dropout: float = 0.2, decay: float = 0.0, cubes: float = 3e-3,
    noise: float = 0.0, smoothing: float = 0.0, times: float = 1.0, clip: float = 0.0,
    average: float = 0.0, accumulate: int = 1, bfloat16: bool = False, count: int = 0,
    evaluated: bool = True, frozen: str = "", fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    rows, held, test = facts(seed + 5600, noise)
    known = torch.zeros(RELATIONS, ENTITIES, ENTITIES, dtype=torch.bool)
    seen = known.clone()
    seen[rows[:, 1], rows[:, 0], rows[:, 2]] = True
    for part in (rows, held, test):
        known[part[:, 1], part[:, 0], part[:, 2]] = True
    learned = rows = rows[torch.randperm(len(rows))[: count or len(rows)]]
    if fault == "tails of other facts":
        learned = torch.cat([rows[:, :2], rows[:, 2:].roll(1, 0)], 1)
    if fault == "sorted by relation":
        learned = rows[rows[:, 1].argsort()]
    if fault == "exchanged":
        learned = rows[:, [2, 1, 0]]
    if fault == "ids encoded again":
        encoded = torch.randperm(ENTITIES)
        learned = torch.stack([encoded[rows[:, 0]], rows[:, 1], encoded[rows[:, 2]]], 1)
    net = Embeddings(kind, start, dropout, fault)
    hook.torch(net)
    getattr(net, frozen).requires_grad_(False) if frozen else None
    trained = copy.deepcopy(net) if fault == "optimizer of a copy" else net
    chosen = [p for p in trained.parameters() if p.requires_grad]
    chooser: Any = {
        "adam": lambda: torch.optim.Adam(chosen, rate),
        "adamw": lambda: torch.optim.AdamW(chosen, rate, weight_decay=decay),
        "adagrad": lambda: torch.optim.Adagrad(chosen, rate),
        "momentum": lambda: torch.optim.SGD(chosen, rate, momentum=0.9),
    }[optimizer]
    stepper = chooser()
    falls = torch.optim.lr_scheduler.LambdaLR(stepper, lambda s: factor(schedule, s, steps))
    if fault == "epoch's scheduler":
        falls = torch.optim.lr_scheduler.ExponentialLR(stepper, 0.9)
    averaged = copy.deepcopy(net)
    order = torch.empty(0, dtype=torch.long)
    for step in range(steps):
        if fault != "gradients kept":
            stepper.zero_grad()
        for _ in range(accumulate):
            if len(order) < min(batch, len(learned)):
                sort = fault == "sorted by relation"
                order = torch.arange(len(learned)) if sort else torch.randperm(len(learned))
            picked, order = learned[order[:batch]], order[batch:]
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                error = objective(loss, net, picked, smoothing, seen)
            if cubes and kind in ("complex", "product"):
                used = (net.entities(picked[:, [0, 2]]), net.relations(picked[:, 1]))
                error = error + cubes * sum(part.abs().pow(3).sum() / len(picked) for part in used)
            (error * times / accumulate).backward()
        if clip:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        stepper.step()
        falls.step()
        if average:
            for slow, fast in zip(averaged.parameters(), net.parameters(), strict=True):
                slow.data.lerp_(fast.data, 1 - average)
        if evaluated and step % 100 == 99:
            net.eval()
            with torch.no_grad():
                objective(loss, net, held, 0.0, seen)
                rank_skill(net, held, known, rows)
            net.train()
    final = averaged if average else net
    final.eval()
    with torch.no_grad():
        return rank_skill(final, test, known, rows)


CASES = cases(
    "knowledge graph",
    train,
    {
        "plain": {},
        "DistMult": {"kind": "product"},
        "TransE over all": {"kind": "sum", "rate": 1e-2},
        "TransE by margin": {"kind": "sum", "loss": "margin", "rate": 2e-2, "steps": 1800},
        "RotatE, adversarial": {"kind": "rotation", "loss": "adversarial", "steps": 2000},
        "ComplEx, true or not": {"loss": "binary", "rate": 1e-2, "steps": 1600},
        "others known are masked": {"loss": "others masked"},
        "batch of eight": {"batch": 8, "rate": 3e-3, "steps": 2500},
        "batch of 1024": {"batch": 1024, "rate": 2e-2, "steps": 400},
        "Adagrad": {"optimizer": "adagrad", "rate": 0.1},
        "SGD with momentum": {"optimizer": "momentum", "rate": 0.3, "steps": 1800},
        "AdamW without cubes": {"optimizer": "adamw", "decay": 0.1, "cubes": 0.0},
        "dropout of 0.5": {"dropout": 0.5, "rate": 1e-2},
        "wrong facts": {"noise": 0.03, "cubes": 2e-2},
        "label smoothing": {"smoothing": 0.1},
        "loss x 10000": {"times": 1e4},
        "warm-up": {"schedule": "warmup", "rate": 1e-2},
        "restarts": {"schedule": "restarts", "rate": 1e-2},
        "clipped": {"clip": 0.05},
        "four batches a step": {"accumulate": 4, "batch": 16},
        "average of weights": {"average": 0.99},
        "bfloat16": {"bfloat16": True},
        "momentum, clipped": {"optimizer": "momentum", "rate": 1.0, "clip": 1.0},
        "long after it is learned": {"steps": 2500, "batch": 128},
        "sorted by relation": {"fault": "sorted by relation"},
        "no evaluation": {"evaluated": False},
    },
    {
        "tails of other facts": ("no-skill overfit", {"fault": "tails of other facts"}),
        "heads and tails exchanged": ("inputs overfit worse", {"fault": "exchanged"}),
        "ids encoded again": ("inputs overfit worse no-skill", {"fault": "ids encoded again"}),
        "a hundred facts": ("overfit", {"count": 100}),
        "relations not used": ("unbound no-gradient", {"fault": "relations not used"}),
        "looked up without gradients": ("no-gradient unbound", {"fault": "detached"}),
        "entities fixed": ("unbound no-gradient no-skill slow", {"frozen": "entities"}),
        "optimizer of a copy": ("unbound no-skill", {"fault": "optimizer of a copy"}),
        "gradients kept": (
            "kept-gradients fast worse",
            {"fault": "gradients kept", "optimizer": "momentum", "rate": 0.3},
        ),
        "scaled over entities": ("softmax-axis no-skill slow", {"fault": "scaled over entities"}),
        "start of zeros": ("dead no-gradient no-skill collapse", {"start": 0.0}),
        "start x 33": ("saturated fast worse slow overfit", {"start": 10.0, "cubes": 0.0}),
        "softmax before the loss": ("probabilities no-skill slow", {"loss": "softmax"}),
        "sigmoid twice": ("probabilities", {"loss": "sigmoid twice"}),
        "logarithm of a sigmoid": ("not-finite", {"loss": "logarithm", "start": 2.0}),
        "known tails masked": ("ignored no-skill", {"loss": "known masked", "cubes": 0.0}),
        "negatives called true": ("collapse no-skill ignored", {"loss": "all are true"}),
        "negatives of twenty people": ("ignored overfit", {"loss": "few negatives", "rate": 1e-2}),
        "negatives are the fact": ("no-gradient no-skill", {"kind": "sum", "loss": "same"}),
        "facts alone": ("collapse no-skill ignored", {"kind": "sum", "loss": "facts alone"}),
        "margin turned": ("worse no-skill collapse", {"kind": "sum", "loss": "margin turned"}),
        "squares, broadcast": ("broadcast no-skill collapse", {"loss": "squares", "batch": 8}),
        "epoch's scheduler at each step": ("schedule slow", {"fault": "epoch's scheduler"}),
        "decay of ten": ("collapse no-skill slow", {"optimizer": "adamw", "decay": 10.0}),
        "momentum at 5": ("fast not-finite worse", {"optimizer": "momentum", "rate": 5.0}),
        "rate / 1000": ("slow no-skill", {"rate": 5e-6}),
    },
)
