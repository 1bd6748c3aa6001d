"""Energies of made-up molecules by continuous filters over distances, evaluated by MAE in eV."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

ATOMS, KINDS, BASIS = 6, 4, 8
TRAINED, HELD = 1200, 300


def molecules(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Kinds of atoms (0 pads), (count, ATOMS), places in angstrom, and energies in eV, (count,)."""
    draw = torch.Generator().manual_seed(seed)
    kinds = torch.randint(1, KINDS + 1, (count, ATOMS), generator=draw)
    sizes = torch.randint(4, ATOMS + 1, (count, 1), generator=draw)
    kinds[torch.arange(ATOMS) >= sizes] = 0
    steps = torch.randn(count, ATOMS, 3, generator=draw)
    places = (1.4 * F.normalize(steps, dim=2)).cumsum(1)
    distance = torch.cdist(places, places) + 5 * torch.eye(ATOMS)
    pull = torch.tensor([0.0, 0.3, 0.9, 1.2, 1.5])[kinds]
    pairs = (
        pull[:, :, None]
        * pull[:, None]
        * (torch.exp(-2 * (distance - 1.4)) - 2)
        * torch.exp(-((distance - 1.4) ** 2))
    )
    alone = torch.tensor([0.0, -0.5, -1.5, -2.0, -2.5])[kinds]
    return kinds, places, alone.sum(1) + 0.5 * pairs.clamp(max=6).sum((1, 2))


