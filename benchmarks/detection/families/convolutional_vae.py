"""A convolutional variational autoencoder of digits: the bound by hand, its KL part warmed up."""

from __future__ import annotations

import numpy as np
import torch
from benchmarks.detection.families.kit import begin, explained, optimizer_of, scheduler_of
from sklearn.datasets import load_digits
from torch import Tensor, nn

from benchmarks.detection.case import cases
from benchmarks.detection.run_hook import RunHook

LATENT = 8


class Coder(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 12, 3, 2, 1), nn.SiLU(), nn.Conv2d(12, 24, 3, 2, 1), nn.SiLU(),
            nn.Flatten(), nn.Linear(96, 2 * LATENT),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Linear(LATENT, 96), nn.SiLU(), nn.Dropout(dropout), nn.Unflatten(1, (24, 2, 2)),
            nn.ConvTranspose2d(24, 12, 4, 2, 1), nn.SiLU(), nn.ConvTranspose2d(12, 1, 4, 2, 1),
        )  # fmt: skip

    def forward(self, x: Tensor, fault: str = "") -> tuple[Tensor, Tensor, Tensor]:
        mean, spread = self.encoder(x).chunk(2, 1)
        noise = torch.randn_like(mean)
        if fault == "code detached":
            return self.decoder((mean + (spread / 2).exp() * noise).detach()), mean, spread
        if fault == "noise alone":
            return self.decoder(noise), mean, spread
        return self.decoder(mean + (spread / 2).exp() * noise), mean, spread


def distance(found: Tensor, x: Tensor, kind: str) -> Tensor:
    """Of each pixel: by the logits of a share, or by a number with a small spread."""
    if kind == "gaussian":
        spread = 0.15
        return (found.sigmoid() - x) ** 2 / (2 * spread**2) + np.log(spread)
    return found.clamp(min=0) - found * x + (-found.abs()).exp().log1p()


def negative_bound(
    found: Tensor, x: Tensor, mean: Tensor, spread: Tensor, weight: float, kind: str, fault: str
) -> Tensor:
    pixels = distance(found, x, kind)
    parts = 0.5 * (mean**2 + spread.exp() - 1 - spread)
    if kind == "free bits":
        parts = parts.mean(0).clamp(min=0.1).expand_as(parts)
    away = parts.sum(1).mean()
    near = pixels.flatten(1).sum(1).mean()
    if fault == "mean beside sum":
        near = pixels.mean()
    if fault == "sign of the KL":
        away = -away
    if fault == "pixels against all":
        near = distance(found.flatten(1)[:, None], x.flatten(1)[None], "").sum(2).mean()
    return near + weight * away


def train(
    seed: int, hook: RunHook, steps: int = 700, rate: float = 3e-3, batch: int = 32,
    warm: float = 0.5, weight: float = 1.0, kind: str = "bernoulli", cycles: int = 1,
    schedule: str = "constant", clip: float = 0.0, accumulate: int = 1, dropout: float = 0.0,
    blur: float = 0.0, frozen: bool = False, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    pixels = torch.from_numpy(load_digits().images.astype(np.float32))[:, None] / 16
    pixels = pixels[torch.randperm(len(pixels))]
    data, held = pixels[:1400], pixels[1400:]
    if fault == "pixels from 0 to 16":
        data = data * 16
    if fault == "thirty digits":
        data = data[:30]
    model = Coder(dropout)
    chosen = model.decoder if fault == "encoder forgotten" else model
    model.encoder[0].requires_grad_(not frozen)
    optimizer = optimizer_of("adam", [p for p in chosen.parameters() if p.requires_grad], rate)
    scheduler = scheduler_of(optimizer, schedule, steps)
    hook.torch(model)
    for step in range(steps):
        done = (step * cycles / steps) % 1
        beta = weight * (min(1.0, done / warm) if warm else 1.0)
        optimizer.zero_grad()
        for _ in range(accumulate):
            x = data[torch.randint(len(data), (batch,))]
            given = (x + blur * torch.randn_like(x)) if blur else x
            if fault == "pictures of others":
                x = x[torch.randperm(batch)]
            found, mean, spread = model(given, fault)
            loss = negative_bound(found, x, mean, spread, beta, kind, fault)
            (loss / accumulate).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        scheduler.step()
        if step % 100 == 99:
            model.eval()
            with torch.no_grad():
                found, mean, spread = model(held[:128])
                negative_bound(found, held[:128], mean, spread, weight, kind, "")
            model.train()
    model.eval()
    with torch.no_grad():
        found = model.decoder(model.encoder(held)[:, :LATENT]).sigmoid()
    usual = pixels[:1400].mean(0).flatten()
    return explained(found.flatten(1) - usual, held.flatten(1) - usual)


CASES = cases(
    "convolutional vae",
    train,
    {
        "plain": {},
        "numbers with a spread": {"kind": "gaussian"},
        "free bits, no warm-up": {"kind": "free bits", "warm": 0.0},
        "warmed up four times": {"cycles": 4},
        "clipped always": {"clip": 1.0, "steps": 900},
        "batch of twelve": {"batch": 12, "steps": 1100},
        "accumulation": {"batch": 8, "accumulate": 4},
        "first layer frozen": {"frozen": True, "steps": 1100},
        "blurred inputs": {"blur": 0.1},
    },
    {
        "mean beside sum": ("collapse no-skill", {"fault": "mean beside sum"}),
        "KL x 50": ("collapse no-skill", {"weight": 50.0, "warm": 0.1}),
        "sign of the KL": ("worse not-finite no-skill fast", {"fault": "sign of the KL"}),
        "pixels against all": ("broadcast no-skill", {"fault": "pixels against all"}),
        "pixels from 0 to 16": ("range saturated inputs", {"fault": "pixels from 0 to 16"}),
        "pictures of others": ("no-skill collapse", {"fault": "pictures of others"}),
        "code detached": ("no-gradient no-skill collapse", {"fault": "code detached"}),
        "noise alone": ("no-gradient no-skill collapse", {"fault": "noise alone"}),
        "thirty digits": ("overfit", {"fault": "thirty digits"}),
        "rate x 300": ("fast no-skill dead worse not-finite", {"rate": 0.9}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
    },
)
