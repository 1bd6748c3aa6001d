"""Fuel that a lorry burns in each second of a trip, by its speed, the slope and its load.

A cold engine burns more and warms up over the trip. Trips have different lengths, so a batch is
padded with zeros and has a mask. A convolutional network looks back only. The skill is the share
of the variance of millilitres that is explained, in other trips.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

SHORTEST, LONGEST = 12, 40
Trips = tuple[Tensor, Tensor, Tensor]


def smooth(values: Tensor, width: int) -> Tensor:
    return F.avg_pool1d(F.pad(values[:, None], (width - 1, 0), mode="replicate"), width, 1)[:, 0]


def trips(count: int, seed: int, noise: float = 0.3) -> Trips:
    """Km/h, slope in per cent and tonnes as (N, 3, T), millilitres and mask as (N, T)."""
    draw = torch.Generator().manual_seed(seed)
    walk = torch.randn(count, LONGEST, generator=draw).cumsum(1)
    speed = (50 + 25 * torch.randn(count, 1, generator=draw) + 7 * smooth(walk, 4)).clamp(0, 95)
    steep = 2 * torch.randn(count, 1, generator=draw)
    slope = steep + smooth(3 * torch.randn(count, LONGEST, generator=draw), 6)
    tonnes = 8 + 24 * torch.rand(count, 1, generator=draw).expand(-1, LONGEST)
    v = speed / 3.6
    faster = F.pad(v.diff(dim=1), (1, 0))
    force = tonnes * (faster + 0.0981 * slope + 0.06) + 0.0032 * v**2
    work = (force * v).clamp(min=0, max=400)
    heat = torch.rand(count, 1, generator=draw)
    warm = heat + (1 - heat) * (1 - torch.exp(-work.cumsum(1) / 1500))
    burnt = (0.6 + 0.065 * work) * (1.5 - 0.5 * warm) + 0.008 * faster.abs() * tonnes
    burnt = burnt + noise * torch.randn(count, LONGEST, generator=draw)
    length = torch.randint(SHORTEST, LONGEST + 1, (count, 1), generator=draw)
    mask = (torch.arange(LONGEST) < length).float()
    return torch.stack([speed, slope, tonnes], 1) * mask[:, None], burnt * mask, mask


class Causal(nn.Module):
    def __init__(self, inputs: int, width: int, dilation: int) -> None:
        super().__init__()
        self.back = 2 * dilation
        self.conv = nn.Conv1d(inputs, width, 3, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.conv(F.pad(x, (self.back, 0)))
        return found


class FuelNet(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            Causal(w, width, d) for w, d in ((3, 1), (width, 2), (width, 4))
        )
        self.head = nn.Conv1d(width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        for number, layer in enumerate(self.layers):
            h = F.relu(layer(x))
            x = x + h if number else h
        found: Tensor = self.head(x)
        return found


def masked_loss(found: Tensor, wanted: Tensor, mask: Tensor, kind: str) -> Tensor:
    """The mean over the seconds that belong to a trip."""
    if kind == "padding alone":  # as in nn.Transformer, where True hides
        mask = 1 - mask
    if kind == "huber":
        each = F.smooth_l1_loss(found, wanted, reduction="none")
    else:
        each = (found - wanted) ** 2
    if kind == "mean of each trip":
        return ((each * mask).sum(1) / mask.sum(1)).mean()
    if kind == "sum of seconds":
        return (each * mask).sum() / len(mask)
    return (each * mask).sum() / mask.sum()


def explained(found: Tensor, wanted: Tensor, mask: Tensor) -> float:
    f, w = found[mask > 0].double(), wanted[mask > 0].double()
    return (
        1 - ((f - w) ** 2).mean().item() / w.var().item() if bool(f.isfinite().all()) else math.nan
    )


def train(
    seed: int, hook: Any, steps: int = 2000, rate: float = 3e-3, batch: int = 16, loss: str = "",
    optimizer: str = "adam", decay: float = 0.0, schedule: str = "constant",
    clip: float = 0.0, average: float = 0.0,
    evaluate: bool = True, count: int = 1500, noise: float = 0.3, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, y, mask = trips(count, 13 * seed + 3, noise)
    held, test = trips(150, 13 * seed + 4), trips(500, 13 * seed + 5)
    inside = x.transpose(1, 2)[mask > 0]
    mean, spread = inside.mean(0)[:, None], inside.std(0)[:, None]
    y_mean, y_std = y[mask > 0].mean(), y[mask > 0].std()

    def scaled(part: Trips) -> Trips:
        return (part[0] - mean) / spread * part[2][:, None], (part[1] - y_mean) / y_std, part[2]

    x, y, mask = scaled((x, y, mask))
    held = scaled(held)
    if fault == "metres per second in evaluation":
        held, test = ((p[0] / torch.tensor([3.6, 1, 1])[:, None], *p[1:]) for p in (held, test))
    test = scaled(test)
    if fault == "fuel of another trip":
        y = y[torch.randperm(count)]
    model = FuelNet()
    if fault == "weights at zero":
        for layer in model.layers:
            nn.init.zeros_(layer.conv.weight)
            nn.init.zeros_(layer.conv.bias)
        nn.init.zeros_(model.head.weight)
    mean_model = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(average)
    )
    opt = optimizer_of(optimizer, model.parameters(), rate, decay)
    scheduler = scheduler_of(opt, schedule, steps)
    hook.torch(model)
    for step in range(steps):
        model.train()
        rows = torch.randint(count, (batch,))
        found = model(x[rows])
        if fault != "one axis too many":
            found = found.squeeze(1)
        error = masked_loss(found, y[rows], mask[rows], loss)
        if fault != "gradients kept":
            opt.zero_grad()
        error.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        opt.step()
        scheduler.step()
        if average:
            mean_model.update_parameters(model)
        if evaluate and step % 200 == 199:
            model.eval()
            with torch.no_grad():
                masked_loss(model(held[0]).squeeze(1), held[1], held[2], loss)
    last = (mean_model if average else model).eval()
    with torch.no_grad():
        found = last(test[0]).squeeze(1)
    return explained(found, test[1], test[2])


CASES = cases(
    "lorry fuel",
    train,
    {
        "plain": {},
        "sum of seconds, clipped": {"loss": "sum of seconds", "clip": 1.0},
        "Huber, one cycle": {"loss": "huber", "schedule": "one cycle", "rate": 1e-2},
        "running average of weights": {"average": 0.995, "rate": 5e-3},
        "momentum, mean of each trip": {
            "optimizer": "momentum", "rate": 2e-2, "loss": "mean of each trip",
            "schedule": "warmup",
        },
        "four trips at a time, not evaluated": {
            "batch": 4, "steps": 4000, "rate": 4e-3, "schedule": "cosine", "evaluate": False,
        },
        "bad meters, much decay": {
            "noise": 2.5, "optimizer": "adamw", "decay": 0.1, "schedule": "cosine", "steps": 2500,
        },
    },
    {
        "padding alone": ("ignored range no-skill inputs", {"loss": "padding alone"}),
        "one axis too many": ("broadcast no-skill", {"fault": "one axis too many"}),
        "gradients kept": ("kept-gradients fast worse", {"fault": "gradients kept"}),
        "metres per second in evaluation": (
            "inputs worse overfit", {"fault": "metres per second in evaluation"},
        ),
        "weights at zero": ("dead no-skill no-gradient collapse", {"fault": "weights at zero"}),
        "fuel of another trip": ("no-skill overfit", {"fault": "fuel of another trip"}),
        "rate of 0.3": ("fast dead no-skill worse", {"rate": 0.3}),
    },
)  # fmt: skip
