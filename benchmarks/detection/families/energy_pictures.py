"""A restricted Boltzmann machine of small black and white pictures, by contrastive divergence.

Each picture shows stripes, either across or down, with a few wrong pixels. The loss is the free
energy of pictures less that of a chain's samples, which tells little by itself. The skill is how
much better than its usual colour a pixel is guessed from all the others, where 1 has no errors.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, factor, optimizer_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIDE = 6
PIXELS = SIDE * SIDE


def pictures(count: int, seed: int, wrong: float = 0.01) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    line = (torch.rand(count, SIDE, generator=draw) < 0.4).float()[:, :, None].expand(-1, -1, SIDE)
    down = torch.rand(count, 1, 1, generator=draw) < 0.5
    picture = torch.where(down, line.transpose(1, 2), line).flatten(1)
    return torch.where(torch.rand(picture.shape, generator=draw) < wrong, 1 - picture, picture)


class Machine(nn.Module):
    def __init__(self, hidden: int, spread: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(hidden, PIXELS) * spread)
        self.visible = nn.Parameter(torch.zeros(PIXELS))
        self.hidden = nn.Parameter(torch.zeros(hidden))

    def forward(self, v: Tensor) -> Tensor:
        """The free energy of each row."""
        return -v @ self.visible - F.softplus(F.linear(v, self.weight, self.hidden)).sum(1)

    @torch.no_grad()
    def chain(self, v: Tensor, times: int, mean_field: bool = False) -> Tensor:
        for _ in range(times):
            h = F.linear(v, self.weight, self.hidden).sigmoid().bernoulli()
            v = F.linear(h, self.weight.T, self.visible).sigmoid()
            v = v if mean_field else v.bernoulli()
        return v


@torch.no_grad()
def guessed(model: Machine, x: Tensor, scale: float = 1.0) -> Tensor:
    """The probability that each pixel is white, of all others."""
    columns = []
    for pixel in range(PIXELS):
        white, black = x * scale, x * scale
        white[:, pixel], black[:, pixel] = scale, 0.0
        columns.append((model(black) - model(white)).sigmoid())
    return torch.stack(columns, 1)


def train(
    seed: int, hook: Any, rate: float = 3e-3, steps: int = 2500, batch: int = 32,
    optimizer: str = "adam", schedule: str = "constant", times: int = 1, persistent: bool = False,
    mean_field: bool = False, decay: float = 0.0, hidden: int = 64, spread: float = 0.05,
    scale: float = 1.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, held, test = (pictures(n, seed + 40 * i) for i, n in enumerate((3000, 300, 500)))
    model = Machine(hidden, spread)
    hook.torch(model)
    stepper = optimizer_of(optimizer, model.parameters(), rate, decay)
    falls = torch.optim.lr_scheduler.LambdaLR(stepper, lambda s: factor(schedule, s, steps))
    particles = torch.rand(batch, PIXELS).round()
    for step in range(steps):
        seen = x[torch.randint(len(x), (batch,))] * scale
        sampled = model.chain(particles if persistent else seen, times, mean_field)
        particles = sampled
        gap = model(seen).mean() - model(sampled).mean()
        if fault == "sign turned":
            gap = -gap
        if fault == "squared difference":
            gap = F.mse_loss(model(seen), model(sampled))
        if fault != "gradients kept":
            stepper.zero_grad()
        gap.backward()
        stepper.step()
        falls.step()
        if step % 250 == 249:
            model.eval()
            with torch.no_grad():
                rebuilt = model.chain(held * scale, 1, mean_field=True)
                F.binary_cross_entropy(rebuilt.clamp(0, 1), held)
            model.train()
    found = guessed(model, test, scale)
    wrong = ((found > 0.5).float() != test).float().mean().item()
    usual = torch.minimum(test.mean(0), 1 - test.mean(0)).mean().item()
    return 1 - wrong / usual if bool(torch.isfinite(found).all()) else float("nan")


CASES = cases(
    "energy pictures",
    train,
    {
        "plain": {},
        "persistent chains": {"persistent": True, "times": 2, "rate": 2e-3},
        "ten steps of the chain": {"times": 10, "steps": 2000},
        "momentum": {"optimizer": "momentum", "rate": 0.02},
        "mean field": {"mean_field": True},
        "batch of 256, many hidden": {"batch": 256, "hidden": 160, "steps": 2000},
    },
    {
        "sign turned": ("worse no-skill", {"fault": "sign turned"}),
        "squared difference": ("no-skill collapse", {"fault": "squared difference"}),
        "pixels up to 255": ("inputs no-skill saturated", {"scale": 255.0}),
        "gradients kept": (
            "kept-gradients fast worse",
            {"fault": "gradients kept", "optimizer": "momentum", "rate": 0.02},
        ),
        "rate x 1000": ("fast saturated no-skill dead", {"rate": 3.0}),
    },
)
