"""The value of an arithmetic expression, by a recursive network that walks its tree.

Expressions such as ``max(3, 1 - 4) + 2`` are nested tuples; one cell for each operation joins the
states of the two sides. The skill is the share of the value's variance that is explained.
"""

from __future__ import annotations

import math
import random
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, explained
from torch import Tensor, nn

from benchmarks.detection.case import cases

Tree = Any
OPERATIONS = ("+", "-", "max", "min")
VALUES: dict[str, Any] = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "max": max, "min": min}


def grow(draw: random.Random, depth: int) -> Tree:
    """A digit, or an operation with its two sides."""
    if depth == 0 or (depth < 3 and draw.random() < 0.25):
        return draw.randint(0, 9)
    return draw.choice(OPERATIONS), grow(draw, depth - 1), grow(draw, depth - 1)


def value(tree: Tree) -> float:
    if isinstance(tree, int):
        return tree
    return float(VALUES[tree[0]](value(tree[1]), value(tree[2])))


def size(tree: Tree) -> int:
    return 1 if isinstance(tree, int) else 1 + size(tree[1]) + size(tree[2])


class Recursive(nn.Module):
    """States of digits are looked up, those of operations are computed from both sides."""

    def __init__(self, width: int, cell: str, start: float = 0.3) -> None:
        super().__init__()
        self.digits = nn.Embedding(10, width)
        self.operations = nn.Embedding(len(OPERATIONS), width)
        self.join = nn.Sequential(
            nn.Linear(3 * width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)
        )
        self.cell, self.fault = cell, ""
        self.out = nn.Linear(width, 1)
        for part in (self.digits, self.operations):
            nn.init.normal_(part.weight, std=start)

    def levels(self, trees: list[Tree]) -> Tensor:
        """States of all trees (N, width): the operations of one height are joined at once."""
        kinds = torch.tensor([0 if isinstance(t, int) else OPERATIONS.index(t[0]) for t in trees])
        leaf = torch.tensor([isinstance(t, int) for t in trees])
        digits = self.digits(torch.tensor([t if isinstance(t, int) else 0 for t in trees]))
        if bool(leaf.all()):
            return digits
        inner = [t for t in trees if not isinstance(t, int)]
        left, right = self.levels([t[1] for t in inner] + [t[2] for t in inner]).chunk(2)
        if self.fault == "left side twice":
            right = left
        operation = self.operations(kinds[~leaf])
        if self.fault == "one operation for all":
            operation = torch.zeros_like(operation)
        joined = self.join(torch.cat([operation, left, right], 1))
        if self.cell == "sum":
            joined = joined + left + right
        if self.cell == "tanh":
            joined = joined.tanh()
        states = digits.clone()
        states[~leaf] = joined
        return states

    def forward(self, trees: list[Tree]) -> Tensor:
        said: Tensor = self.out(self.levels(trees))
        return said


def criterion(kind: str, said: Tensor, wanted: Tensor) -> Tensor:
    if kind == "row against column":
        return F.mse_loss(said, wanted)
    if kind == "huber":
        return F.smooth_l1_loss(said.squeeze(1), wanted)
    return F.mse_loss(said.squeeze(1), wanted)


def train(
    seed: int, hook: Any, steps: int = 2000, batch: int = 16, rate: float = 2e-3, loss: str = "",
    cell: str = "", width: int = 24, count: int = 4000, optimizer: str = "adam", scale: float = 8.0,
    lessons: bool = False, clip: float = 0.0, noise: float = 0.0, fault: str = "", times: float = 1,
    evaluated: bool = True,
) -> float:  # fmt: skip
    begin(seed)
    draw = random.Random(seed + 40)
    trees = [grow(draw, draw.randint(1, 3)) for _ in range(count)]
    held, test = ([grow(draw, draw.randint(1, 3)) for _ in range(n)] for n in (200, 600))
    if lessons:
        trees.sort(key=size)
    model = Recursive(width, cell)
    model.fault = fault
    hook.torch(model)
    parameters: Any = model.parameters()
    if fault == "the output alone is trained":
        parameters = model.out.parameters()
    steering: Any = {
        "adam": lambda: torch.optim.Adam(parameters, rate),
        "rmsprop": lambda: torch.optim.RMSprop(parameters, rate),
        "adagrad": lambda: torch.optim.Adagrad(parameters, rate),
        "sgd": lambda: torch.optim.SGD(parameters, rate),
    }[optimizer]()

    def targets(part: list[Tree]) -> Tensor:
        return torch.tensor([value(tree) / scale for tree in part])

    for step in range(steps):
        if lessons:  # from a growing part, the short ones first
            known = trees[: min(count, 400 + 2 * step * count // steps)]
            part = draw.choices(known, k=batch)
        else:
            part = draw.choices(trees, k=batch)
        wanted = targets(part)
        if fault == "values of another batch":
            wanted = targets(draw.choices(trees, k=batch))
        wanted = wanted + noise * torch.randn(batch)
        error = criterion(loss, model(part), wanted) * times
        if fault != "gradients kept":
            steering.zero_grad()
        error.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        steering.step()
        if evaluated and step % 200 == 199:
            model.eval()
            with torch.no_grad():
                criterion(loss, model(held), targets(held))
            model.train()
    model.eval()
    with torch.no_grad():
        said = model(test).squeeze(1)
    return explained(said, targets(test)) if bool(said.isfinite().all()) else math.nan


CASES = cases(
    "expression trees",
    train,
    {
        "plain": {},
        "sides added to the state": {"cell": "sum"},
        "short expressions first": {"lessons": True},
        "Huber loss, two trees at a time": {
            "loss": "huber",
            "batch": 2,
            "steps": 3000,
            "rate": 1e-3,
        },
        "RMSprop, clipped": {"optimizer": "rmsprop", "rate": 1e-3, "clip": 0.5},
        "values with noise, no evaluation": {"noise": 0.08, "steps": 2400, "evaluated": False},
        "loss x 10000": {"times": 1e4},
    },
    {
        "left side twice": ("inputs", {"fault": "left side twice"}),
        "one operation for all": ("inputs no-gradient", {"fault": "one operation for all"}),
        "row against column": ("broadcast no-skill collapse", {"loss": "row against column"}),
        "values of another batch": ("no-skill", {"fault": "values of another batch"}),
        "gradients kept": ("kept-gradients fast", {"fault": "gradients kept"}),
        "the output alone is trained": ("unbound slow", {"fault": "the output alone is trained"}),
        "plain descent without clipping": ("fast not-finite", {"optimizer": "sgd", "rate": 1.0}),
    },
)
