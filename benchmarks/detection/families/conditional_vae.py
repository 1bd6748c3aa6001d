"""A conditional variational autoencoder draws tiny glyphs of a class; no evaluation."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, explained, optimizer_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIDE, CLASSES, LATENT = 10, 6, 4
PIXELS = SIDE * SIDE


def glyphs(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Pictures of 0 to 1, (count, PIXELS): bars, crosses, rings and so on, moved and thickened."""
    draw = torch.Generator().manual_seed(seed)
    kind = torch.randint(CLASSES, (count,), generator=draw)
    place = 1.5 * (torch.rand(count, 2, 1, 1, generator=draw) - 0.5)
    wide = 0.5 + 0.7 * torch.rand(count, 1, 1, generator=draw)
    slant = 0.6 * (torch.rand(count, 1, 1, generator=draw) - 0.5)
    axis = torch.arange(SIDE) - (SIDE - 1) / 2
    down = axis.view(1, -1, 1) - 2 * place[:, 0]
    right = axis.view(1, 1, -1) - 2 * place[:, 1] + slant * down
    radius = (down**2 + right**2).sqrt()
    far = torch.stack([
        right.abs(), down.abs() + 0 * right, torch.minimum(right.abs(), down.abs()),
        (radius - 3).abs(), (down - right).abs() / 1.4, F.relu(radius - 1.5),
    ], 1)[torch.arange(count), kind]  # fmt: skip
    ink = torch.sigmoid(4 * (wide - far))
    ink = ink * (torch.maximum(down.abs(), right.abs()) < 4.2)
    return ink.flatten(1), kind


