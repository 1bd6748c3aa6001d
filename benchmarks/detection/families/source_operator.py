"""An operator network: from a source along a rod to its temperature anywhere, by branch and trunk.

The rod is cold at both ends, and -u'' = f. The branch sees the source f at 24 sensors, the trunk a
place x; the temperature is the inner product of what they say, and a bias. The skill is the share
of variance explained for other sources.
"""

from __future__ import annotations

import warnings
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, dense, explained
from torch import Tensor, nn

from benchmarks.detection.case import cases

SENSORS, PLACES = 24, 49


def rods(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Sources (N, SENSORS) and temperatures (N, PLACES): sums of waves that are nought at ends."""
    draw = torch.Generator().manual_seed(seed)
    number = torch.arange(1, 7)
    size = torch.randn(count, 6, generator=draw) * number / 2
    at_sensors = torch.sin(torch.pi * number * torch.linspace(0, 1, SENSORS)[:, None])
    anywhere = torch.sin(torch.pi * number * torch.linspace(0, 1, PLACES)[:, None])
    return size @ at_sensors.T, 10 * (size / (torch.pi * number) ** 2) @ anywhere.T


class Operator(nn.Module):
    def __init__(self, waves: bool, kind: type[nn.Module]) -> None:
        super().__init__()
        self.waves = waves
        self.branch = dense((SENSORS, 48, 32), kind)
        self.trunk = dense((9 if waves else 1, 48, 48, 32), kind)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, source: Tensor, place: Tensor) -> Tensor:
        """(N, SENSORS) and (N, 1) to (N, 1)."""
        if self.waves:
            angle = torch.pi * place * torch.arange(1, 5)
            place = torch.cat([place, angle.sin(), angle.cos()], 1)
        both = self.branch(source) * torch.tanh(self.trunk(place))
        return cast(Tensor, both.sum(1, keepdim=True) + self.bias)


class Trainer:
    """Triples of a source, a place and a temperature, as papers on operators make them."""

    def __init__(self, model: Operator, rods: tuple[Tensor, Tensor], loss: str, fault: str) -> None:
        self.model, self.loss, self.fault = model, loss, fault
        self.source, self.heat = rods
        self.grid = torch.linspace(0, 1, PLACES)[:, None]

    def batch(self, size: int, each: int) -> tuple[Tensor, Tensor, Tensor]:
        """``size`` sources with ``each`` places."""
        rows = torch.randint(len(self.source), (size,))
        at = torch.randint(PLACES, (size, each))
        if self.fault == "tiled, not repeated":
            source = self.source[rows].repeat(each, 1)
        else:
            source = self.source[rows].repeat_interleave(each, 0)
        return source, self.grid[at].flatten(0, 1), self.heat[rows].gather(1, at).flatten()

    def error(self, found: Tensor, heat: Tensor) -> Tensor:
        if self.fault == "loss of other shapes":
            return F.mse_loss(found, heat)
        away = found.squeeze(1) - heat
        if self.loss == "relative":
            return away.norm() / heat.norm()
        if self.loss == "x 10000":
            return 1e4 * away.square().mean()
        return away.square().mean()

    def evaluate(self, source: Tensor, heat: Tensor) -> Tensor:
        self.model.eval()
        with torch.no_grad():
            every = source.repeat_interleave(PLACES, 0)
            found = self.model(every, self.grid.repeat(len(source), 1))
            self.error(found, heat.flatten())
        self.model.train()
        return cast(Tensor, found.view(heat.shape))


def train(
    seed: int, hook: Any, loss: str = "squares", steps: int = 900, rate: float = 3e-3,
    size: int = 32, each: int = 4, waves: bool = False, count: int = 800,
    kind: type[nn.Module] = nn.GELU, falls: float = 1.0, evaluate: int = 150, fault: str = "",
) -> float:  # fmt: skip
    warnings.filterwarnings("ignore", message="Using a target size")
    begin(seed)
    given, held, (test, test_heat) = (
        rods(n, seed + 9900 + k) for k, n in enumerate((count, 40, 300))
    )
    if fault == "sensors in another order":
        other = torch.randperm(SENSORS)
        held, test = (held[0][:, other], held[1]), test[:, other]
    model = Operator(waves, kind)
    hook.torch(model)
    if fault == "trunk in no optimizer":
        chosen: Any = [*model.branch.parameters(), model.bias]
        nn.init.normal_(model.trunk[0].weight, std=0.01)
    else:
        chosen = model.parameters()
    optimizer = torch.optim.Adam(chosen, rate)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, falls)
    trainer = Trainer(model, given, loss, fault)
    for step in range(1, steps + 1):
        source, place, heat = trainer.batch(size, each)
        optimizer.zero_grad()
        trainer.error(model(source, place), heat).backward()
        optimizer.step()
        scheduler.step()
        if evaluate and step % evaluate == 0:
            trainer.evaluate(*held)
    return explained(trainer.evaluate(test, test_heat), test_heat)


CASES = cases(
    "source operator",
    train,
    {
        "plain": {},
        "relative error": {"loss": "relative", "falls": 0.998},
        "loss x 10000": {"loss": "x 10000"},
        "waves of the place": {"waves": True},
        "all places of four sources": {"size": 4, "each": 40},
        "never evaluated, tanh": {"evaluate": 0, "kind": nn.Tanh},
    },
    {
        "loss of other shapes": ("broadcast no-skill collapse", {"fault": "loss of other shapes"}),
        "tiled, not repeated": ("no-skill", {"fault": "tiled, not repeated"}),
        "sensors in another order": ("inputs overfit", {"fault": "sensors in another order"}),
        "eight sources": ("overfit", {"count": 8}),
        "trunk in no optimizer": ("unbound no-skill slow", {"fault": "trunk in no optimizer"}),
    },
)
