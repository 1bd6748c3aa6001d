"""Curves from a few of their points: a conditional neural process with FiLM layers.

Each curve is a wave with a slope and a bend. A context of some points is encoded as a set, and says
by which factors and shifts the hidden units of a decoder are changed; the decoder gives a mean and
a spread at other places. The skill is the share of variance explained there.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, explained, optimizer_of, scheduler_of
from torch import Tensor, nn
from torch.distributions import Normal

from benchmarks.detection.case import cases

KNOWN, ASKED, WIDTH = 10, 10, 48


def curves(count: int, seed: int, noise: float = 0.02) -> tuple[Tensor, Tensor]:
    """Places and heights (N, KNOWN + ASKED, 1)."""
    draw = torch.Generator().manual_seed(seed)
    size, phase, slope, bend = 2 * torch.rand(4, count, 1, 1, generator=draw) - 1
    x = 2 * torch.rand(count, KNOWN + ASKED, 1, generator=draw) - 1
    y = (1 + 0.5 * size) * (3 * x + 3 * phase).sin() + slope * x + bend * x**2
    return x, y + noise * torch.randn(y.shape, generator=draw)


class Process(nn.Module):
    def __init__(self, fault: str, activation: type[nn.Module], pooled: str) -> None:
        super().__init__()
        self.fault, self.pooled = fault, pooled
        self.encoder = nn.Sequential(
            nn.Linear(2, WIDTH), activation(), nn.Linear(WIDTH, WIDTH), activation(),
            nn.Linear(WIDTH, WIDTH),
        )  # fmt: skip
        self.changes = nn.Linear(WIDTH, 4 * WIDTH)
        self.first, self.second = nn.Linear(1, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, 2)
        self.activation = activation()

    def forward(self, x: Tensor, y: Tensor, places: Tensor) -> Normal:
        points = self.encoder(torch.cat([x, y], 2))
        if self.fault == "mean over curves":
            context = points.mean(0)[None, :1].expand(len(x), 1, -1)
        elif self.pooled == "largest":
            context = points.max(1, keepdim=True).values
        else:
            context = points.mean(1, keepdim=True)
        scale, shift, scale_2, shift_2 = self.changes(context).chunk(4, 2)
        h = self.activation(self.first(places) * (1 + scale) + shift)
        h = self.activation(self.second(h) * (1 + scale_2) + shift_2)
        mean, spread = self.out(h).chunk(2, 2)
        return Normal(mean, 0.02 + F.softplus(spread), validate_args=False)


def loss_of(kind: str, found: Normal, wanted: Tensor) -> Tensor:
    if kind == "squared":
        return F.mse_loss(found.mean, wanted)
    if kind == "maximised":
        return found.log_prob(wanted).mean()
    error = -found.log_prob(wanted)
    return error.sum((1, 2)).mean() if kind == "summed" else error.mean()


def train(
    seed: int, hook: Any, loss: str = "", steps: int = 2200, batch: int = 32, rate: float = 2e-3,
    optimizer: str = "adam", schedule: str = "constant", count: int = 5000, noise: float = 0.02,
    activation: type[nn.Module] = nn.ReLU, pooled: str = "mean", clip: float = 0.0,
    points: str = "all", fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, y = curves(count, seed + 36100, noise)
    (held_x, held_y), (test_x, test_y) = curves(300, seed + 36101), curves(1000, seed + 36102)
    if fault == "contexts of other curves":
        y = torch.cat([y[torch.randperm(count)][:, :KNOWN], y[:, KNOWN:]], 1)
    if fault == "places in degrees later":
        held_x, test_x = 57.3 * held_x, 57.3 * test_x
    model = Process(fault, activation, pooled)
    hook.torch(model)
    updates = optimizer_of(optimizer, model.parameters(), rate)
    scheduler = scheduler_of(updates, schedule, steps)
    draw = torch.Generator().manual_seed(seed)
    for step in range(steps):
        rows = torch.randint(count, (batch,), generator=draw)
        known = KNOWN if points == "all" else int(torch.randint(6, KNOWN + 1, (), generator=draw))
        bx, by = x[rows], y[rows]
        found = model(bx[:, :known], by[:, :known], bx[:, KNOWN:])
        error = loss_of(loss, found, by[:, KNOWN:])
        if fault != "gradients kept":
            updates.zero_grad()
        error.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        updates.step()
        scheduler.step()
        if step % 220 == 219:
            model.eval()
            with torch.no_grad():
                found = model(held_x[:, :KNOWN], held_y[:, :KNOWN], held_x[:, KNOWN:])
                loss_of(loss, found, held_y[:, KNOWN:])
            model.train()
    model.eval()
    with torch.no_grad():
        found = model(test_x[:, :KNOWN], test_y[:, :KNOWN], test_x[:, KNOWN:])
    return explained(found.mean, test_y[:, KNOWN:])


CASES = cases(
    "curve contexts",
    train,
    {
        "plain": {},
        "points that vary in number": {"points": "some"},
        "squared error": {"loss": "squared"},
        "likelihood summed, clipped": {"loss": "summed", "clip": 5.0},
        "largest of the points": {"pooled": "largest"},
        "tanh, one cycle": {"activation": nn.Tanh, "schedule": "one cycle", "rate": 6e-3},
        "noisy heights": {"noise": 0.15},
    },
    {
        "mean over curves": ("no-skill collapse", {"fault": "mean over curves"}),
        "gradients kept": ("kept-gradients fast worse", {"fault": "gradients kept"}),
        "rate x 1000": ("fast no-skill dead", {"rate": 2.0}),
        "contexts of other curves": ("no-skill overfit", {"fault": "contexts of other curves"}),
        "places in degrees later": ("inputs overfit", {"fault": "places in degrees later"}),
        "likelihood minimised": ("worse no-skill fast not-finite", {"loss": "maximised"}),
        "eight curves": ("overfit", {"count": 8}),
    },
)
