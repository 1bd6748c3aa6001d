"""What insured pets will cost in a year: a network with embeddings of breed, region and tariff.

The plain one learns the pure premium by Tweedie's deviance, weighted by exposure; others the number
of claims (Poisson, exposure as an offset) or the cost of one (gamma). The skill is the share of the
deviance that is explained, measured against the true expectations of policies not seen before.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

BREEDS, REGIONS, TARIFFS = 40, 20, 4


@dataclass(frozen=True)
class Policies:
    """Columns of a table, a row for each policy; the last two are what nobody knows."""

    kinds: Tensor
    numbers: Tensor
    exposure: Tensor
    claims: Tensor
    cost: Tensor
    frequency: Tensor
    severity: Tensor

    def rows(self, chosen: Tensor) -> Policies:
        return Policies(*(column[chosen] for column in vars(self).values()))


def policies(count: int, seed: int) -> Policies:
    book = torch.Generator().manual_seed(77)
    heavy, frail, dear = (torch.randn(BREEDS, generator=book) for _ in range(3))
    often, costly = (0.4 * torch.randn(REGIONS, generator=book) for _ in range(2))
    draw = torch.Generator().manual_seed(seed)
    popular = 1 / (torch.arange(BREEDS) + 5.0)
    breed = torch.multinomial(popular, count, replacement=True, generator=draw)
    region = torch.randint(REGIONS, (count,), generator=draw)
    tariff = torch.randint(TARIFFS, (count,), generator=draw)
    age = 14 * torch.rand(count, generator=draw) ** 1.3
    kilograms = (2.6 + 0.7 * heavy[breed] + 0.2 * torch.randn(count, generator=draw)).exp()
    income = 30_000 * (0.4 * torch.randn(count, generator=draw)).exp()
    exposure = 0.1 + 0.89 * torch.rand(count, generator=draw)
    bathtub = 0.03 * (age - 5) ** 2 - 0.3
    frequency = (
        (0.1 + 0.4 * frail[breed] * (age / 7) + often[region] + bathtub).clamp(-3, 2.2).exp()
    )
    excess = torch.tensor([0.0, 0.2, 0.5, 0.8])[tariff]
    size = 0.35 * kilograms.log() + 0.3 * dear[breed] + 0.4 * (income / 30_000).log()
    severity = 100 * (size + costly[region] + excess + 0.04 * age).clamp(-2, 3.2).exp()
    claims = torch.poisson(frequency * exposure, generator=draw)
    torch.manual_seed(seed)
    shape = 2.0 * claims
    cost = torch._standard_gamma(shape.clamp(min=0.1)) * severity / 2.0 * (claims > 0)
    numbers = torch.stack([age, kilograms, income], 1)
    kinds = torch.stack([breed, region, tariff], 1)
    return Policies(kinds, numbers, exposure, claims, cost, frequency, severity)


class Premium(nn.Module):
    def __init__(
        self, start: float, width: int, activation: str, norm: str, dropout: float, extra: int,
        linear_part: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        sizes = ((BREEDS, 8), (REGIONS, 6), (TARIFFS, 2))
        self.embeddings = nn.ModuleList(nn.Embedding(*size) for size in sizes)
        into = 3 + extra + 16
        kinds: Any = {"relu": nn.ReLU, "tanh": nn.Tanh}
        layers: list[nn.Module] = []
        for inputs, units in ((into, width), (width, 32)):
            layers += [nn.Linear(inputs, units)]
            if norm == "batch":
                layers += [nn.BatchNorm1d(units)]
            layers += [kinds[activation](), nn.Dropout(dropout)]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(32, 1)
        self.linear_part = nn.Linear(into, 1) if linear_part else None
        nn.init.constant_(self.head.bias, start)

    def forward(self, kinds: Tensor, numbers: Tensor) -> Tensor:
        found = [e(c) for e, c in zip(self.embeddings, kinds.unbind(1), strict=True)]
        row = torch.cat([*found, numbers], 1)
        out: Tensor = self.head(self.body(row))
        return out if self.linear_part is None else out + self.linear_part(row)


def mean_of(out: Tensor, link: str) -> Tensor:
    if link == "softplus":
        return 100 * F.softplus(out)
    if link == "sigmoid":
        return out.sigmoid()
    if link == "relu, then exponential":
        return F.relu(out).exp()
    return out.exp()


def deviance(kind: str, power: float, mean: Tensor, y: Tensor) -> Tensor:
    """Of each policy, or what differs from it by a constant."""
    if kind == "poisson":
        return mean - y * (mean + 1e-8).log()
    if kind == "poisson of torch":
        return F.poisson_nll_loss(mean, y, reduction="none")
    if kind == "gamma":
        return 2 * ((y - mean) / mean - (y / mean).log())
    if kind == "gamma upside down":
        return 2 * ((mean - y) / mean + (mean / y.clamp(min=1.0)).log())
    return mean ** (2 - power) / (2 - power) - y * mean ** (1 - power) / (1 - power)


def explained(mean: Tensor, expected: Tensor, weight: Tensor) -> float:
    """Share of Tweedie's deviance (power 1.5) from the expectations."""

    def missed(guess: Tensor) -> float:
        each = expected / guess.sqrt() + guess.sqrt() - 2 * expected.sqrt()
        return float((weight * each).sum())

    if not bool(torch.isfinite(mean).all()):
        return math.nan
    whole = ((weight * expected).sum() / weight.sum()).expand(len(expected))
    return 1 - missed(mean.clamp(min=1e-6)) / missed(whole)


