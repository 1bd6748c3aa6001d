"""An energy of points in the plane: score matching in several ways, and noise-contrastive."""

from __future__ import annotations

import math
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, dense, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

SPOTS = torch.tensor([[1.5, 0.0], [-1.0, 1.3], [-0.8, -1.4]])
SHARES = torch.tensor([0.5, 0.3, 0.2])
SPREAD, NOISE, WIDE = 0.45, 0.3, 2.0


def points(count: int, seed: int) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    spot = torch.multinomial(SHARES, count, replacement=True, generator=draw)
    return SPOTS[spot] + SPREAD * torch.randn(count, 2, generator=draw)


def true_score(x: Tensor, spread: float) -> Tensor:
    """The gradient of the logarithm of the density, where the spots have that spread."""
    apart = SPOTS - x[:, None]
    shares = (SHARES.log() - (apart**2).sum(2) / (2 * spread**2)).softmax(1)
    return (shares[:, :, None] * apart).sum(1) / spread**2


class Energy(nn.Module):
    def __init__(self, activation: type[nn.Module], units: int) -> None:
        super().__init__()
        self.body = dense([2, units, units, 1], activation)
        self.level = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x).squeeze(1) + self.level


def score(energy: nn.Module, x: Tensor, graph: bool = True) -> Tensor:
    x = x.detach().requires_grad_()
    return torch.autograd.grad(-energy(x).sum(), x, create_graph=graph)[0]


def denoising(energy: nn.Module, x: Tensor, fault: str) -> Tensor:
    """Of a point with noise, the score points back to where it came from."""
    noise = torch.randn_like(x)
    found = score(energy, x + NOISE * noise, graph=fault != "no second derivative")
    if fault == "no second derivative":
        found = found + 0 * energy(x).sum()
    if fault == "noise drawn again":
        noise = torch.randn_like(x)
    wanted = noise if fault == "noise's sign" else -noise
    if fault == "summed over rows":
        return ((NOISE * found.sum(0) - wanted) ** 2).sum(1).mean() / len(x)
    return ((NOISE * found - wanted) ** 2).sum(1).mean()


def sliced(energy: nn.Module, x: Tensor, fault: str) -> Tensor:
    """Without any noise, by the derivative in a direction at random: mostly negative."""
    direction = torch.randn_like(x)
    x = x.detach().requires_grad_()
    found = torch.autograd.grad(-energy(x).sum(), x, create_graph=True)[0]
    along = (found * direction).sum()
    bend = (torch.autograd.grad(along, x, create_graph=True)[0] * direction).sum(1)
    if fault == "sign of the bend":
        bend = -bend
    return (bend + 0.5 * (found * direction).sum(1) ** 2).mean()


def contrastive(energy: nn.Module, x: Tensor, fault: str) -> Tensor:
    """Points of the data from those of a wide normal distribution whose density is known."""
    wide = x[torch.randperm(len(x))] if fault == "noise is data" else WIDE * torch.randn_like(x)
    odds = []
    for each in (x, wide):
        known = -(each**2).sum(1) / (2 * WIDE**2) - math.log(2 * math.pi * WIDE**2)
        odds.append(-energy(each) - known)
    if fault == "both are noise":
        odds[0] = -odds[0]
    return -nn.functional.logsigmoid(odds[0]).mean() - nn.functional.logsigmoid(-odds[1]).mean()


OBJECTIVES = {"denoising": denoising, "sliced": sliced, "contrastive": contrastive}


def skill(energy: nn.Module, held: Tensor, how: str) -> float:
    """The share of the true score that is found; with noise where it was learned with noise."""
    spread = SPREAD
    if how == "denoising":
        held, spread = held + NOISE * torch.randn_like(held), math.hypot(SPREAD, NOISE)
    wanted = true_score(held, spread)
    found = score(energy, held, graph=False)
    return float(1 - (((found - wanted) ** 2).sum() / (wanted**2).sum()).item())


def train(
    seed: int, hook: Any, how: str = "denoising", steps: int = 1000, rate: float = 3e-3,
    batch: int = 128, units: int = 48, schedule: str = "constant", clip: float = 0.0,
    optimizer: str = "adam", average: float = 0.0, unit: float = 1.0,
    activation: type[nn.Module] = nn.SiLU, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    data, held = points(8000, seed + 340), points(1500, seed + 341)
    if fault == "one spot":
        data = SPOTS[torch.zeros(8000, dtype=torch.long)] + 0.0
    energy = Energy(activation, units)
    slow = Energy(activation, units)
    slow.load_state_dict(energy.state_dict())
    chosen = slow if fault == "optimizer of the average" else energy
    stepper = optimizer_of(optimizer, chosen.parameters(), rate)
    scheduler = scheduler_of(stepper, schedule, steps)
    watcher = hook.torch(energy)
    for _ in range(steps):
        rows = torch.randint(len(data), (batch,))
        loss = unit * OBJECTIVES[how](energy, data[rows], fault)
        if fault != "gradients kept":
            stepper.zero_grad()
        loss.backward()
        watcher.record_loss(loss)
        if clip:
            nn.utils.clip_grad_norm_(energy.parameters(), clip)
        stepper.step()
        scheduler.step()
        if average:
            with torch.no_grad():
                for old, now in zip(slow.parameters(), energy.parameters(), strict=True):
                    old.lerp_(now, 1 - average)
    return skill(slow if average else energy, held, how)


CASES = cases(
    "score matching",
    train,
    {
        "plain": {},
        "averaged": {"average": 0.99},
        "sliced, negative": {"how": "sliced", "steps": 1800, "schedule": "cosine"},
        "noise-contrastive": {"how": "contrastive", "steps": 1500, "schedule": "cosine"},
        "loss x 10⁴": {"unit": 1e4},
        "clipped always": {"clip": 0.2, "schedule": "cosine"},
        "softplus, warm-up": {"activation": nn.Softplus, "schedule": "warmup", "rate": 1e-2},
        "batch of sixteen": {"batch": 16, "steps": 2200, "schedule": "cosine"},
        "warm restarts": {"schedule": "restarts", "rate": 5e-3},
    },
    {
        "noise drawn again": ("no-skill", {"fault": "noise drawn again"}),
        "noise's sign": ("no-skill worse", {"fault": "noise's sign"}),
        "no second derivative": ("no-gradient no-skill", {"fault": "no second derivative"}),
        "summed over rows": ("broadcast no-skill", {"fault": "summed over rows"}),
        "sign of the bend": (
            "collapse no-skill worse",
            {"how": "sliced", "fault": "sign of the bend"},
        ),
        "noise is data": ("no-skill collapse", {"how": "contrastive", "fault": "noise is data"}),
        "both are noise": (
            "worse no-skill collapse",
            {"how": "contrastive", "fault": "both are noise"},
        ),
        "one spot": ("inputs collapse no-skill", {"fault": "one spot"}),
        "rectified units": ("no-gradient no-skill", {"activation": nn.ReLU, "how": "sliced"}),
        "optimizer of the average": ("unbound slow", {"fault": "optimizer of the average"}),
        "gradients kept": (
            "kept-gradients fast worse",
            {"fault": "gradients kept", "optimizer": "sgd", "rate": 0.1},
        ),
        "rate x 300": ("fast no-skill dead worse", {"rate": 0.9}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
    },
)