class Cvae(nn.Module):
    def __init__(self, width: int = 96) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(PIXELS + CLASSES, width), nn.ReLU())
        self.mu, self.logvar = nn.Linear(width, LATENT), nn.Linear(width, LATENT)
        self.decoder = nn.Sequential(
            nn.Linear(LATENT + CLASSES, width), nn.ReLU(),
            nn.Linear(width, PIXELS), nn.Sigmoid(),
        )  # fmt: skip

    def encode(self, x: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        h = self.encoder(torch.cat([x, c], 1))
        return self.mu(h), self.logvar(h)

    def decode(self, z: Tensor, c: Tensor) -> Tensor:
        picture: Tensor = self.decoder(torch.cat([z, c], 1))
        return picture


def one_hot(kind: Tensor, fault: str = "") -> Tensor:
    if fault == "whole numbers divided":
        kind = kind // CLASSES
    return F.one_hot(kind, CLASSES).float()


def loss_function(
    recon: Tensor, x: Tensor, mu: Tensor, logvar: Tensor, beta: float, kind: str
) -> Tensor:
    kld = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum()
    if kind == "kl upside down":
        kld = -kld
    if kind == "squares":
        fit = 4 * F.mse_loss(recon, x, reduction="sum")
    elif kind == "mean of pixels":
        fit = F.binary_cross_entropy(recon, x, reduction="mean")
    elif kind == "logits of probabilities":
        fit = F.binary_cross_entropy_with_logits(recon, x, reduction="sum")
    elif kind == "by hand":
        fit = -(x * recon.log() + (1 - x) * (1 - recon).log()).sum()
    else:
        fit = F.binary_cross_entropy(recon, x, reduction="sum")
    return (fit + beta * kld) / len(x)


def train(
    seed: int, hook: Any, rate: float = 3e-3, steps: int = 1200, batch: int = 64,
    count: int = 2000, optimizer: str = "adam", loss: str = "bce", beta: float = 1.0,
    annealed: bool = False, noise: float = 0.0,
    schedule: str = "", clip: float = 0.0, ema: bool = False, half: bool = False,
    samples: int = 1, factor: float = 1.0, start: float = 1.0,
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, kind = glyphs(count, seed + 780)
    if fault == "minus one to one":
        x = 2 * x - 1
    if fault == "labels of another order":
        kind = kind[torch.randperm(count)]
    if noise:
        kind = torch.where(torch.rand(count) < noise, torch.randint(CLASSES, (count,)), kind)
    vae = Cvae()
    for p in vae.parameters():
        p.data *= start
    chosen = (vae.encoder if fault == "encoder alone" else vae).parameters()
    opt = optimizer_of(optimizer, chosen, rate)
    plan: Any = None
    if schedule == "cosine":
        plan = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)
    elif schedule == "gamma of an epoch":
        plan = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
    average = copy.deepcopy(vae)
    hook.torch(vae)
    vae.train()
    for step in range(steps):
        rows = torch.randint(count, (batch,))
        pictures, c = x[rows], one_hot(kind[rows], fault)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            mu, logvar = vae.encode(pictures, c)
        mu, logvar = mu.float(), logvar.float()
        value = torch.zeros(())
        weight = beta * min(1.0, step / (0.3 * steps)) if annealed else beta
        for _ in range(samples):
            std = logvar.sqrt() if fault == "root of the log" else torch.exp(0.5 * logvar)
            z = mu + std * torch.randn_like(std)
            if fault == "z from numpy":
                z = torch.from_numpy(z.detach().numpy())
            recon = vae.decode(z, c)
            value = value + loss_function(recon, pictures, mu, logvar, weight, loss) / samples
        opt.zero_grad()
        (value * factor).backward()
        if clip:
            nn.utils.clip_grad_norm_(vae.parameters(), clip)
        opt.step()
        if plan:
            plan.step()
        if ema:
            for kept, p in zip(average.parameters(), vae.parameters(), strict=True):
                kept.data.lerp_(p.data, 0.01)
    return float(drawing_skill(average if ema else vae, seed, fault))


@torch.no_grad()
def drawing_skill(vae: Any, seed: int, fault: str) -> float:
    """Variance explained of pictures copied, and of the classes' mean pictures, on average."""
    vae.eval()
    held, kind = glyphs(1000, seed + 781)
    c = one_hot(kind, fault)
    fed = 2 * held - 1 if fault == "minus one to one" else held
    fed = fed * 255 if fault == "bytes in use" else fed
    copied = vae.decode(vae.encode(fed, c)[0], c)
    drawn = vae.decode(torch.randn(1000, LATENT), c)
    if fault == "minus one to one":
        copied, drawn = (copied + 1) / 2, (drawn + 1) / 2
    if not bool(torch.isfinite(copied).all() and torch.isfinite(drawn).all()):
        return math.nan
    means = torch.stack([(held - held.mean(0))[kind == k].mean(0) for k in range(CLASSES)])
    made = torch.stack([(drawn - held.mean(0))[kind == k].mean(0) for k in range(CLASSES)])
    drawing = 1 - ((made - means) ** 2).sum().item() / (means**2).sum().item()
    centred = held - held.mean(0)
    copying = explained(copied - held.mean(0), centred)
    return float(max(drawing, 0.0) + max(copying, 0.0)) / 2


CASES = cases(
    "conditional vae",
    train,
    {
        "plain": {},
        "squares": {"loss": "squares"},
        "beta of two": {"beta": 1.5},
        "kl comes slowly": {"annealed": True},
        "batch of 512": {"batch": 512, "steps": 500, "rate": 1e-2},
        "cosine": {"schedule": "cosine", "rate": 5e-3},
        "ema": {"ema": True},
        "bfloat16": {"half": True},
        "four draws of z": {"samples": 4, "steps": 900},
        "loss times 10000": {"factor": 1e4},
        "labels with noise": {"noise": 0.03},
    },
    {
        "kl upside down": ("worse fast not-finite", {"loss": "kl upside down"}),
        "mean of pixels": ("collapse", {"loss": "mean of pixels"}),
        "beta of 200": ("collapse", {"beta": 200.0}),
        "logits of probabilities": ("probabilities", {"loss": "logits of probabilities"}),
        "root of the log": ("not-finite", {"fault": "root of the log", "loss": "squares"}),
        "minus one to one": ("range worse", {"fault": "minus one to one", "loss": "by hand"}),
        "z from numpy": ("no-gradient unbound", {"fault": "z from numpy"}),
        "labels of another order": ("no-skill collapse", {"fault": "labels of another order"}),
        "whole numbers divided": ("inputs no-skill", {"fault": "whole numbers divided"}),
        "encoder alone in the optimizer": ("unbound", {"fault": "encoder alone"}),
        "bytes in use": ("inputs", {"fault": "bytes in use"}),
        "starts at zero": ("dead no-gradient collapse no-skill", {"start": 0.0}),
        "gamma of an epoch": ("schedule slow", {"schedule": "gamma of an epoch", "rate": 1e-3}),
        "rate x 1000": ("fast dead no-skill", {"rate": 3.0, "loss": "squares"}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
    },
)  # fmt: skip