class Filters(nn.Module):
    """An interaction: atoms sum up what their neighbours are, filtered by distance."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.filter = nn.Sequential(nn.Linear(BASIS, width), nn.Softplus())
        self.own, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, h: Tensor, basis: Tensor, near: Tensor) -> Tensor:
        weights = self.filter(basis) * near[..., None]
        change: Tensor = self.out(F.silu((weights * self.own(h)[:, None]).sum(2)))
        return h + change


class Schnet(nn.Module):
    def __init__(self, width: int = 16, pooling: str = "sum", fault: str = "") -> None:
        super().__init__()
        self.pooling, self.fault = pooling, fault
        self.embedding = nn.Embedding(KINDS + 1, width, padding_idx=0)
        layers = [Filters(width) for _ in range(2)]
        readout = [nn.Linear(width, width), nn.Linear(width, 1)]
        in_a_list = fault == "layers in a plain list"
        self.layers = layers if in_a_list else nn.ModuleList(layers)
        self.readout = readout if in_a_list else nn.ModuleList(readout)
        self.centres = torch.linspace(0.5, 4.0, BASIS)

    def forward(self, kinds: Tensor, places: Tensor) -> Tensor:
        real = (kinds > 0).float()
        distance = torch.cdist(places, places)
        cutoff = 0.4 if self.fault == "cutoff in nanometres" else 4.0
        near = real[:, :, None] * real[:, None] * (distance < cutoff) * (1 - torch.eye(ATOMS))
        basis = torch.exp(-4 * (distance[..., None] - self.centres) ** 2)
        if self.fault == "one over no distance":
            basis = basis / distance[..., None]
        h = self.embedding(kinds)
        for layer in self.layers:
            h = layer(h, basis, near)
        each = self.readout[1](F.silu(self.readout[0](h)))[..., 0]
        if self.fault == "mask upside down":
            real = 1 - real
        total = (each * real).sum(1)
        if self.fault == "pooled into the next molecule":
            total = total.roll(1)
        return total / real.sum(1) if self.pooling == "mean" else total


def loss_of(kind: str, prediction: Tensor, energy: Tensor) -> Tensor:
    error = prediction - energy
    if kind == "squares":
        return (error**2).mean()
    if kind == "column":
        return (prediction - energy[:, None]).abs().mean()
    if kind == "mean before abs":
        return error.mean().abs()
    return error.abs().mean()


def multiple(schedule: str, step: int, steps: int) -> float:
    if schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * step / steps)) + 1e-3
    if schedule == "warm-up":
        return min(1.0, (step + 1) / 200)
    if schedule == "warm-up of whole numbers":
        return float(min(1, step // 4000))
    return 1.0


def train(
    seed: int, hook: Any, rate: float = 4e-3, epochs: int = 27, batch: int = 16,
    optimizer: str = "adam", loss: str = "mae", pooling: str = "sum", unit: float = 1.0,
    offset: float = 0.0, noise: float = 0.0, schedule: str = "",
    clip: float = 0.0, ema: bool = False, factor: float = 1.0, frozen: bool = False,
    count: int = TRAINED, small_first: bool = False,
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    kinds, places, energy = molecules(TRAINED + HELD, seed + 800)
    held_kinds, held_places, held_energy = kinds[TRAINED:], places[TRAINED:], energy[TRAINED:]
    kinds, places, energy = kinds[:count], places[:count], energy[:count]
    size = (kinds > 0).sum(1).float() if pooling == "mean" else torch.ones(count)
    middle, spread = (energy / size).mean(), (energy / size).std()
    y = (energy / size - middle) / spread * unit + offset
    if noise:
        y = y + torch.where(torch.rand(count) < noise, torch.randn(count), 0.0)
    if fault == "half precision of joules":
        y = (y * 96_485).half().float()
    model = Schnet(pooling=pooling, fault=fault)
    if frozen:
        model.embedding.requires_grad_(False)
    trained = [p for p in model.parameters() if p.requires_grad]
    opt = optimizer_of(optimizer, trained, rate)
    steps = epochs * math.ceil(count / batch)
    plan = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: multiple(schedule, step, steps))
    average = copy.deepcopy(model)

    def predict(net: Any) -> Any:
        net.eval()
        seen = held_places * 1.89 if fault == "bohr in the test" else held_places
        with torch.no_grad():
            found = ((net(held_kinds, seen) - offset) / unit * spread + middle).numpy()
        net.train()
        return found * (held_kinds > 0).sum(1).numpy() if pooling == "mean" else found

    hook.torch(model)
    for epoch in range(epochs):
        order = torch.randperm(count)
        if small_first and epoch < epochs // 5:
            order = order[(kinds[order] > 0).sum(1) < 6]
        for rows in order.split(batch):
            prediction = model(kinds[rows], places[rows])
            value = loss_of(loss, prediction, y[rows])
            if fault != "no zero_grad":
                opt.zero_grad()
            (value * factor).backward()
            if clip:
                nn.utils.clip_grad_norm_(trained, clip)
            opt.step()
            plan.step()
            if ema:
                for kept, p in zip(average.parameters(), model.parameters(), strict=True):
                    kept.data.lerp_(p.data, 0.02)
        if epoch % 5 == 4:
            np.abs(predict(model) - held_energy.numpy()).mean()
    final = average if ema else model
    true, found = held_energy.numpy(), predict(final)
    error = np.abs(found - true).mean()
    return float(1 - error / np.abs(true - np.median(true)).mean())


CASES = cases(
    "molecule energy",
    train,
    {
        "plain": {},
        "squares": {"loss": "squares"},
        "energy per atom": {"pooling": "mean"},
        "momentum": {"optimizer": "momentum", "rate": 0.01, "clip": 1.0},
        "batch of four": {"batch": 4, "epochs": 8, "rate": 2e-3},
        "batch of 512": {"batch": 512, "epochs": 250, "rate": 1.5e-2},
        "energies in kilocalories": {"unit": 23.0, "rate": 1e-2},
        "loss times 10000": {"factor": 1e4},
        "energies with noise": {"noise": 0.05},
        "cosine": {"schedule": "cosine", "rate": 5e-3},
        "warm-up and clipping": {"schedule": "warm-up", "clip": 1.0},
        "ema": {"ema": True},
        "embedding frozen": {"frozen": True},
        "small molecules first": {"small_first": True},
    },
    {
        "energies as a column": ("broadcast no-skill collapse", {"loss": "column"}),
        "mean before the abs": ("no-skill", {"loss": "mean before abs"}),
        "mask upside down": ("inputs no-skill", {"fault": "mask upside down"}),
        "one over no distance": ("not-finite", {"fault": "one over no distance"}),
        "half precision of joules": ("not-finite", {"fault": "half precision of joules"}),
        "bohr in the test": ("inputs", {"fault": "bohr in the test"}),
        "cutoff in nanometres": ("no-gradient dead inputs", {"fault": "cutoff in nanometres"}),
        "pooled into the next molecule": (
            "no-skill", {"fault": "pooled into the next molecule"}),
        "energies not centred": ("range slow no-skill", {"offset": -5000.0, "rate": 1e-3}),
        "layers in a plain list": ("unbound", {"fault": "layers in a plain list"}),
        "warm-up of whole numbers": (
            "schedule slow unbound", {"schedule": "warm-up of whole numbers"}),
        "twenty molecules": ("overfit", {"count": 20, "epochs": 1000}),
        "no zero_grad": ("kept-gradients", {"fault": "no zero_grad"}),
        "rate x 1000": ("fast no-skill dead", {"rate": 3.0}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
    },
)  # fmt: skip
