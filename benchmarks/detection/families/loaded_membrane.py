"""How a loaded membrane sags on a soft bed: a network solves the equation by Adam, then L-BFGS.

Tension and the bed, which pushes back the more the deeper it is, carry a load that is known at any
point; the sag is nought along the frame. The loss is the mean square of what the equation leaves
over, and of the sag along the frame. The skill is the share of the variance of the true sag that is
explained on a fine mesh.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, explained
from torch import Tensor, nn

from benchmarks.detection.case import cases

BED = 10.0
WAVES = ((1, 1, 1.0), (2, 1, 0.5), (1, 2, -0.6))


def true_sag(xy: Tensor) -> Tensor:
    """(N, 1): the sum of a few waves that are nought along the frame."""
    x, y = math.pi * xy[:, :1], math.pi * xy[:, 1:]
    return sum((a * (n * x).sin() * (m * y).sin() for n, m, a in WAVES), torch.zeros_like(x))


def load(xy: Tensor) -> Tensor:
    """(N, 1): what the bed carries, less the Laplacian of the true sag."""
    x, y = math.pi * xy[:, :1], math.pi * xy[:, 1:]
    parts = (a * math.pi**2 * (n * n + m * m) * (n * x).sin() * (m * y).sin() for n, m, a in WAVES)
    return sum(parts, BED * true_sag(xy) ** 3)


def frame(count: int) -> Tensor:
    along = torch.rand(count)
    zero, one = torch.zeros(count), torch.ones(count)
    sides = [(along, zero), (along, one), (zero, along), (one, along)]
    return torch.cat([torch.stack(side, 1) for side in sides])


def mesh(cells: int) -> Tensor:
    ticks = (torch.arange(cells) + 0.5) / cells
    return torch.cartesian_prod(ticks, ticks)


class Membrane(nn.Module):
    """``unit``: how long a side is in the unit of the inputs; ``exact``: nought along the frame."""

    def __init__(
        self, width: int, activation: type[nn.Module], exact: bool, unit: float, spread: float
    ) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, width), activation(),
            nn.Linear(width, width), activation(), nn.Linear(width, 1),
        )  # fmt: skip
        self.exact, self.unit = exact, unit
        for layer in self.net:
            if isinstance(layer, nn.Linear):
                if spread:
                    nn.init.normal_(layer.weight, std=spread)
                else:
                    nn.init.xavier_normal_(layer.weight)
                    nn.init.zeros_(layer.bias)

    def forward(self, xy: Tensor) -> Tensor:
        centred = 2 * xy - 1 if self.unit == 1 else xy * self.unit
        sag: Tensor = self.net(centred)
        if self.exact:
            x, y = xy[:, :1], xy[:, 1:]
            sag = sag * 16 * x * (1 - x) * y * (1 - y)
        return sag


def left_over(model: nn.Module, xy: Tensor, fault: str) -> Tensor:
    """The Laplacian of the sag, the load and the bed: nought where the equation holds."""
    xy = xy.clone().requires_grad_()
    sag = model(xy)
    slope = torch.autograd.grad(sag.sum(), xy, create_graph=True)[0]
    bend_x = torch.autograd.grad(slope[:, 0].sum(), xy, create_graph=True)[0][:, 0]
    bend_y = torch.autograd.grad(slope[:, 1].sum(), xy, create_graph=True)[0][:, 1]
    if fault == "bend along x twice":
        bend_y = bend_x
    pushed = load(xy.detach())
    bed = BED * sag.squeeze(1) ** 3
    if fault == "columns and rows":
        return bend_x + bend_y + pushed - bed
    return bend_x + bend_y + pushed.squeeze(1) - bed


def train(
    seed: int, hook: Any, adam_steps: int = 600, rate: float = 3e-3, turns: int = 15,
    evaluations: int = 20, search: str | None = "strong_wolfe", points: int = 300,
    fresh: bool = False, edge: float = 100.0, scale: float = 1.0, width: int = 24,
    activation: type[nn.Module] = nn.Tanh, exact: bool = False, unit: float = 1.0,
    spread: float = 0.0, schedule: bool = False, evaluate: bool = True, second_rate: float = 1.0,
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    inner, outer, fine = torch.rand(points, 2), frame(25), mesh(24)
    model = Membrane(width, activation, exact, unit, spread)
    hook.torch(model)

    def error() -> Tensor:
        inside = left_over(model, inner, fault).pow(2).mean()
        along = model(outer).pow(2).mean()
        return scale * (inside + edge * along)

    def measure() -> float:
        model.eval()
        with torch.no_grad():
            gap = nn.functional.mse_loss(model(fine), true_sag(fine)).item()
        model.train()
        return gap

    def closure_of(optimizer: torch.optim.Optimizer) -> Callable[[], Tensor]:
        def closure() -> Tensor:
            if fault != "closure keeps gradients":
                optimizer.zero_grad()
            loss = error()
            loss.backward()
            return loss

        return closure

    adam = torch.optim.Adam(model.parameters(), rate)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(adam, max(adam_steps, 1), 0.02 * rate)
    for step in range(adam_steps):
        if fresh:
            inner, outer = torch.rand(points, 2), frame(25)
        adam.zero_grad()
        loss = error()
        loss.backward()
        adam.step()
        if schedule:
            cosine.step()
        if evaluate and (step + 1) % 100 == 0:
            measure()
    second = torch.optim.LBFGS(
        model.parameters(), second_rate, max_iter=evaluations, line_search_fn=search
    )
    for turn in range(turns):
        second.step(closure_of(second))
        if evaluate and (turn + 1) % 5 == 0:
            measure()
    with torch.no_grad():
        found = model(fine)
    return explained(found, true_sag(fine)) if bool(found.isfinite().all()) else math.nan


CASES = cases(
    "loaded membrane",
    train,
    {
        "plain": {},
        "L-BFGS alone": {"adam_steps": 0, "turns": 40},
        "exact along the frame": {"exact": True, "edge": 0.0},
        "fresh points, Adam alone, cosine": {
            "fresh": True, "turns": 0, "adam_steps": 1500, "rate": 1e-2, "schedule": True,
        },
        "loss times 1000, no evaluation": {"scale": 1e3, "evaluate": False},
        "smooth gates, few points": {"activation": nn.SiLU, "points": 100},
        "without a search along the line": {"search": None, "second_rate": 0.1, "turns": 20},
    },
    {
        "columns and rows": ("broadcast no-skill", {"fault": "columns and rows"}),
        "ReLU": ("no-gradient no-skill dead", {"activation": nn.ReLU}),
        "bend along x twice": ("worse no-skill overfit", {"fault": "bend along x twice"}),
        "closure keeps gradients": (
            "kept-gradients fast not-finite", {"fault": "closure keeps gradients", "adam_steps": 0,
            "turns": 40},
        ),
        "weights too wide": ("saturated no-skill worse", {"spread": 4.0}),
        "lengths in millimetres": ("inputs saturated no-skill", {"unit": 1e3}),
    },
)  # fmt: skip
