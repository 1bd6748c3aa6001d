"""The next state of a heat equation by a small convolutional network, rolled out at test.

A plate of 16 by 16 cells that is closed at its edges has random hot spots, conducts in some parts
better than in others, and is heated by one source. The network sees the temperatures, the
conductivity and the source, and says the temperatures a while later. At test it is fed its own
states ten times. The skill is the share of variance that is explained after ten steps.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, explained
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.detection.case import cases

SIZE, STEPS = 16, 10
PARTS = {"train": (120, 0), "held": (16, 1), "test": (40, 2)}


def smooth(noise: Tensor) -> Tensor:
    for _ in range(2):
        noise = functional.avg_pool2d(functional.pad(noise, (1, 1, 1, 1), mode="replicate"), 3, 1)
    return noise


def later(heat: Tensor, conducts: Tensor, source: Tensor, parts: int = 8) -> Tensor:
    for _ in range(parts):
        flows = torch.zeros_like(heat)
        for dim in (2, 3):
            between = (conducts.narrow(dim, 0, SIZE - 1) + conducts.narrow(dim, 1, SIZE - 1)) / 2
            flow = between * heat.diff(dim=dim)
            flows.narrow(dim, 0, SIZE - 1).add_(flow)
            flows.narrow(dim, 1, SIZE - 1).sub_(flow)
        heat = heat + 0.15 * flows + 0.02 * source - 0.004 * heat
    return heat


def plates(count: int, seed: int) -> dict[str, Tensor]:
    """States (N, STEPS + 1, SIZE, SIZE), and the conductivity and source (N, 2, SIZE, SIZE)."""
    torch.manual_seed(seed)
    conducts = 0.4 + 1.2 * torch.sigmoid(4 * smooth(torch.randn(count, 1, SIZE, SIZE)))
    source = (3 * smooth(torch.randn(count, 1, SIZE, SIZE))).clamp(-2, 2)
    states = [4 * smooth(torch.randn(count, 1, SIZE, SIZE))]
    for _ in range(STEPS):
        states.append(later(states[-1], conducts, source))
    return {"states": torch.cat(states, 1), "fixed": torch.cat([conducts, source], 1)}


class Stepper(nn.Module):
    def __init__(self, units: int = 8, residual: bool = True, padding: str = "replicate",
                 norm: bool = False, dropout: float = 0.0, end: str = "") -> None:  # fmt: skip
        super().__init__()
        self.residual = residual
        layers: list[nn.Module] = []
        for inputs in (3, units):
            layers.append(nn.Conv2d(inputs, units, 5, padding=2, padding_mode=padding))
            if norm:
                layers.append(nn.BatchNorm2d(units))
            layers.append(nn.GELU())
        layers += [nn.Dropout2d(dropout), nn.Conv2d(units, 1, 3, padding=1)]
        if end == "relu":
            layers.append(nn.ReLU())
        self.layers = nn.Sequential(*layers)

    def forward(self, heat: Tensor, fixed: Tensor) -> Tensor:
        change: Tensor = self.layers(torch.cat([heat, fixed], 1))
        return heat + change if self.residual else change


def roll_out(model: nn.Module, data: dict[str, Tensor], steps: int = STEPS) -> Tensor:
    heat = data["states"][:, :1]
    for _ in range(steps):
        heat = model(heat, data["fixed"])
    return heat


def train(
    seed: int, hook: Any, steps: int = 2000, rate: float = 2e-3, batch: int = 6,
    noise: float = 0.0, unrolled: int = 1, loss: str = "squares", scale: float = 1.0,
    clip: float = 0.0, schedule: str = "", count: int = 120, fault: str = "",
    evaluate_every: int = 200, **shape: Any,
) -> float:  # fmt: skip
    data = {part: plates(n, 3 * seed + 9000 + own) for part, (n, own) in PARTS.items()}
    begin(seed)
    known = {name: values[:count] for name, values in data["train"].items()}
    wanted_states = known["states"]
    if fault == "states of other plates":
        wanted_states = wanted_states.roll(1, 0)
    if fault == "kelvin":
        for part in (known, data["held"], data["test"]):
            part["states"] = part["states"] * 10 + 293.0
        wanted_states = known["states"]
    if fault == "normalised in training alone":
        for part in (data["held"], data["test"]):
            part["states"] = part["states"] * 10 + 293.0
    model = Stepper(**shape)
    hook.torch(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=1e-4)
    for step in range(steps):
        if schedule == "cosine":
            optimizer.param_groups[0]["lr"] = rate * (
                0.51 + 0.49 * math.cos(math.pi * step / steps)
            )
        rows = torch.randint(count, (batch,))
        times = torch.randint(STEPS - unrolled + 1, (batch,))
        heat, fixed = known["states"][rows, times, None], known["fixed"][rows]
        heat = heat + noise * torch.randn_like(heat)
        error = torch.zeros(())
        for ahead in range(unrolled):
            heat = model(heat, fixed)
            offset = 0 if fault == "the state itself is the target" else 1
            wanted = wanted_states[rows, times + ahead + offset, None]
            if fault == "channel forgotten in the target":
                wanted = wanted.squeeze(1)
            if loss == "absolute":
                error = error + functional.l1_loss(heat, wanted)
            elif loss == "relative":
                error = error + (heat - wanted).norm() / wanted.norm()
            else:
                error = error + functional.mse_loss(heat, wanted)
        optimizer.zero_grad()
        (scale * error).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        if evaluate_every and step % evaluate_every == evaluate_every - 1:
            model.eval()
            with torch.no_grad():
                functional.mse_loss(
                    roll_out(model, data["held"], 3), data["held"]["states"][:, 3:4]
                )
            model.train()
    model.eval()
    test = data["test"]
    with torch.no_grad():
        found = roll_out(model, test)
    return explained(found, test["states"][:, -1:])


CASES = cases(
    "heat steps",
    train,
    {
        "plain": {},
        "noise in the states": {"noise": 0.01, "steps": 2500},
        "two steps unrolled": {"unrolled": 2, "steps": 2000},
        "relative error, clipped": {"loss": "relative", "clip": 0.5, "schedule": "cosine"},
        "absolute differences, cosine": {"loss": "absolute", "schedule": "cosine"},
        "loss x 10000, not evaluated": {"scale": 1e4, "evaluate_every": 0},
        "state instead of change": {
            "residual": False, "steps": 3000, "rate": 3e-3, "schedule": "cosine",
        },
    },
    {
        "the state itself is the target": (
            "leak no-skill dead", {"fault": "the state itself is the target"},
        ),
        "states of other plates": ("no-skill overfit", {"fault": "states of other plates"}),
        "channel forgotten in the target": (
            "broadcast no-skill", {"fault": "channel forgotten in the target"},
        ),
        "degrees not normalised": ("inputs fast no-skill worse", {"fault": "kelvin"}),
        "relu at the end": ("range dead no-skill", {"residual": False, "end": "relu"}),
        "normalised in training alone": (
            "inputs worse overfit", {"fault": "normalised in training alone"},
        ),
    },
)  # fmt: skip
