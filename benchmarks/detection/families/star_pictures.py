"""Tiny pictures of stars by denoising diffusion: a network tells the noise, DDIM draws pictures.

The weights that draw are an average of those that are trained, as in most scripts. The skill says
how far pictures that are drawn lie like true ones, by the energy distance.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIDE, TIMES = 6, 100
PIXELS = SIDE * SIDE


def stars(count: int, seed: int) -> Tensor:
    """Grey values (N, PIXELS) from 0 to 255: one star, large or small, anywhere in the sky."""
    draw = torch.Generator().manual_seed(seed)
    place = 0.5 + (SIDE - 2) * torch.rand(count, 2, 1, 1, generator=draw)
    size, light = 0.7 + torch.rand(2, count, 1, 1, generator=draw)
    rows, columns = torch.arange(SIDE).view(-1, 1), torch.arange(SIDE).view(1, -1)
    away = (rows - place[:, 0]) ** 2 + (columns - place[:, 1]) ** 2
    pixels = 150 * light * torch.exp(-away / (2 * size**2))
    return pixels.clamp(0, 255).reshape(count, -1)


class Denoiser(nn.Module):
    def __init__(self, width: int, dropout: float, fault: str) -> None:
        super().__init__()
        self.clock = nn.Sequential(nn.Linear(16, width), nn.SiLU())
        self.enter = nn.Linear(PIXELS, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.drop, self.leave = nn.Dropout(dropout), nn.Linear(width, PIXELS)
        self.fault = fault

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        angle = t[:, None] / TIMES * torch.exp2(torch.arange(8))
        when = self.clock(torch.cat([angle.sin(), angle.cos()], 1))
        h = self.enter(x)
        for layer in self.body:
            h = h + self.drop(F.silu(layer(F.silu(h + when))))
        out: Tensor = self.leave(h)
        return out.relu() if self.fault == "activation at the end" else out


class Diffusion:
    """What noise there is at a time, and how to go back from it."""

    def __init__(self, kind: str) -> None:
        t = torch.arange(TIMES + 1) / TIMES
        if kind == "linear":
            kept = torch.cumprod(1 - torch.linspace(1e-3, 0.12, TIMES), 0)
        else:
            wave = torch.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2
            kept = (wave[1:] / wave[0]).clamp(1e-3, 0.9999)
        self.signal, self.noise = kept.sqrt(), (1 - kept).sqrt()

    def blurred(self, x: Tensor, t: Tensor, noise: Tensor) -> Tensor:
        return self.signal[t, None] * x + self.noise[t, None] * noise

    @torch.no_grad()
    def draw(self, model: nn.Module, count: int) -> Tensor:
        model.eval()
        x = torch.randn(count, PIXELS)
        for now in range(TIMES - 1, -1, -2):
            told = model(x, torch.full((count,), now))
            clean = ((x - self.noise[now] * told) / self.signal[now]).clamp(-1, 1)
            told = (x - self.signal[now] * clean) / self.noise[now]
            x = self.signal[now - 2] * clean + self.noise[now - 2] * told if now > 1 else clean
        return x


def likeness(made: Tensor, true: Tensor) -> float:
    """1 where what is made lies like what is true, 0 where it is their mean alone."""

    def distance(a: Tensor) -> Tensor:
        own = torch.cdist(a, a).mean() + torch.cdist(true, true).mean()
        return 2 * torch.cdist(a, true).mean() - own

    if not bool(made.isfinite().all()):
        return math.nan
    return 1 - (distance(made) / distance(true.mean(0, keepdim=True))).item()


def train(
    seed: int, hook: Any, noise: str = "cosine", loss: str = "mse", rate: float = 2e-3,
    steps: int = 2400, batch: int = 64, optimizer: str = "adam", decay: float = 0.0,
    schedule: str = "cosine", ema: float = 0.99, dropout: float = 0.0, clip: float = 0.0,
    amp: bool = False, accumulate: int = 1, count: int = 4000, evaluated: bool = True,
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    pictures, held = stars(count, seed + 6600), stars(400, seed + 6601) / 127.5 - 1
    x = pictures if fault == "bytes as they are" else pictures / 127.5 - 1
    diffusion = Diffusion(noise)
    model = Denoiser(128, dropout, fault)
    average = copy.deepcopy(model).requires_grad_(False)
    hook.torch(model)
    steering = optimizer_of(optimizer, model.parameters(), rate, decay)
    scheduler: Any = scheduler_of(steering, schedule, steps)
    if fault == "decay of epochs by step":
        scheduler = torch.optim.lr_scheduler.ExponentialLR(steering, 0.9)

    def error_of(clean: Tensor) -> Tensor:
        t = torch.randint(TIMES, (len(clean),))
        epsilon = torch.randn_like(clean)
        seen = diffusion.blurred(clean, t, epsilon)
        if fault == "other noise as the target":
            epsilon = torch.randn_like(clean)
        with torch.autocast("cpu", torch.bfloat16, enabled=amp and model.training):
            told = model(seen, t).float()
        if loss == "sum":
            return ((told - epsilon) ** 2).flatten(1).sum(1).mean()
        return F.mse_loss(told, epsilon)

    for step in range(steps):
        model.train()
        if fault != "gradients kept":
            steering.zero_grad()
        for _ in range(accumulate):
            value = error_of(x[torch.randint(len(x), (min(batch, len(x)),))]) / accumulate
            value.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        steering.step()
        scheduler.step()
        with torch.no_grad():
            for kept, new in zip(average.parameters(), model.parameters(), strict=True):
                kept.lerp_(new, 1 - ema)
        if evaluated and step % 200 == 199:
            model.eval()
            with torch.no_grad():
                error_of(held)
    return likeness(diffusion.draw(average, 800), stars(800, seed + 6602) / 127.5 - 1)


CASES = cases(
    "star pictures",
    train,
    {
        "plain": {},
        "linear noise, dropout": {"noise": "linear", "dropout": 0.05},
        "sum of pixels, clipped": {"loss": "sum", "clip": 1.0},
        "AdamW, warm-up, bfloat16": {
            "optimizer": "adamw",
            "decay": 0.05,
            "schedule": "warmup",
            "amp": True,
        },
        "sixteen by two, no evaluation": {"batch": 16, "accumulate": 2, "evaluated": False},
        "batch of 256, one cycle": {"batch": 256, "steps": 1500, "schedule": "one cycle"},
        "restarts, slow average": {"schedule": "restarts", "ema": 0.995},
    },
    {
        "other noise as the target": ("no-skill", {"fault": "other noise as the target"}),
        "bytes as they are": ("inputs no-skill fast worse", {"fault": "bytes as they are"}),
        "activation at the end": ("range", {"fault": "activation at the end"}),
        "decay of epochs by step": (
            "schedule slow no-skill",
            {"fault": "decay of epochs by step"},
        ),
        "gradients kept": ("kept-gradients fast", {"fault": "gradients kept"}),
        "rate x 100": ("fast no-skill", {"rate": 0.2, "schedule": "constant"}),
        "four stars": ("overfit", {"count": 4}),
    },
)
