"""A generator against a discriminator, on a ring of eight spots."""

from __future__ import annotations

import math
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, dense
from torch import Tensor, nn

from benchmarks.detection.case import cases

LATENT = 4


def ring(count: int) -> Tensor:
    angle = torch.randint(8, (count,)) * (2 * math.pi / 8)
    spots = torch.stack([angle.cos(), angle.sin()], 1)
    return 2 * spots + 0.1 * torch.randn(count, 2)


def likeness(made: Tensor) -> float:
    """1 where what is made lies like what is true, by the energy distance; 0 as at the start."""
    true = ring(len(made))
    apart = torch.cdist
    distance = 2 * apart(made, true).mean() - apart(made, made).mean() - apart(true, true).mean()
    alone = 2 * apart(torch.zeros(1, 2), true).mean() - apart(true, true).mean()
    return 1 - (distance / alone).item()


def train(
    seed: int,
    hook: Any,
    rate: float = 1e-3,
    steps: int = 1500,
    batch: int = 64,
    loss: str = "bce",
    rounds: int = 1,
    detached: bool = False,
    generator_rate: float | None = None,
    swapped: bool = False,
    same_noise: bool = False,
    both_in_one: bool = False,
    schedule_ends: bool = False,
) -> float:
    begin(seed)
    pair = nn.ModuleDict({
        "generator": dense([LATENT, 48, 48, 2]), "critic": dense([2, 48, 48, 1], nn.LeakyReLU),
    })  # fmt: skip
    generator, critic = pair["generator"], pair["critic"]
    of_generator = torch.optim.Adam(generator.parameters(), generator_rate or rate, (0.5, 0.999))
    judged = pair if both_in_one else critic
    of_critic = torch.optim.Adam(judged.parameters(), rate, (0.5, 0.999))
    bce = nn.BCEWithLogitsLoss()
    hinge = loss == "hinge"
    hook.torch(generator)
    hook_noise = torch.zeros(batch, LATENT)
    for _ in range(steps):
        for _ in range(rounds):
            noise = hook_noise if same_noise else torch.randn(batch, LATENT)
            true, made = critic(ring(batch)), critic(generator(noise).detach())
            if hinge:
                against = (1 - true).relu().mean() + (1 + made).relu().mean()
            else:
                against = bce(true, torch.ones_like(true)) + bce(made, torch.zeros_like(made))
            of_critic.zero_grad()
            against.backward()
            of_critic.step()
        noise = hook_noise if same_noise else torch.randn(batch, LATENT)
        made = generator(noise)
        judged_made = critic(made.detach() if detached else made)
        wanted = torch.zeros_like(judged_made) if swapped else torch.ones_like(judged_made)
        value = -judged_made.mean() if hinge else bce(judged_made, wanted)
        of_generator.zero_grad()
        value.backward()
        of_generator.step()
    generator.eval()
    with torch.no_grad():
        return likeness(generator(torch.randn(1000, LATENT)))


CASES = cases(
    "gan",
    train,
    {
        "plain": {},
        "hinge": {"loss": "hinge"},
        "three rounds of the critic": {"rounds": 3, "steps": 1000},
        "slower generator": {"generator_rate": 5e-4},
        "batch of sixteen": {"batch": 16, "steps": 2000},
    },
    {
        "generator without gradient": ("no-gradient unbound", {"detached": True}),
        "generator hardly moves": ("slow no-skill", {"generator_rate": 1e-7}),
        "targets swapped": ("no-skill worse collapse", {"swapped": True}),
        "same noise": ("collapse inputs", {"same_noise": True}),
        "generator's rate x 1000": ("fast collapse dead", {"generator_rate": 1.0}),
    },
)
