"""Strokes of handwriting: an LSTM says where the pen goes next by a mixture of Gaussians.

Made-up writing has loops, waves and hooks of several sizes; a step is how far the pen moved, and
whether it is lifted. The skill is one less the factor by which a step is less likely
under one Gaussian for all.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

LENGTH, LETTER, PARTS = 48, 12, 6


def writing(count: int, seed: int) -> Tensor:
    """(count, LENGTH, 3): steps across and up in pixels, and 1 where the pen is lifted."""
    draw = torch.Generator().manual_seed(seed)
    letters = LENGTH // LETTER
    kind = torch.randint(3, (count, letters, 1), generator=draw)
    size = 40 * (0.6 + 0.8 * torch.rand(count, 1, 1, generator=draw))
    turn = torch.arange(LETTER) / LETTER * 2 * math.pi
    across = torch.stack([turn.cos(), torch.ones(LETTER) * 0.7, (turn / 2).sin() * 1.2])
    up = torch.stack([turn.sin(), (2 * turn).cos() * 1.2, (1.5 * turn).cos()])
    dx = size * across[kind[..., 0]] + 7.0
    dy = size * up[kind[..., 0]]
    moves = torch.stack([dx, dy], -1).view(count, LENGTH, 2)
    moves = moves + 2.7 * torch.randn(count, LENGTH, 2, generator=draw)
    lifted = (torch.arange(LENGTH) % LETTER == LETTER - 1).float().expand(count, LENGTH)
    return torch.cat([moves, lifted[..., None]], 2)


class Writer(nn.Module):
    def __init__(self, width: int, parts: int, kind: str) -> None:
        super().__init__()
        self.recurrent: Any = {"lstm": nn.LSTM, "gru": nn.GRU}[kind](3, width, batch_first=True)
        self.mixture = nn.Linear(width, 6 * parts + 1)
        self.parts = parts

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.mixture(self.recurrent(x)[0])
        return y


def surprise(y: Tensor, wanted: Tensor, parts: int, fault: str = "") -> Tensor:
    """Minus the logarithm of the likelihood of each step (N, L)."""
    weight, mx, my, sx, sy, bound = y[..., :-1].unflatten(-1, (6, parts)).unbind(-2)
    dx, dy, lifted = wanted.unsqueeze(-1).unbind(-2)
    rho = bound if fault == "correlation not bounded" else 0.95 * bound.tanh()
    zx, zy = (dx - mx) / sx.exp(), (dy - my) / sy.exp()
    rest = 1 - rho**2
    each = -(zx**2 + zy**2 - 2 * rho * zx * zy) / (2 * rest)
    each = each - sx - sy - 0.5 * rest.log() - math.log(2 * math.pi)
    if fault == "logarithm of a sum":
        move = (weight.softmax(-1) * each.exp()).sum(-1).log()
    else:
        move = (weight.log_softmax(-1) + each).logsumexp(-1)
    pen = F.binary_cross_entropy_with_logits(y[..., -1], lifted[..., 0], reduction="none")
    return pen - move


def train(
    seed: int, hook: Any, rate: float = 5e-3, steps: int = 500, batch: int = 32, width: int = 64,
    parts: int = PARTS, kind: str = "lstm", optimizer: str = "adam", schedule: str = "constant",
    clip: float = 5.0, summed: bool = False, shaken: float = 0.0, count: int = 1500,
    evaluated: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    rows, held, test = (writing(n, seed + 8900 + n) for n in (count, 201, 600))
    size = torch.tensor([1.0, 1.0, 1.0])
    if fault != "logarithm of a sum":
        size[:2] = rows[..., :2].std()
    asked, held = test / size, held / size
    if fault == "places, not steps":
        held, asked = held.clone(), asked.clone()
        for part in (held, asked):
            part[..., :2] = part[..., :2].cumsum(1)
    rows = rows / size
    model = Writer(width, parts, kind)
    hook.torch(model)
    updates = optimizer_of(optimizer, model.parameters(), rate)
    falls = scheduler_of(updates, schedule, steps)
    first = 1 if fault == "target is the input" else 0

    for step in range(steps):
        x = rows[torch.randint(len(rows), (min(batch, count),))]
        given = x[:, first : first + LENGTH - 1]
        if shaken:
            given = given + shaken * torch.randn_like(given)
        each = surprise(model(given), x[:, 1:], parts, fault)
        loss = each.sum(1).mean() if summed else each.mean()
        updates.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        updates.step()
        falls.step()
        if evaluated and step % 100 == 99:
            model.eval()
            with torch.no_grad():
                surprise(model(held[:, :-1]), held[:, 1:], parts, fault).mean()
            model.train()
    model.eval()
    with torch.no_grad():
        found = surprise(model(asked[:, :-1]), asked[:, 1:], parts).mean()
    found = found + 2 * size[0].log()
    one, lifted = test[..., :2].flatten(0, 1), 1 / LETTER
    base = 0.5 * torch.linalg.slogdet(one.T.cov())[1] + 1 + math.log(2 * math.pi)
    base = base - lifted * math.log(lifted) - (1 - lifted) * math.log(1 - lifted)
    return 1 - math.exp(min((found - base).item(), 50.0))


CASES = cases(
    "pen strokes",
    train,
    {
        "plain": {},
        "one cycle": {"schedule": "one cycle", "rate": 1e-2},
        "twenty parts and a GRU": {"parts": 20, "kind": "gru"},
        "sum over steps": {"summed": True, "clip": 50.0},
        "inputs shaken": {"shaken": 0.03},
        "batch of four without evaluation": {"batch": 4, "steps": 900, "evaluated": False},
    },
    {
        "logarithm of a sum of pixels": ("not-finite", {"fault": "logarithm of a sum"}),
        "correlation not bounded": ("not-finite", {"fault": "correlation not bounded"}),
        "six writings": ("overfit", {"count": 6}),
        "places, not steps": ("inputs overfit", {"fault": "places, not steps"}),
        "target is the input": ("leak", {"fault": "target is the input"}),
    },
)
