"""A generator of handwritten digits against a critic with a gradient penalty."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin, dense

LATENT, PIXELS = 12, 64


def digits() -> Tensor:
    """(1797, 64) between -1 and 1, as many generators end in a tanh."""
    return torch.from_numpy(load_digits().data.astype(np.float32)) / 8 - 1


def likeness(made: Tensor, true: Tensor) -> float:
    """1 where what is made lies like what is true, by the energy distance; 0 as the mean."""
    apart = torch.cdist
    inside = apart(true, true).mean()
    distance = 2 * apart(made, true).mean() - apart(made, made).mean() - inside
    alone = 2 * apart(true.mean(0, keepdim=True), true).mean() - inside
    return float(1 - (distance / alone).item())


def penalty(critic: nn.Module, true: Tensor, made: Tensor, one_sided: bool) -> Tensor:
    """(|gradient| - 1)² between what is true and what is made."""
    share = torch.rand(len(true), 1)
    between = (share * true + (1 - share) * made).requires_grad_()
    slope = torch.autograd.grad(critic(between).sum(), between, create_graph=True)[0]
    length = slope.norm(2, dim=1)
    above = length - 1
    return (above.relu() if one_sided else above).pow(2).mean()


def train(
    seed: int, hook: Any, steps: int = 500, rounds: int = 3,
    rate: float = 1e-3, critic_rate: float = 1e-3, batch: int = 48, weight: float = 10.0,
    one_sided: bool = False, average: float = 0.0, noise: float = 0.0, grow: bool = False,
    watched: str = "both", fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    everything = digits()
    order = torch.randperm(len(everything))
    data, held = everything[order[:1400]], everything[order[1400:]]
    if fault == "pixels from 0 to 255":
        data = (data + 1) * 127.5
    generator = nn.Sequential(dense([LATENT, 96, 96, PIXELS]), nn.Tanh())
    critic = dense([PIXELS, 96, 64, 1], nn.LeakyReLU)
    pair = nn.ModuleDict({"generator": generator, "critic": critic})
    of_generator = torch.optim.Adam(generator.parameters(), rate, (0.0, 0.9))
    of_critic = torch.optim.Adam(critic.parameters(), critic_rate, (0.0, 0.9))
    if fault == "made again":
        generator = nn.Sequential(dense([LATENT, 96, 96, PIXELS]), nn.Tanh())
        pair["generator"] = generator
    slow = {name: value.clone() for name, value in generator.state_dict().items()}
    hook.torch(pair if watched == "both" else generator)

    def latent() -> Tensor:
        return torch.zeros(batch, LATENT) if fault == "no noise" else torch.randn(batch, LATENT)

    for step in range(steps):
        blur = noise * (1 - step / steps)
        for _ in range(rounds if not grow else 1 + 4 * step // steps):
            true = data[torch.randint(len(data), (batch,))]
            true = true + blur * torch.randn_like(true)
            with torch.no_grad():
                made = generator(latent())
            made = made + blur * torch.randn_like(made)
            against = critic(made).mean() - critic(true).mean()
            if fault == "penalty subtracted":
                against = against - 2 * weight * penalty(critic, true, made, one_sided)
            if fault != "no penalty":
                against = against + weight * penalty(critic, true, made, one_sided)
            if fault == "critic's sign":
                against = -against
            of_critic.zero_grad()
            against.backward()
            of_critic.step()
        made = generator(latent())
        judged = critic(made.detach() if fault == "made, detached" else made)
        value = -judged.mean()
        if fault == "generator's sign":
            value = -value
        of_generator.zero_grad()
        value.backward()
        of_generator.step()
        if average:
            for name, now in generator.state_dict().items():
                slow[name].lerp_(now, 1 - average)
    if average:
        generator.load_state_dict(slow)
    with torch.no_grad():
        return likeness(generator(torch.randn(400, LATENT)), held)


CASES = cases(
    "wasserstein",
    train,
    {
        "plain": {},
        "penalty on one side": {"one_sided": True},
        "averaged generator": {"average": 0.98},
        "generator alone is watched": {"watched": "generator"},
        "critic learns faster": {"critic_rate": 3e-3, "rounds": 2},
        "more rounds by and by": {"grow": True},
        "noise that fades": {"noise": 0.3},
        "penalty x 100": {"weight": 1000.0, "steps": 800},
    },
    {
        "pixels from 0 to 255": ("range saturated inputs", {"fault": "pixels from 0 to 255"}),
        "no penalty": ("worse no-skill fast", {"fault": "no penalty", "rate": 3e-3}),
        "penalty subtracted": ("derivative worse no-skill", {"fault": "penalty subtracted"}),
        "critic's sign": ("worse no-skill collapse", {"fault": "critic's sign"}),
        "generator's sign": (
            "opponents worse no-skill collapse saturated",
            {"fault": "generator's sign"},
        ),
        "made, detached": ("no-gradient unbound", {"fault": "made, detached"}),
        "made again": ("unbound slow", {"fault": "made again"}),
        "no noise": ("collapse inputs", {"fault": "no noise"}),
        "generator's rate x 300": ("fast collapse saturated", {"rate": 0.3}),
        "generator's rate / 1000": ("slow no-skill", {"rate": 1e-6}),
    },
)
