"""Cartoon faces by a variational autoencoder of dense layers, after PyTorch's own example.

The skill is a product: the share of the variance of other faces that their reconstruction
explains, and how far faces that are drawn from the prior lie like true ones (energy distance).
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, explained, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIDE, CODE = 12, 8
PIXELS = SIDE * SIDE


def faces(count: int, seed: int) -> Tensor:
    """Grey values (N, PIXELS) from 0 to 1: a head, two eyes, a mouth that may smile."""
    draw = torch.Generator().manual_seed(seed)

    def some(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(count, 1, 1, generator=draw)

    rows = torch.arange(SIDE).view(-1, 1) - 5.5 - some(-1, 1)
    columns = torch.arange(SIDE).view(1, -1) - 5.5 - some(-1, 1)
    wide, high = some(3.2, 5.2), some(3.8, 5.4)
    head = torch.sigmoid(8 * (1 - (columns / wide) ** 2 - (rows / high) ** 2))
    apart, open_ = some(1.0, 2.4), some(0.4, 1.3)
    eyes = torch.exp(-((columns.abs() - apart) ** 2) / 0.5 - (rows + 1.4) ** 2 / open_)
    curve = some(-0.35, 0.35)
    mouth = torch.exp(-((rows - 2.2 + curve * (columns**2 - 2)) ** 2) / 0.5)
    mouth = mouth * (columns.abs() < 2.8)
    light = some(0.55, 1.0)
    return (light * head * (1 - 0.9 * eyes) * (1 - 0.9 * mouth)).clamp(0, 1).reshape(count, -1)


class VAE(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fc1 = nn.Linear(PIXELS, 96)
        self.fc21, self.fc22 = nn.Linear(96, CODE), nn.Linear(96, CODE)
        self.fc3, self.fc4 = nn.Linear(CODE, 96), nn.Linear(96, PIXELS)
        self.log_sigma = nn.Parameter(torch.zeros(()))
        self.fault = fault

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = F.relu(self.fc1(x))
        return self.fc21(h), self.fc22(h)

    def reparameterize(self, mu: Tensor, logvar: Tensor) -> Tensor:
        std = torch.exp(0.5 * logvar)
        z = mu + torch.randn_like(std) * std
        return z.detach() if self.fault == "code detached" else z

    def decode(self, z: Tensor) -> Tensor:
        logits: Tensor = self.fc4(F.relu(self.fc3(z)))
        return logits.sigmoid() if self.fault == "sigmoid before a loss of logits" else logits

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mu, logvar = self.encode(x)
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(
    model: VAE, logits: Tensor, x: Tensor, mu: Tensor, logvar: Tensor, beta: float, kind: str
) -> Tensor:
    count = len(x)
    kld = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp())
    if kind == "sum of all":
        return F.binary_cross_entropy_with_logits(logits, x, reduction="sum") + beta * kld.sum()
    if kind == "mean of pixels":
        error = F.binary_cross_entropy_with_logits(logits, x)
        return error + beta * kld.sum(1).mean() / PIXELS
    if kind == "mean beside a sum":
        return F.binary_cross_entropy_with_logits(logits, x) + beta * kld.sum(1).mean()
    if kind == "learned sigma":
        error = 0.5 * ((x - logits.sigmoid()) / model.log_sigma.exp()) ** 2 + model.log_sigma
        return (error.sum() + beta * kld.sum()) / count
    error = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / count
    if kind == "free bits":
        return error + beta * kld.mean(0).clamp(min=0.2).sum()
    if kind == "sign of the divergence":
        return error - beta * kld.sum() / count
    return error + beta * kld.sum() / count


def likeness(made: Tensor, true: Tensor) -> float:
    """1 where what is made lies like what is true, 0 where it is their mean alone."""

    def distance(a: Tensor) -> Tensor:
        own = torch.cdist(a, a).mean() + torch.cdist(true, true).mean()
        return 2 * torch.cdist(a, true).mean() - own

    return 1 - (distance(made) / distance(true.mean(0, keepdim=True))).item()


def train(
    seed: int, hook: Any, loss: str = "", beta: float = 1.0, warm: int = 0, cycle: int = 0,
    rate: float = 2e-3, steps: int = 2400, batch: int = 64, optimizer: str = "adam",
    schedule: str = "cosine", amp: bool = False, averaged: bool = False, evaluated: bool = True,
    times: float = 1.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, held, test = faces(4000, seed + 6400), faces(300, seed + 6401), faces(600, seed + 6402)
    goal = x.roll(1, 0) if fault == "rebuilds another" else x
    model = VAE(fault)
    hook.torch(model)
    chosen = [
        p
        for name, p in model.named_parameters()
        if fault != "decoder not optimised" or name.startswith(("fc1", "fc2"))
    ]
    steering = optimizer_of(optimizer, chosen, rate)
    scheduler = scheduler_of(steering, schedule, steps)
    average = torch.optim.swa_utils.AveragedModel(model) if averaged else None
    per_epoch = len(x) // batch
    for step in range(steps):
        if step % per_epoch == 0:
            order = torch.randperm(len(x))
            if step and evaluated:
                model.eval()
                with torch.no_grad():
                    loss_function(model, *_seen(model, held), beta, loss)
        model.train()
        rows = order[step % per_epoch * batch :][:batch]
        weight = beta * min(1.0, (step + 1) / warm) if warm else beta
        if cycle:
            weight = beta * min(1.0, 2 * (step % cycle) / cycle)
        with torch.autocast("cpu", torch.bfloat16, enabled=amp):
            logits, mu, logvar = model(x[rows])
        parts = (logits.float(), goal[rows], mu.float(), logvar.float())
        value = loss_function(model, *parts, weight, loss)
        steering.zero_grad()
        (value * times).backward()
        steering.step()
        scheduler.step()
        if average is not None and step > 0.7 * steps:
            average.update_parameters(model)
    final = model if average is None else average.module
    final.eval()
    with torch.no_grad():
        rebuilt = final.decode(final.encode(test)[0]).sigmoid()
        made = final.decode(torch.randn(len(test), CODE)).sigmoid()
    skill = max(0.0, explained(rebuilt, test)) * max(0.0, likeness(made, test))
    return skill if bool(rebuilt.isfinite().all() and made.isfinite().all()) else math.nan


def _seen(model: VAE, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    logits, mu, logvar = model(x)
    return logits, x, mu, logvar


CASES = cases(
    "cartoon faces",
    train,
    {
        "plain": {},
        "divergence in cycles": {"cycle": 600},
        "sum of all, x 10": {"loss": "sum of all", "times": 10.0, "evaluated": False},
        "mean of pixels": {"loss": "mean of pixels", "warm": 800},
        "learned sigma, below zero": {"loss": "learned sigma"},
        "free bits, bfloat16": {"loss": "free bits", "amp": True},
        "batch of 32, weights averaged": {"batch": 32, "averaged": True, "steps": 3000},
    },
    {
        "mean beside a sum": ("collapse no-skill", {"loss": "mean beside a sum"}),
        "sigmoid before a loss of logits": (
            "probabilities no-skill",
            {"fault": "sigmoid before a loss of logits"},
        ),
        "code detached": ("no-gradient no-skill collapse unbound", {"fault": "code detached"}),
        "decoder not optimised": ("unbound no-skill", {"fault": "decoder not optimised"}),
        "rebuilds another": ("no-skill collapse", {"fault": "rebuilds another"}),
        "sign of the divergence": (
            "worse not-finite",
            {"loss": "sign of the divergence"},
        ),
        "rate x 100": ("fast no-skill collapse dead", {"rate": 0.2, "schedule": "constant"}),
    },
)
