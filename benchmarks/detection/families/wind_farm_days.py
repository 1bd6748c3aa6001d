"""Days of a wind farm, 24 megawatts each, drawn for a kind of weather: denoising diffusion.

A calm day, a breeze in the afternoon, a front that passes at some hour, or a storm in which the
turbines are stopped. The skill is 1 less the energy distance between days drawn and days held out
of the same weather, as a share of that of normal numbers with the mean and spread of each hour.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, optimizer_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

HOURS, WEATHERS, CAPACITY = 24, 4, 180.0


def farm_days(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Megawatts as (N, HOURS), and the weather."""
    draw = torch.Generator().manual_seed(seed)
    weather = torch.randint(WEATHERS, (count,), generator=draw)
    hour = torch.arange(HOURS).float()
    first, second, third = torch.rand(3, count, 1, generator=draw)
    calm = 0.05 + 0.2 * first + 0.05 * torch.cos(hour / 4 + 6 * second)
    breeze = 0.1 + (0.3 + 0.4 * first) * torch.exp(-((hour - 13 - 4 * second) ** 2) / 22)
    front = 0.15 + (0.4 + 0.4 * first) * torch.sigmoid((hour - 4 - 15 * second) * (0.5 + third))
    stop = torch.sigmoid(2 * (hour - 6 - 8 * second)) * torch.sigmoid(2 * (12 + 8 * third - hour))
    storm = (0.75 + 0.2 * first) * (1 - 0.9 * stop)
    share = torch.stack([calm, breeze, front, storm])[weather, torch.arange(count)]
    gusts = torch.randn(count, HOURS + 2, generator=draw).unfold(1, 3, 1).mean(2)
    return CAPACITY * (share + 0.05 * gusts), weather


def noise_levels(kind: str, steps: int) -> Tensor:
    """What is left of the day after each step: the products of 1 - beta."""
    if kind == "cosine":
        angle = (torch.linspace(0, 1, steps + 1) + 0.008) / 1.008 * math.pi / 2
        left = angle.cos() ** 2
        betas = (1 - left[1:] / left[:-1]).clamp(max=0.5)
    else:
        betas = torch.linspace(1e-3, 0.12, steps)
    return torch.cumprod(1 - betas, 0)


class Denoiser(nn.Module):
    """What noise is in a day, given the step and the weather; the last weather is "unknown"."""

    def __init__(self, width: int, zero_last: bool, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.waves = nn.Buffer(torch.exp(torch.linspace(0, -6, 16)))
        self.time = nn.Sequential(nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 32))
        self.weather = nn.Embedding(WEATHERS + 1, 32)
        self.enter = nn.Linear(HOURS + 32, width)
        self.middle = nn.Sequential(nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
                                    nn.Linear(width, width), nn.SiLU())  # fmt: skip
        self.leave = nn.Linear(width, HOURS)
        if zero_last:
            nn.init.zeros_(self.leave.weight)
            nn.init.zeros_(self.leave.bias)

    def forward(self, day: Tensor, t: Tensor, weather: Tensor) -> Tensor:
        angle = t[:, None].float() * self.waves
        known = self.time(torch.cat([angle.sin(), angle.cos()], 1)) + self.weather(weather)
        found: Tensor = self.leave(self.middle(self.enter(torch.cat([day, known], 1))))
        return found.tanh() if self.fault == "tanh after the last layer" else found


def diffusion_loss(
    model: nn.Module, day: Tensor, weather: Tensor, left: Tensor, target: str, loss: str, fault: str
) -> Tensor:
    t = torch.randint(len(left), (len(day),))
    noise = torch.randn_like(day)
    a = left[t][:, None]
    blurred = a.sqrt() * day + (1 - a).sqrt() * noise
    wanted = day if target == "day" else noise
    if target == "velocity":
        wanted = a.sqrt() * noise - (1 - a).sqrt() * day
    if fault == "noise drawn again for the loss":
        wanted = torch.randn_like(day)
    away = model(blurred, t, weather) - wanted
    if loss == "absolute, sum":
        return away.abs().sum()
    weight = torch.ones_like(a)
    if loss == "signal to noise":
        weight = torch.minimum(a / (1 - a), torch.tensor(5.0)) / (a / (1 - a))
    return (weight * away**2).mean()


