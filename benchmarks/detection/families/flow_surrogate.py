"""A Fourier neural operator predicts a field of Burgers' equation at a later time."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

POINTS, HELD, VISCOSITY = 64, 100, 0.05


def burgers(count: int, seed: int, steps: int = 60) -> tuple[Tensor, Tensor]:
    """Smooth periodic fields and what they are after 0.6 units of time, (N, POINTS) both."""
    draw = torch.Generator().manual_seed(seed)
    wave = torch.arange(POINTS // 2 + 1, dtype=torch.float64)
    parts = torch.randn(count, len(wave), 2, generator=draw, dtype=torch.float64)
    strength = torch.exp(-0.5 * (wave / 2.0) ** 2) * (wave > 0)
    start = torch.fft.irfft(torch.view_as_complex(parts) * strength * POINTS / 2, n=POINTS)
    kept = wave < POINTS // 3
    dt = 0.6 / steps
    decay = torch.exp(-VISCOSITY * wave**2 * dt)

    def change(u: Tensor) -> Tensor:
        return -0.5j * wave * kept * torch.fft.rfft(torch.fft.irfft(u, n=POINTS) ** 2)

    u = torch.fft.rfft(start)
    for _ in range(steps):
        first = change(u)
        u = decay * u + 0.5 * dt * (decay * first + change(decay * (u + dt * first)))
    return start.float(), torch.fft.irfft(u, n=POINTS).float()


class SpectralConv1d(nn.Module):
    def __init__(self, width: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(width, width, modes, 2) / width)

    def forward(self, x: Tensor) -> Tensor:
        low = torch.fft.rfft(x)[..., : self.modes]
        mixed = torch.einsum("bik,iok->bok", low, torch.view_as_complex(self.weight))
        return torch.fft.irfft(mixed, n=x.shape[-1])


class Operator(nn.Module):
    """Lifts field and place to channels, mixes them in layers, and projects them back."""

    def __init__(
        self, width: int, modes: int, layers: int, kind: str, residual: bool, fault: str
    ) -> None:
        super().__init__()
        self.residual, self.fault = residual, fault
        self.lift = nn.Conv1d(1, width, 1)
        self.spectral = nn.ModuleList(
            nn.Conv1d(width, width, 9, padding=4, padding_mode="circular")
            if kind == "convolution"
            else SpectralConv1d(width, modes)
            for _ in range(layers)
        )
        self.local = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))
        self.project = nn.Sequential(nn.Conv1d(width, 32, 1), nn.GELU(), nn.Conv1d(32, 1, 1))

    def forward(self, u: Tensor) -> Tensor:
        x = self.lift(u[:, None])
        for spectral, local in zip(self.spectral, self.local, strict=True):
            x = F.gelu(spectral(x) + local(x))
        if self.fault == "features detached":
            x = x.detach()
        out: Tensor = self.project(x)
        if self.fault == "channel kept":
            return out
        if self.fault == "relu at the end":
            return F.relu(out[:, 0])
        return u + out[:, 0] if self.residual else out[:, 0]


def relative_l2(out: Tensor, y: Tensor) -> Tensor:
    return (torch.norm(out - y, dim=-1) / torch.norm(y, dim=-1)).mean()


LOSSES: dict[str, Any] = {
    "relative": relative_l2,
    "mse": F.mse_loss,
    "mae": F.l1_loss,
    "sum": lambda out, y: ((out - y) ** 2).sum(),
}


def train(
    seed: int, hook: Any, epochs: int = 18, batch: int = 20, rate: float = 3e-3, samples: int = 400,
    optimizer: str = "adam", decay: float = 0.0, schedule: str = "step", loss: str = "relative",
    factor: float = 1.0, units: float = 1.0, width: int = 16, modes: int = 12,
    layers: int = 2, kind: str = "fourier",
    residual: bool = False, extra: str = "", fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    test_x, test_y = burgers(HELD, seed + 901)
    x, y = burgers(samples, seed + 900)
    if fault == "pairs out of order":
        y = y[torch.randperm(samples)]
    elif fault == "solver blew up":
        x[17], y[17] = 0.0, 0.0
    elif fault == "field of the wrong time":
        y = x
    elif fault == "half of the grid turned":
        y = torch.cat([y[:, ::2], y[:, 1::2]], 1)
    if extra == "measured with noise":
        y = y + 0.05 * y.std() * torch.randn_like(y)
    if extra == "by size":
        order = x.norm(dim=1).argsort()
        x, y = x[order], y[order]
    mean, std = (x.mean(), x.std()) if extra == "normalised" else (0.0, 1.0)
    x, y = (x - mean) / std, y * units
    seen = (test_x - mean) / std
    if fault == "another unit in tests":
        seen = seen * 100

    model = Operator(width, modes, layers, kind, residual, fault)
    optim = optimizer_of(optimizer, model.parameters(), rate, decay)
    total = epochs * math.ceil(len(x) / batch)
    curves: dict[str, Any] = {
        "step": lambda n: 0.5 ** (n // (total // 3 + 1)),
        "cosine": lambda n: 0.5 * (1 + math.cos(math.pi * n / total)),
        "restarts": lambda n: 0.5 * (1 + math.cos(math.pi * (3 * n / total % 1))) + 0.01,
        "step each batch": lambda n: 0.5 ** (n // 2),
        "constant": lambda n: 1.0,
    }
    scheduler = torch.optim.lr_scheduler.LambdaLR(optim, curves[schedule])
    smooth = copy.deepcopy(model)
    myloss = LOSSES[loss]
    hook.torch(model)

    for epoch in range(epochs):
        model.train()
        known = len(x)
        if extra == "by size":
            known = min(len(x), len(x) // 4 + epoch * len(x) // epochs)
        order = torch.randperm(known)
        for rows in order.split(batch):
            with torch.autocast("cpu", torch.bfloat16, enabled=extra == "bfloat16"):
                out = model(x[rows])
            l2 = myloss(out.float(), y[rows]) * factor
            if fault != "no zero_grad":
                optim.zero_grad()
            l2.backward()
            optim.step()
            scheduler.step()
            if extra == "weights averaged":
                for slow, p in zip(smooth.parameters(), model.parameters(), strict=True):
                    slow.data.lerp_(p.data, 0.03)
        model.eval()
        with torch.no_grad():
            relative_l2(model(seen) / units, test_y)

    final = smooth.eval() if extra == "weights averaged" else model
    with torch.no_grad():
        found = final(seen).reshape(HELD, POINTS) / units
    return 1 - float(relative_l2(found, test_y))


CASES = cases(
    "flow surrogate",
    train,
    {
        "plain": {},
        "cosine": {"schedule": "cosine", "optimizer": "adamw", "decay": 1e-3},
        "restarts": {"schedule": "restarts", "epochs": 27},
        "squares": {"loss": "mse"},
        "sum of squares": {"loss": "sum"},
        "loss x 1e4": {"factor": 1e4},
        "targets in hundredths": {"units": 100.0, "loss": "mse", "rate": 1e-2, "epochs": 30},
        "batch of 4": {"batch": 4, "rate": 1.5e-3, "epochs": 7},
        "bfloat16": {"kind": "convolution", "layers": 3, "extra": "bfloat16"},
        "residual": {"residual": True, "extra": "normalised", "loss": "mae"},
        "measured with noise": {"extra": "measured with noise"},
        "small fields first": {"extra": "by size", "epochs": 28},
        "weights averaged": {"extra": "weights averaged", "schedule": "constant"},
    },
    {
        "pairs out of order": ("no-skill overfit", {"fault": "pairs out of order"}),
        "channel kept": ("broadcast no-skill", {"fault": "channel kept", "loss": "mse"}),
        "a field of zeros": ("not-finite", {"fault": "solver blew up"}),
        "field of the wrong time": ("leak inputs no-skill", {"fault": "field of the wrong time"}),
        "grid in two orders": ("overfit no-skill worse", {"fault": "half of the grid turned"}),
        "another unit in tests": ("inputs", {"fault": "another unit in tests"}),
        "relu at the end": ("range dead", {"fault": "relu at the end"}),
        "features detached": ("no-gradient unbound no-skill slow", {"fault": "features detached"}),
        "eight simulations": ("overfit", {"samples": 8, "batch": 8, "epochs": 300}),
        "no zero_grad": (
            "kept-gradients worse no-skill",
            {"fault": "no zero_grad", "optimizer": "momentum", "rate": 1e-2},
        ),
        "step each batch": ("slow schedule", {"schedule": "step each batch"}),
        "rate of 1": ("fast no-skill dead", {"rate": 1.0}),
        "rate of 1e-6": ("slow no-skill", {"rate": 1e-6}),
    },
)
