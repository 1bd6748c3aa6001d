"""A VQ-VAE stores 8 x 8 handwritten digits as sixteen words of a learned codebook."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

TRAINED = 1400


class VectorQuantizer(nn.Module):
    """Replaces each vector by its nearest code, and moves the codes by moving averages.

    With ``average`` false the codes are parameters, moved by a loss of their own.
    """

    def __init__(self, codes: int, size: int, beta: float, average: bool, fault: str) -> None:
        super().__init__()
        self.beta, self.average, self.fault = beta, average, fault
        start = torch.randn(codes, size) * 0.5
        self.codebook = nn.Parameter(start, requires_grad=not average)
        self.register_buffer("count", torch.zeros(codes))
        self.register_buffer("total", start.clone())
        self.restart = self.unit = False

    def nearest(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Codes (B, H, W, D) of z (B, D, H, W), and their numbers (B * H * W)."""
        flat = z.permute(0, 2, 3, 1).reshape(-1, z.shape[1]).float()
        codes = F.normalize(self.codebook, dim=1) if self.unit else self.codebook
        distance = flat.pow(2).sum(1, True) - 2 * flat @ codes.t() + codes.pow(2).sum(1)
        number = distance.argmax(1) if self.fault == "farthest code" else distance.argmin(1)
        return F.embedding(number, codes).view(len(z), *z.shape[2:], -1), number

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        z = F.normalize(z, dim=1) if self.unit else z
        chosen, number = self.nearest(z)
        q = chosen.permute(0, 3, 1, 2)
        if self.average and self.training:
            self.move(z.detach().permute(0, 2, 3, 1).reshape(-1, z.shape[1]).float(), number)
        loss = self.beta * F.mse_loss(q.detach(), z)
        if not self.average:
            loss = loss + F.mse_loss(q, z.detach())
        if self.fault == "no straight-through":
            return q.detach(), loss
        if self.fault == "estimator reversed":
            return q + (z - q).detach(), loss
        return z + (q - z).detach(), loss

    @torch.no_grad()
    def move(self, flat: Tensor, number: Tensor) -> None:
        chosen = F.one_hot(number, len(self.codebook)).float()
        self.count.mul_(0.97).add_(chosen.sum(0), alpha=0.03)
        self.total.mul_(0.97).add_(chosen.t() @ flat, alpha=0.03)
        count = self.count
        if self.fault != "unused codes divided":
            n, k = count.sum(), len(count)
            count = (count + 1e-5) / (n + k * 1e-5) * n
        self.codebook.copy_(self.total / count[:, None])
        if self.restart:
            lost = self.count < 0.05
            other = flat[torch.randint(len(flat), (int(lost.sum()),))]
            self.codebook[lost], self.total[lost], self.count[lost] = other, other, 1.0


class VQVAE(nn.Module):
    def __init__(self, codes: int, size: int, beta: float, average: bool, fault: str) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 16 * size),
            nn.Unflatten(1, (size, 4, 4)),
        )  # fmt: skip
        self.quantizer = VectorQuantizer(codes, size, beta, average, fault)
        self.decoder = nn.Sequential(
            nn.Flatten(), nn.Linear(16 * size, 128), nn.ReLU(), nn.Linear(128, 64),
            nn.Unflatten(1, (1, 8, 8)),
        )  # fmt: skip

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q, loss = self.quantizer(self.encoder(x))
        return self.decoder(q), loss

    def stored(self, x: Tensor) -> Tensor:
        """The pictures as they come back from the numbers of their codes."""
        z = self.encoder(x)
        z = F.normalize(z, dim=1) if self.quantizer.unit else z
        pictures: Tensor = self.decoder(self.quantizer.nearest(z)[0].permute(0, 3, 1, 2))
        return pictures


def digits(seed: int, fault: str) -> tuple[Tensor, Tensor, float, float]:
    """Pictures to train on and held out as the script scales them, and that scale: shift, width."""
    raw = torch.tensor(load_digits().images, dtype=torch.float32).unsqueeze(1)
    raw = raw[torch.randperm(len(raw), generator=torch.Generator().manual_seed(seed))]
    x, held = raw[:TRAINED], raw[TRAINED:]
    if fault == "pixels standardised":
        return (x - x.mean(0)) / x.std(0), (held - x.mean(0)) / x.std(0), 0.0, 1.0
    shift, width = 4.9, 6.0
    x = (x - shift) / width
    held = held if fault == "raw pixels evaluated" else (held - shift) / width
    return x, held, shift, width


