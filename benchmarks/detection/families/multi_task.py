"""One body, two heads: a number and a class; a loss is the sum of the two."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import (
    begin,
    class_skill,
    dense,
    explained,
    normal,
    optimizer_of,
    scheduler_of,
)
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIZE, KINDS = 16, 4


def samples(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    x = normal(count, SIZE, seed=seed)
    hidden = torch.tanh(x @ normal(SIZE, 4, seed=41) / 3)
    number = (hidden @ normal(4, 1, seed=42)).squeeze(1) + hidden[:, 0] * hidden[:, 1]
    return (
        x,
        number + 0.1 * normal(count, seed=seed + 1),
        (hidden @ normal(4, KINDS, seed=43)).argmax(1),
    )


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(dense([SIZE, 48, 48]), nn.ReLU())
        self.number = nn.Linear(48, 1)
        self.kind = nn.Linear(48, KINDS)
        self.spread = nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        h = self.body(x)
        return {"number": self.number(h).squeeze(1), "kind": self.kind(h)}


def train(
    seed: int,
    hook: Any,
    rate: float = 3e-3,
    steps: int = 1000,
    batch: int = 32,
    schedule: str = "constant",
    weight: float = 1.0,
    functional: bool = False,
    uncertain: bool = False,
    alternate: bool = False,
    fault: str = "",
    only: str = "",
    scale: float = 1.0,
) -> float:
    begin(seed)
    (x, number, kind), held = samples(5000, seed + 120), samples(800, seed + 122)
    if fault in ("both shuffled", "numbers shuffled"):
        number = number[torch.randperm(len(number))]
    if fault == "both shuffled":
        kind = kind[torch.randperm(len(kind))]
    model = TwoHeads()
    chosen = [p for n, p in model.named_parameters() if only in n]
    optimizer = optimizer_of("adam", chosen, rate)
    scheduler = scheduler_of(optimizer, schedule, steps)
    squares: Any = F.mse_loss if functional else nn.MSELoss()
    entropy: Any = F.cross_entropy if functional else nn.CrossEntropyLoss()
    hook.torch(model)
    for step in range(steps):
        rows = torch.randint(len(x), (batch,))
        found = model(x[rows])
        guess, wanted = found["number"], number[rows]
        if fault == "broadcast":
            guess = guess[:, None]
        if fault == "detached":
            guess = guess.detach() + model.number.bias
        scores = found["kind"].softmax(1) if fault == "softmax" else found["kind"]
        parts = [weight * squares(guess, wanted), entropy(scores, kind[rows])]
        if uncertain:
            parts = [part * (-s).exp() + s for part, s in zip(parts, model.spread, strict=True)]
        loss = parts[step % 2] if alternate else parts[0] + parts[1]
        if fault == "not a number" and step == 400:
            loss = loss * torch.log(torch.tensor(-1.0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % 200 == 199:
            model.eval()
            with torch.no_grad():
                said = model(held[0] * scale)
                squares(said["number"], held[1])
                entropy(said["kind"], held[2])
            model.train()
    model.eval()
    with torch.no_grad():
        said = model(held[0] * scale)
    return (explained(said["number"], held[1]) + class_skill(said["kind"], held[2])) / 2


CASES = cases(
    "multi-task",
    train,
    {
        "plain": {},
        "functional losses": {"functional": True},
        "tasks take turns": {"alternate": True, "steps": 2000},
        "weights that are learned": {"uncertain": True},
        "one task weighs more": {"weight": 5.0},
        "restarts": {"schedule": "restarts", "rate": 5e-3},
    },
    {
        "both shuffled": ("no-skill", {"fault": "both shuffled"}),
        "numbers shuffled": ("no-skill", {"fault": "numbers shuffled"}),
        "(N, 1) against (N)": ("broadcast no-skill", {"fault": "broadcast"}),
        "one head detached": ("no-gradient unbound no-skill", {"fault": "detached"}),
        "not a number": ("not-finite", {"fault": "not a number"}),
        "number's head only": ("unbound", {"only": "number"}),
        "evaluation x 255": ("inputs", {"scale": 255.0}),
        "rate x 1000": ("fast no-skill dead", {"rate": 3.0}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
    },
)
