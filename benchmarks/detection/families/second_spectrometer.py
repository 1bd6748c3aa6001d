"""Energy of animal feed from near-infrared spectra: a network of wheat is fine-tuned.

A convolutional network learns what wheat consists of, from many spectra of a laboratory. Then it
gets another head and a few spectra of feed, from a portable instrument. The skill is the share of
the energy's variance that is explained, of other samples of feed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, explained, normal, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

CHANNELS, PARTS = 64, 4  # water, protein, fat and starch
CENTRES = torch.tensor([[14.0, 45.0], [22.0, 50.0], [30.0, 56.0], [8.0, 38.0]])
WIDTHS = torch.tensor([5.0, 4.0, 3.5, 6.0])


def spectra(amounts: Tensor, seed: int, shift: float, gain: float, noise: float) -> Tensor:
    """Absorptions (N, CHANNELS) of an instrument: bands, a baseline, scattered light and noise."""
    channel = torch.arange(CHANNELS) + shift
    bands = (-(((channel - CENTRES[..., None]) / WIDTHS[:, None, None]) ** 2)).exp().sum(1)
    scatter = 1 + 0.05 * normal(len(amounts), 1, seed=seed + 1)
    slope = normal(len(amounts), 2, seed=seed + 2) @ torch.stack(
        [torch.ones(CHANNELS), torch.linspace(-1, 1, CHANNELS)]
    )
    light = scatter * (amounts @ bands) * (1 + gain * torch.linspace(-1, 1, CHANNELS))
    light = light + 0.25 * slope + noise * normal(len(amounts), CHANNELS, seed=seed + 3)
    return 0.4 + 0.1 * light


def wheat(count: int, seed: int) -> tuple[Tensor, Tensor]:
    amounts = 1.5 + 0.5 * normal(count, PARTS, seed=seed)
    return spectra(amounts, seed, 0.0, 0.0, 0.03), (amounts - 1.5) / 0.5


def feed(count: int, seed: int, careless: float = 0.0) -> tuple[Tensor, Tensor]:
    """Spectra of the portable instrument, and the energy in kilojoules per hundred grams."""
    amounts = 1.7 + 0.45 * normal(count, PARTS, seed=seed)
    water, protein, fat, starch = amounts.T
    energy = 0.8 * fat * fat + 1.3 * protein + 1.1 * starch - 0.5 * water * starch
    energy = energy + (0.1 + careless) * normal(count, seed=seed + 9)
    return spectra(amounts, seed, 1.0, 0.15, 0.03), 1000 + 150 * energy


class Net(nn.Module):
    def __init__(self, outputs: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(1, 12, 7, stride=2, padding=3), nn.ReLU(),
            nn.Conv1d(12, 24, 5, stride=2, padding=2), nn.ReLU(),
            nn.Flatten(), nn.Linear(24 * CHANNELS // 4, 48), nn.ReLU(),
        )  # fmt: skip
        self.drop = nn.Dropout(dropout)
        self.head = nn.Linear(48, outputs)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.drop(self.body(x[:, None])))
        return out


def batches(x: Tensor, y: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    order = torch.randperm(len(x))
    for first in range(0, len(x) - size + 1, size):
        rows = order[first : first + size]
        yield x[rows], y[rows]


def pretrained(seed: int, middle: Tensor, spread: Tensor) -> dict[str, Tensor]:
    """The state of a network that knows wheat."""
    x, y = wheat(3000, seed)
    x, net = (x - middle) / spread, Net(PARTS)
    optimizer = torch.optim.Adam(net.parameters(), 2e-3)
    for _ in range(12):
        for batch, target in batches(x, y, 50):
            optimizer.zero_grad()
            nn.functional.mse_loss(net(batch), target).backward()
            optimizer.step()
    return net.state_dict()


@torch.no_grad()
def evaluate(net: nn.Module, x: Tensor, y: Tensor, criterion: nn.Module) -> float:
    net.eval()
    loss: float = criterion(net(x).squeeze(1), y).item()
    net.train()
    return loss


def train(
    seed: int, hook: Any, fault: str = "", steps: int = 1500, batch: int = 25, rate: float = 1e-3,
    body_rate: float | None = None, optimizer: str = "adamw", schedule: str = "cosine",
    frozen: int = 0, decay: float = 1e-2, pull: float = 0.0, dropout: float = 0.0,
    criterion: nn.Module | None = None, count: int = 600, careless: float = 0.0,
    bfloat16: bool = False, evaluated: bool = True,
) -> float:  # fmt: skip
    begin(seed)
    spectra_of_wheat, _ = wheat(3000, 7 * seed + 100)
    middle, spread = spectra_of_wheat.mean(0), spectra_of_wheat.std(0)
    state = pretrained(7 * seed + 100, middle, spread)
    x, energy = feed(count, 7 * seed + 4000, careless)
    (held_x, held), (test_x, test) = feed(200, 7 * seed + 5000), feed(1500, 7 * seed + 6000)
    mean, deviation = energy.mean(), energy.std()
    if fault == "energy as it is":
        mean, deviation = torch.tensor(0.0), torch.tensor(1.0)
    y, held = (energy - mean) / deviation, (held - mean) / deviation
    x = (x - middle) / spread
    if fault != "spectra as they are, in validation":
        held_x, test_x = (held_x - middle) / spread, (test_x - middle) / spread

    net, criterion = Net(PARTS, dropout), criterion or nn.MSELoss()
    if fault == "names of the checkpoint differ":
        state = {f"module.{name}": value for name, value in state.items()}
    net.load_state_dict(state, strict=False)
    groups = [
        {"params": list(net.body.parameters()), "lr": body_rate or rate},
        {"params": list(net.head.parameters()), "lr": rate},
    ]
    net.head = nn.Linear(48, 1)
    if fault != "optimizer of the old head":
        groups[1]["params"] = list(net.head.parameters())
    hook.torch(net)
    steering: Any = torch.optim.AdamW(groups, rate, weight_decay=decay)
    if optimizer == "sgd":
        steering = torch.optim.SGD(groups, rate, momentum=0.9, weight_decay=decay)
    scheduler = scheduler_of(steering, schedule, steps)
    start = [p.detach().clone() for p in net.body.parameters()]
    net.body.requires_grad_(not frozen)
    step = 0
    while step < steps:
        for batch_x, batch_y in batches(x, y, batch):
            if step == frozen:
                net.body.requires_grad_(True)
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                out = net(batch_x)
            out = out.float() if fault == "column against row" else out.float().squeeze(1)
            loss = criterion(out, batch_y)
            if pull:
                now = zip(net.body.parameters(), start, strict=True)
                loss = loss + pull * sum(((p - old) ** 2).sum() for p, old in now)
            steering.zero_grad()
            loss.backward()
            steering.step()
            scheduler.step()
            step += 1
            if evaluated and step % 200 == 0:
                evaluate(net, held_x, held, criterion)
    net.eval()
    with torch.no_grad():
        found = net(test_x).squeeze(1) * deviation + mean
    return explained(found, test) if bool(found.isfinite().all()) else math.nan


CASES = cases(
    "second spectrometer",
    train,
    {
        "plain": {},
        "body frozen at first": {"frozen": 500},
        "a lower rate for the body": {"body_rate": 3e-4, "rate": 3e-3},
        "warm-up, pulled to the start": {"schedule": "warmup", "pull": 1e-3},
        "momentum, huber, five at a time": {
            "optimizer": "sgd", "rate": 2e-3, "batch": 5, "criterion": nn.HuberLoss(),
            "steps": 2500,
        },
        "bfloat16, no validation": {"bfloat16": True, "evaluated": False},
        "heavy decay, dropout, restarts": {"decay": 0.3, "dropout": 0.1, "schedule": "restarts"},
    },
    {
        "names of the checkpoint differ": (
            "no-skill unbound overfit",
            {"fault": "names of the checkpoint differ", "frozen": 10**6},
        ),
        "optimizer of the old head": (
            "unbound no-skill",
            {"fault": "optimizer of the old head", "frozen": 10**6},
        ),
        "column against row": ("broadcast no-skill", {"fault": "column against row"}),
        "spectra as they are, in validation": (
            "inputs worse",
            {"fault": "spectra as they are, in validation"},
        ),
        "energy as it is": ("slow no-skill range", {"fault": "energy as it is"}),
        "rate of one": ("fast dead no-skill", {"rate": 1.0, "schedule": "constant"}),
        "fifteen careless samples": ("overfit", {"count": 15, "batch": 5, "careless": 1.2}),
    },
)  # fmt: skip