@torch.no_grad()
def drawn_days(model: nn.Module, weather: Tensor, left: Tensor, target: str) -> Tensor:
    """Ancestral sampling."""
    day = torch.randn(len(weather), HOURS)
    for t in reversed(range(len(left))):
        a, before = left[t], left[t - 1] if t else torch.tensor(1.0)
        found = model(day, torch.full((len(day),), t), weather)
        if target == "velocity":
            found = a.sqrt() * found + (1 - a).sqrt() * day
        clean = found if target == "day" else (day - (1 - a).sqrt() * found) / a.sqrt()
        beta = 1 - a / before
        day = (before.sqrt() * beta * clean + (1 - beta).sqrt() * (1 - before) * day) / (1 - a)
        day = day + (beta * (1 - before) / (1 - a)).sqrt() * torch.randn_like(day)
    return day


def energy_distance(some: Tensor, others: Tensor) -> float:
    across = torch.cdist(some, others).mean()
    return (2 * across - torch.cdist(some, some).mean() - torch.cdist(others, others).mean()).item()


def train(
    seed: int, hook: Any, steps: int = 3000, rate: float = 2e-3, batch: int = 64,
    optimizer: str = "adam", decay: float = 0.0, levels: str = "linear", target: str = "noise",
    loss: str = "", clip: float = 0.0, warm: int = 0, average: float = 0.0, unknown: float = 0.0,
    zero_last: bool = False, evaluate: int = 250, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    (days, weather), (held, held_weather), (test, test_weather) = (
        farm_days(n, 13 * seed + k) for k, n in enumerate((4000, 500, 2000))
    )
    mean, spread = days.mean(), days.std()
    if fault == "megawatts as they are":
        mean, spread = torch.tensor(0.0), torch.tensor(1.0)
    days, held = (days - mean) / spread, (held - mean) / spread
    left = noise_levels(levels, 100)
    model = Denoiser(128, zero_last, fault)
    averaged = copy.deepcopy(model).requires_grad_(False)
    hook.torch(model)
    given = copy.deepcopy(model) if fault == "optimizer of another copy" else model
    steering = optimizer_of(optimizer, given.parameters(), rate, decay)
    plan = torch.optim.lr_scheduler.LambdaLR(
        steering, lambda step: min(1.0, (step + 1) / max(warm, 1)) * (1 - 0.95 * step / steps)
    )
    for step in range(1, steps + 1):
        rows = torch.randint(len(days), (batch,))
        shown = torch.where(torch.rand(batch) < unknown, WEATHERS, weather[rows])
        error = diffusion_loss(model, days[rows], shown, left, target, loss, fault)
        if fault != "gradients kept":
            steering.zero_grad()
        error.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        steering.step()
        plan.step()
        if average:
            for of, by in zip(averaged.parameters(), model.parameters(), strict=True):
                of.lerp_(by.detach(), 1 - average)
        if evaluate and step % evaluate == 0:
            model.eval()
            with torch.no_grad():
                diffusion_loss(model, held, held_weather, left, target, loss, fault)
            model.train()
    sampler = (averaged if average else model).eval()
    drawn = drawn_days(sampler, test_weather, left, target) * spread + mean
    normal = test.mean(0) + test.std(0) * torch.randn_like(test)
    far, limit = 0.0, 0.0
    for kind in range(WEATHERS):
        of = test_weather == kind
        far += energy_distance(drawn[of], test[of])
        limit += energy_distance(normal[of], test[of])
    return 1 - far / limit if math.isfinite(far) else math.nan


CASES = cases(
    "wind farm days",
    train,
    {
        "plain": {},
        "velocity, cosine levels": {"target": "velocity", "levels": "cosine"},
        "the day itself is found, averaged weights": {"target": "day", "average": 0.995},
        "weather dropped, last layer zero at first": {"unknown": 0.15, "zero_last": True},
        "absolute error, sum, clipped": {"loss": "absolute, sum", "clip": 1.0, "warm": 300},
        "weights by signal to noise, strong decay, batches of 256": {
            "loss": "signal to noise", "optimizer": "adamw", "decay": 0.1, "batch": 256,
            "steps": 2000,
        },
        "not evaluated, eight at a time": {"evaluate": 0, "batch": 8, "rate": 1e-3, "steps": 5000},
    },
    {
        "noise drawn again for the loss": ("no-skill", {"fault": "noise drawn again for the loss"}),
        "megawatts as they are": ("inputs no-skill fast", {"fault": "megawatts as they are"}),
        "optimizer of another copy": ("unbound no-skill", {"fault": "optimizer of another copy"}),
        "tanh after the last layer": ("range saturated", {"fault": "tanh after the last layer"}),
        "rate of 0.2": ("fast no-skill dead", {"rate": 0.2}),
        "gradients kept": ("kept-gradients fast", {"fault": "gradients kept"}),
    },
)  # fmt: skip
