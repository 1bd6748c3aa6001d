"""Faults of fans by their vibrations: one class, drawn together about a centre (Deep SVDD).

Only fans that run well are trained on; what lies far from the centre is faulty. The skill is twice
the area under the ROC curve of that distance, less one, on fans of both kinds.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases
from benchmarks.detection.families.kit import begin, ranking_skill

LENGTH = 64


def vibrations(count: int, seed: int, faulty: float = 0.0) -> tuple[Tensor, Tensor]:
    """Recordings (N, LENGTH) in thousandths of a millimetre, and 1 for a fault."""
    draw = torch.Generator().manual_seed(seed)

    def between(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(count, 1, generator=draw)

    time = torch.arange(LENGTH) / LENGTH
    turn = 2 * math.pi * (between(3.5, 4.5) * time + between(0, 1))
    bad = (torch.rand(count, 1, generator=draw) < faulty).float()
    kind = torch.randint(3, (count, 1), generator=draw)
    twice = 0.4 + bad * (kind == 0) * between(0.3, 0.8)
    knock = bad * (kind == 1) * between(0.5, 1.2) * (torch.cos(turn) > 0.9)
    rough = 0.25 * (1 + bad * (kind == 2) * between(0.4, 1.0))
    x = torch.sin(turn) + twice * torch.sin(2 * turn + 1) + knock
    x = between(0.8, 1.2) * x + rough * torch.randn(count, LENGTH, generator=draw)
    return 40 * x, bad[:, 0]


def spectrum(x: Tensor) -> Tensor:
    return (torch.fft.rfft(x / 40).abs()[:, 1:] + 0.5).log()


class Encoder(nn.Module):
    """Without biases, so that it cannot map everything to the centre."""

    def __init__(self, biases: bool, embedding: int = 8) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(LENGTH // 2, 48, bias=biases), nn.LeakyReLU(0.1),
            nn.Linear(48, 24, bias=biases), nn.LeakyReLU(0.1),
            nn.Linear(24, embedding, bias=biases),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Linear(embedding, 48), nn.LeakyReLU(0.1), nn.Linear(48, LENGTH // 2)
        )
        self.register_buffer("centre", torch.zeros(embedding))
        self.register_buffer("radius", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return ((self.layers(x) - self.centre) ** 2).sum(1)


def objective(net: Encoder, x: Tensor, bad: Tensor, loss: str) -> Tensor:
    far = net(x)
    if loss == "soft boundary":
        with torch.no_grad():
            net.radius.fill_(float(far.sqrt().quantile(0.9)))
        return net.radius**2 + F.relu(far - net.radius**2).mean() / 0.1
    if loss == "some known faults":
        return torch.where(bad > 0, 1 / (far + 1e-2), far).mean()
    if loss == "pseudo-Huber":
        return ((far + 1).sqrt() - 1).mean()
    if loss == "with reconstruction":
        return far.mean() + F.mse_loss(net.decoder(net.layers(x)), x)
    if loss == "noise is faulty":
        moved = x + torch.randn_like(x) * (torch.rand(len(x), 1) + 0.3)
        strange = (-net(moved)).exp().clamp(max=0.999)
        return far.mean() - (1 - strange).log().mean()
    return far.mean()


def train(
    seed: int, hook: Any, loss: str = "", epochs: int = 14, first: int = 12, rate: float = 1e-3,
    batch: int = 32, decay: float = 1e-4, count: int = 2000, unclean: float = 0.0,
    milestones: bool = True, moving: bool = False, forever: bool = False, biases: bool = False,
    watched: bool = True, sums: bool = False, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    waves, bad = vibrations(count, seed + 900, unclean)
    known = bad if loss == "some known faults" else torch.zeros_like(bad)
    held, held_bad = vibrations(400, seed + 901, 0.5)
    test, test_bad = vibrations(2000, seed + 902, 0.5)
    x = spectrum(waves)
    mean, spread = x.mean(0), x.std(0)
    x = (x - mean) / spread
    held_x, test_x = ((spectrum(of) - mean) / spread for of in (held, test))
    if fault == "each normalised by itself later":
        test_x = spectrum((test - test.mean(1, True)) / test.std(1, keepdim=True) * 400)
    net = Encoder(biases or fault == "centre learned")
    hook.torch(net)
    loader = DataLoader(TensorDataset(x, known), batch, shuffle=True, drop_last=True)
    before = torch.optim.Adam(net.parameters(), 2 * rate)
    for _ in range(first):
        for part, _ in loader:
            before.zero_grad()
            F.mse_loss(net.decoder(net.layers(part)), part).backward()
            before.step()
    with torch.no_grad():
        net.centre.copy_(net.layers(x).mean(0))
    if fault == "centre learned":
        net.centre = nn.Parameter(net.centre.clone())  # type: ignore[assignment]
    if not forever:
        net.decoder.requires_grad_(loss == "with reconstruction")
    chosen = [p for p in net.parameters() if p.requires_grad]
    steps = torch.optim.AdamW(chosen, rate, weight_decay=decay)
    marks = [epochs // 2, epochs * 4 // 5] if milestones else []
    plan = torch.optim.lr_scheduler.MultiStepLR(steps, marks, 0.2)
    for _ in range(epochs):
        net.train()
        for part, faults in loader:
            error = objective(net, part, faults, loss)
            if sums:
                error = error * batch
            steps.zero_grad()
            error.backward()
            steps.step()
            if moving:
                with torch.no_grad():
                    net.centre.lerp_(net.layers(part).mean(0), 0.01)
        plan.step()
        if watched:
            net.eval()
            with torch.no_grad():
                objective(net, held_x[held_bad < 0.5], torch.zeros(int((1 - held_bad).sum())), loss)
                ranking_skill(net(held_x), held_bad)
    net.eval()
    with torch.no_grad():
        return ranking_skill(net(test_x), test_bad)


CASES = cases(
    "fan vibrations",
    train,
    {
        "plain": {},
        "soft boundary": {"loss": "soft boundary"},
        "some known faults": {"loss": "some known faults", "unclean": 0.05},
        "pseudo-Huber, not watched": {"loss": "pseudo-Huber", "watched": False},
        "reconstruction kept": {"loss": "with reconstruction"},
        "noise is faulty": {"loss": "noise is faulty"},
        "a moving centre": {"moving": True, "epochs": 8},
        "sums, decoder left in the optimizer": {"sums": True, "forever": True},
        "a few faults among the good": {"unclean": 0.01, "milestones": False, "epochs": 8},
    },
    {
        "centre learned": ("collapse", {"fault": "centre learned", "epochs": 40, "rate": 5e-3}),
        "each normalised by itself later": (
            "inputs",
            {"fault": "each normalised by itself later"},
        ),
    },
)