def train(
    seed: int, hook: Any, target: str = "cost", loss: str = "tweedie", power: float = 1.5,
    link: str = "exponential", rate: float = 2e-3, epochs: int = 12, batch: int = 128,
    optimizer: str = "adam", schedule: str = "constant", decay: float = 0.0, clip: float = 0.0,
    width: int = 64, activation: str = "relu", norm: str = "", dropout: float = 0.0,
    linear_part: bool = False, unit: float = 1.0, times: float = 1.0,
    start: float | None = None, count: int = 12_000, accumulate: int = 1, average: float = 0.0,
    bfloat16: bool = False, evaluated: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    known, held, test = (policies(n, seed + 8300 + k) for k, n in enumerate((count, 2000, 4000)))
    if target == "severity":
        known, held = (p.rows(p.claims > 0) for p in (known, held))
    middle, spread = known.numbers.mean(0), known.numbers.std(0)
    if fault == "scaled by the row":
        middle, spread = torch.zeros(3), torch.ones(3)
    recoded = torch.randperm(BREEDS)

    def inputs(p: Policies, later: bool = False) -> tuple[Tensor, Tensor]:
        kinds, numbers = p.kinds, (p.numbers - middle) / spread
        if fault == "scaled by the row":
            numbers = F.layer_norm(numbers, (3,))
        if later and fault == "evaluation not scaled":
            numbers = p.numbers
        if later and fault == "breeds encoded again":
            kinds = torch.cat([recoded[kinds[:, :1]], kinds[:, 1:]], 1)
        if fault == "cost so far as an input":
            paid = torch.zeros_like(p.cost) if p is test else (p.cost / p.exposure + 1).log()
            numbers = torch.cat([numbers, paid[:, None]], 1)
        return kinds, numbers

    def wanted(p: Policies) -> tuple[Tensor, Tensor]:
        """What is learned, and the weight of each policy."""
        if target == "claims":
            return p.claims, torch.ones_like(p.cost)
        if target == "severity":
            return p.cost / p.claims.clamp(min=1) * unit, p.claims
        weight = p.exposure.floor() if fault == "whole years" else p.exposure
        if fault == "amounts in half precision":
            return ((p.cost * 100).half() / p.exposure.half()).float(), weight
        return p.cost / p.exposure * unit, weight

    y, weight = wanted(known)
    if fault == "joined by the wrong key":
        y = y.roll(1)
    kinds, numbers = inputs(known)
    per = {"claims": known.claims, "severity": known.cost}.get(target, known.cost * unit)
    each = known.claims if target == "severity" else known.exposure
    usual = {"softplus": 3.0, "sigmoid": 0.0}.get(link, math.log(float(per.sum() / each.sum())))
    net = Premium(
        usual if start is None else start, width, activation, norm, dropout,
        numbers.shape[1] - 3, linear_part,
    )  # fmt: skip
    hook.torch(net)
    trained = copy.deepcopy(net) if fault == "optimizer of a copy" else net
    chosen = [p for p in trained.parameters() if p.requires_grad]
    steps: Any = optimizer_of(optimizer, chosen, rate, decay)
    scheduler = scheduler_of(steps, schedule, epochs * len(y) // batch // accumulate)
    averaged = copy.deepcopy(net)

    def error(p: Policies, rows: Any, x: tuple[Tensor, Tensor], y: Tensor, w: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            out = net(x[0][rows], x[1][rows])
        out = out.float() if fault == "shapes that broadcast" else out.float().squeeze(1)
        mean = mean_of(out, link)
        if target == "claims" and fault != "exposure multiplied again":
            mean = mean * p.exposure[rows]
        elif target == "claims":
            mean = mean / p.exposure[rows]
        each = deviance(loss, power, mean, y[rows])
        if fault == "sum of the batch":
            return (each * w[rows]).sum()
        return (each * w[rows]).sum() / w[rows].sum().clamp(min=1e-3) / each.numel() * len(rows)

    step = 0
    for _ in range(epochs):
        net.train()
        order = y.argsort() if fault == "sorted by cost" else torch.randperm(len(y))
        for rows in order.split(batch):
            if fault != "gradients kept" and step % accumulate == 0:
                steps.zero_grad()
            wrong = error(known, rows, (kinds, numbers), y, weight) * times
            (wrong / accumulate).backward()
            step += 1
            if step % accumulate:
                continue
            if clip:
                nn.utils.clip_grad_norm_(net.parameters(), clip)
            steps.step()
            scheduler.step()
            if average:
                for slow, fast in zip(averaged.parameters(), net.parameters(), strict=True):
                    slow.data.lerp_(fast.data, 1 - average)
        if evaluated:
            net.eval()
            with torch.no_grad():
                error(held, torch.arange(len(held.cost)), inputs(held, True), *wanted(held))
    final = averaged if average else net
    final.eval()
    with torch.no_grad():
        found = mean_of(final(*inputs(test, True)).squeeze(1), link) / unit
    truth = {"claims": test.frequency, "severity": test.severity}
    return explained(found, truth.get(target, test.frequency * test.severity), test.exposure)


COUNTS: dict[str, Any] = {"target": "claims", "loss": "poisson"}
COST_OF_ONE: dict[str, Any] = {"target": "severity", "loss": "gamma"}

CASES = cases(
    "insurance claims",
    train,
    {
        "plain": {},
        "claims, Poisson": COUNTS,
        "cost of one, gamma": COST_OF_ONE,
        "batch of 16": {"batch": 16, "epochs": 3, "rate": 1e-3},
        "batch of 2048": {"batch": 2048, "epochs": 34, "rate": 6e-3, "count": 24_000},
        "SGD, clipped": {"optimizer": "momentum", "rate": 1e-2, "clip": 1.0},
        "AdamW, one cycle": {"optimizer": "adamw", "schedule": "one cycle", "rate": 6e-3},
        "batch norm": {"norm": "batch"},
        "dropout": {"dropout": 0.1},
        "softplus for the mean": {"link": "softplus"},
        "cents": {"unit": 100.0},
        "loss x 10000": {"times": 1e4},
        "bfloat16": {"bfloat16": True},
        "average of weights": {"average": 0.99},
        "linear part beside": {"linear_part": True, "activation": "tanh"},
        "starts far below": {"start": 0.0},
        "accumulated": {"batch": 32, "accumulate": 4},
        "warm-up": {"schedule": "warmup", "rate": 4e-3},
        "no evaluation": {"evaluated": False},
    },
    {
        "joined by the wrong key": ("no-skill overfit", {"fault": "joined by the wrong key"}),
        "shapes that broadcast": ("broadcast no-skill", {"fault": "shapes that broadcast"}),
        "exponential twice": ("probabilities range", {**COUNTS, "loss": "poisson of torch"}),
        "gamma with costs of zero": ("not-finite", {"loss": "gamma"}),
        "gamma upside down": ("worse no-skill not-finite", {"loss": "gamma upside down"}),
        "relu before the exponential": (
            "dead no-gradient no-skill collapse",
            {**COUNTS, "link": "relu, then exponential", "start": -2.0},
        ),
        "sigmoid for euros": ("range saturated no-skill", {"link": "sigmoid"}),
        "whole years": ("ignored no-skill", {"fault": "whole years"}),
        "amounts in half precision": ("not-finite", {"fault": "amounts in half precision"}),
        "exposure multiplied again": ("inputs", {**COUNTS, "fault": "exposure multiplied again"}),
        "cost so far as an input": ("leak", {"fault": "cost so far as an input"}),
        "breeds encoded again": ("inputs overfit", {"fault": "breeds encoded again"}),
        "evaluation not scaled": ("inputs overfit", {"fault": "evaluation not scaled"}),
        "scaled by the row": ("inputs no-skill", {"fault": "scaled by the row"}),
        "sorted by cost": ("order worse", {"fault": "sorted by cost", "rate": 1e-2}),
        "sixty policies": ("overfit", {"count": 60, "epochs": 800, "batch": 30}),
        "gradients kept": (
            "kept-gradients fast worse",
            {"fault": "gradients kept", "optimizer": "momentum", "rate": 1e-3},
        ),
        "sum of the batch": (
            "fast not-finite dead",
            {"fault": "sum of the batch", "optimizer": "sgd", "rate": 1e-3},
        ),
        "optimizer of a copy": ("unbound no-skill", {"fault": "optimizer of a copy"}),
        "rate ends early": ("schedule slow", {"schedule": "ends early"}),
        "decay of ten": ("no-skill collapse slow", {"decay": 10.0}),
        "rate x 1000": ("fast no-skill dead saturated not-finite", {"rate": 2.0}),
    },
)  # fmt: skip