def train(
    seed: int, hook: Any, updates: int = 2000, batch: int = 32, rate: float = 1e-3,
    optimizer: str = "adam", decay: float = 0.0, codes: int = 64, size: int = 4,
    beta: float = 0.25, average: bool = True, loss: str = "mse", factor: float = 1.0,
    schedule: str = "", clip: float = 0.0, accumulate: int = 1, extra: str = "", fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, held, shift, width = digits(seed, fault)
    if fault == "twelve pictures":
        x = x[:12].repeat(32, 1, 1, 1)
    target = x
    if fault == "targets of another order":
        target = x[torch.randperm(len(x))]
    loader = DataLoader(TensorDataset(x, target), batch, shuffle=True, drop_last=True)
    model = VQVAE(codes, size, beta, average, fault)
    model.quantizer.restart, model.quantizer.unit = extra == "restart", extra == "unit"
    if fault == "sigmoid at the end":
        model.decoder.append(nn.Sigmoid())
    if fault == "zero start":
        for name, p in model.named_parameters():
            if "codebook" not in name:
                nn.init.zeros_(p)
    if extra == "k-means start":
        with torch.no_grad():
            z = model.encoder(x[:200]).permute(0, 2, 3, 1).reshape(-1, size)
            model.quantizer.codebook.copy_(z[torch.randperm(len(z))[:codes]])
            model.quantizer.total.copy_(model.quantizer.codebook)
    averaged = copy.deepcopy(model)
    parts = model.encoder if fault == "decoder in no optimizer" else model
    trained = [p for p in parts.parameters() if p.requires_grad]
    opt = optimizer_of(optimizer, trained, rate, decay)
    rates: dict[str, Any] = {
        "cosine": lambda step: 0.5 * (1 + math.cos(math.pi * step / updates)),
        "warm-up": lambda step: min(1.0, (step + 1) / 200),
        "halved": lambda step: 0.5 ** (step // 600),
        "halved each batch": lambda step: 0.8**step,
    }
    scheduler = torch.optim.lr_scheduler.LambdaLR(opt, rates.get(schedule, lambda step: 1.0))
    reconstruction: Any = {
        "mse": F.mse_loss,
        "l1": F.l1_loss,
        "huber": F.smooth_l1_loss,
        "sum": lambda out, y: ((out - y) ** 2).sum((1, 2, 3)).mean(),
    }[loss]
    hook.torch(model)

    step = 0
    while step < updates:
        model.train()
        for number, (images, wanted) in enumerate(loader):
            if extra == "denoising":
                images = images + 0.2 * torch.randn_like(images)
            with torch.autocast("cpu", torch.bfloat16, enabled=extra == "bfloat16"):
                recon, vq_loss = model(images)
                total = factor * (reconstruction(recon.float(), wanted) + vq_loss)
            (total / accumulate).backward()
            if number % accumulate != accumulate - 1:
                continue
            if clip:
                nn.utils.clip_grad_norm_(trained, clip)
            opt.step()
            scheduler.step()
            if fault != "no zero_grad":
                opt.zero_grad()
            if extra == "weights averaged":
                for mean, p in zip(averaged.parameters(), model.parameters(), strict=True):
                    mean.data.lerp_(p.data, 0.01)
            step += 1
        model.eval()
        with torch.no_grad():
            recon, _ = model(held)
            F.mse_loss(recon, held)

    model = averaged.eval() if extra == "weights averaged" else model
    with torch.no_grad():
        back = model.stored(held) * width + shift
    true = held if fault == "raw pixels evaluated" else held * width + shift
    mean = (x * width + shift).mean(0)
    return 1 - float(F.mse_loss(back, true) / F.mse_loss(mean.expand_as(true), true))


CASES = cases(
    "vector quantised",
    train,
    {
        "plain": {},
        "codes by a loss": {"average": False},
        "codes begin at features": {"extra": "k-means start"},
        "unused codes restarted": {"extra": "restart"},
        "codes of unit length": {"extra": "unit"},
        "512 codes": {"codes": 512},
        "commitment of 1": {"beta": 1.0},
        "absolute error": {"loss": "l1"},
        "sum of pixels": {"loss": "sum", "beta": 12.0},
        "loss x 1e4": {"factor": 1e4},
        "batch of 4": {"batch": 4, "rate": 1e-3, "updates": 2400},
        "batch of 256": {"batch": 256, "rate": 5e-3, "updates": 500},
        "accumulated, clipped": {"batch": 8, "accumulate": 4, "clip": 1.0, "updates": 1200},
        "warm-up": {"schedule": "warm-up", "rate": 4e-3, "optimizer": "adamw", "decay": 0.01},
        "cosine": {"schedule": "cosine", "rate": 4e-3},
        "bfloat16": {"extra": "bfloat16", "updates": 1500},
        "denoising": {"extra": "denoising"},
        "weights averaged": {"extra": "weights averaged", "average": False},
    },
    {
        "straight-through forgotten": (
            "no-gradient slow unbound",
            {"fault": "no straight-through"},
        ),
        "estimator reversed": ("no-skill inputs worse", {"fault": "estimator reversed"}),
        "farthest code": ("no-skill collapse", {"fault": "farthest code"}),
        "commitment of 100": ("collapse no-skill", {"beta": 100.0, "average": False}),
        "unused codes divided": ("not-finite", {"fault": "unused codes divided"}),
        "pixels without spread": ("not-finite", {"fault": "pixels standardised"}),
        "sigmoid at the end": ("range saturated", {"fault": "sigmoid at the end"}),
        "targets of another order": ("no-skill", {"fault": "targets of another order"}),
        "raw pixels evaluated": ("inputs", {"fault": "raw pixels evaluated"}),
        "twelve pictures": ("overfit", {"fault": "twelve pictures"}),
        "zero start": ("dead no-gradient no-skill collapse", {"fault": "zero start"}),
        "decoder in no optimizer": ("unbound", {"fault": "decoder in no optimizer"}),
        "no zero_grad": ("kept-gradients worse no-skill", {"fault": "no zero_grad"}),
        "rate halved by batches": (
            "slow schedule",
            {"schedule": "halved each batch", "updates": 1000},
        ),
        "rate of 1": ("fast no-skill dead", {"rate": 1.0, "updates": 1000}),
        "rate of 1e-6": ("slow no-skill", {"rate": 1e-6, "updates": 1000}),
        "decay of 1": ("no-skill dead collapse", {"decay": 1.0, "updates": 1000}),
    },
)
