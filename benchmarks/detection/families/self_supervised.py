"""Two views of the same thing without labels, in the ways of BYOL, SimSiam and VICReg.

The skill is that of a linear probe: classes by least squares on the frozen representation.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import (
    begin,
    class_skill,
    normal,
    optimizer_of,
    scheduler_of,
)
from torch import Tensor, nn

from benchmarks.detection.case import cases

HIDDEN, OTHER, SIZE, WIDTH, KINDS = 4, 20, 48, 16, 6


def things(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """What a thing is, and its kind."""
    hidden = normal(count, HIDDEN, seed=seed)
    return hidden, (hidden @ normal(HIDDEN, KINDS, seed=41)).argmax(1)


def view(hidden: Tensor) -> Tensor:
    """A view of it: the light falls in another way each time, and is stronger than the thing."""
    seen = hidden @ normal(HIDDEN, SIZE, seed=42) / 2
    around = 1.5 * torch.randn(len(hidden), OTHER) @ normal(OTHER, SIZE, seed=43) / OTHER**0.5
    return torch.tanh(seen) + around + 0.1 * torch.randn(len(hidden), SIZE)


def perceptron(inputs: int, units: int, outputs: int, norm: bool = True) -> nn.Sequential:
    middle = [nn.BatchNorm1d(units)] if norm else []
    return nn.Sequential(nn.Linear(inputs, units), *middle, nn.ReLU(), nn.Linear(units, outputs))


class Learner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = perceptron(SIZE, 64, WIDTH)
        self.projector = perceptron(WIDTH, 48, WIDTH)
        self.predictor = perceptron(WIDTH, 24, WIDTH)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self.projector(self.body(x))
        return z, self.predictor(z)


def regularised(z: Tensor, other: Tensor, fault: str) -> Tensor:
    """VICReg: alike, of a spread of one or more, and without correlations."""
    alike = ((z - other) ** 2).mean()
    if fault == "no variance":
        return 25 * alike
    spread, between = torch.tensor(0.0), torch.tensor(0.0)
    for part in (z, other):
        around = part - part.mean(0)
        spread = spread + (1 - (around.var(0) + 1e-4).sqrt()).relu().mean() / 2
        covariance = around.T @ around / (len(part) - 1)
        between = between + (covariance - covariance.diag().diag()).pow(2).sum() / WIDTH
    return 25 * alike + 25 * spread + between


def likeness(p: Tensor, z: Tensor) -> Tensor:
    return -(F.normalize(p, dim=1) * F.normalize(z, dim=1)).sum(1).mean()


def probe(model: Learner, seed: int) -> float:
    """Where the probe is fitted, too, each thing is seen once."""
    model.eval()
    (known, kinds), (held, held_kinds) = things(600, seed), things(600, seed + 1)
    with torch.no_grad():
        x, y = model.body(view(known)), model.body(view(held))
    usual, spread = x.mean(0), x.std(0) + 1e-6
    x, y = ((part - usual) / spread for part in (x, y))
    ridge = x.T @ x + 1.0 * torch.eye(WIDTH)
    wanted = F.one_hot(kinds, KINDS).float()
    scores = y @ torch.linalg.solve(ridge, x.T @ (wanted - wanted.mean(0))) + wanted.mean(0)
    return class_skill(scores, held_kinds)


def train(
    seed: int, hook: Any, method: str = "vicreg", steps: int = 700, rate: float = 2e-3,
    batch: int = 128, schedule: str = "constant", optimizer: str = "adam", momentum: float = 0.98,
    one_sided: bool = False, accumulate: int = 1, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    hidden, _ = things(4000, seed + 350)
    model = Learner()
    target = copy.deepcopy(model).requires_grad_(False)
    chosen = copy.deepcopy(model) if fault == "optimizer of the target" else model
    stepper = optimizer_of(optimizer, chosen.parameters(), rate)
    scheduler = scheduler_of(stepper, schedule, steps)
    hook.torch(model)

    def loss_of(rows: Tensor) -> Tensor:
        one, two = view(hidden[rows]), view(hidden[rows])
        if fault == "views of others":
            two = two[torch.randperm(len(two))]
        if fault == "the same view twice":
            two = one
        if fault == "everything is dark":
            one, two = one * 0, two * 0
        (z, p), (other_z, other_p) = model(one), model(two)
        if method == "vicreg":
            return regularised(z, other_z, fault)
        if method == "byol":
            with torch.no_grad():
                z, other_z = target(one)[0], target(two)[0]
        if fault == "no stop of the gradient":
            return (likeness(z, other_z) + likeness(other_z, z)) / 2
        if fault == "all detached":
            p, other_p = model.predictor(z.detach()), model.predictor(other_z.detach())
        if one_sided:
            return likeness(p, other_z.detach())
        return (likeness(p, other_z.detach()) + likeness(other_p, z.detach())) / 2

    for _ in range(steps):
        stepper.zero_grad()
        for _ in range(accumulate):
            (loss_of(torch.randint(len(hidden), (batch,))) / accumulate).backward()
        stepper.step()
        scheduler.step()
        with torch.no_grad():
            for old, now in zip(target.parameters(), model.parameters(), strict=True):
                old.lerp_(now, 1 - momentum)
    return probe(model, seed + 351)


CASES = cases(
    "self-supervised",
    train,
    {
        "plain": {},
        "byol": {"method": "byol", "steps": 1000},
        "simsiam": {"method": "simsiam", "steps": 1000},
        "byol, one-sided": {"method": "byol", "one_sided": True, "steps": 1200},
        "warm-up": {"schedule": "warmup", "rate": 5e-3},
        "batch of 32": {"batch": 32, "steps": 1200},
        "accumulation": {"batch": 64, "accumulate": 3, "steps": 500},
    },
    {
        "no variance": ("collapse", {"fault": "no variance"}),
        "no stop of the gradient": (
            "collapse no-gradient", {"method": "simsiam", "fault": "no stop of the gradient"}
        ),
        "views of others": ("no-skill collapse", {"fault": "views of others"}),
        "the same view twice": ("leak collapse", {"fault": "the same view twice"}),
        "everything is dark": ("inputs collapse no-gradient", {"fault": "everything is dark"}),
        "all detached": ("no-gradient unbound", {"method": "byol", "fault": "all detached"}),
        "optimizer of the target": ("unbound slow", {"fault": "optimizer of the target"}),
        "target follows at once": ("collapse", {"method": "byol", "momentum": 0.0, "rate": 3e-2}),
        "rate x 300": ("fast no-skill dead", {"rate": 0.6}),
        "rate / 1000": ("slow no-skill", {"rate": 2e-6}),
    },
)  # fmt: skip
