"""Two towers find which picture belongs to which text, among the others of the batch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin, dense, normal, optimizer_of, scheduler_of


def pairs(count: int, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    hidden = torch.randn(count, 5, generator=draw)
    a = torch.tanh(hidden @ normal(5, 24, seed=11)) + 0.2 * torch.randn(count, 24, generator=draw)
    b = torch.sin(hidden @ normal(5, 16, seed=12)) + 0.2 * torch.randn(count, 16, generator=draw)
    return a, b


class Towers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.image = dense([24, 64, 16])
        self.text = dense([16, 64, 16])
        self.heat = nn.Parameter(torch.tensor(2.0))

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        one, other = F.normalize(self.image(a), dim=1), F.normalize(self.text(b), dim=1)
        return self.heat.exp() * one @ other.T


def train(
    seed: int,
    hook: Any,
    rate: float = 2e-3,
    steps: int = 1200,
    batch: int = 64,
    schedule: str = "constant",
    heat: float = 2.0,
    fixed_heat: bool = False,
    one_sided: bool = False,
    image_frozen: bool = False,
    fault: str = "",
    scale: float = 1.0,
) -> float:
    begin(seed)
    (a, b), (held_a, held_b) = pairs(6000, seed + 80), pairs(256, seed + 81)
    if fault == "shuffled":
        b = b[torch.randperm(len(b))]
    model = Towers()
    nn.init.constant_(model.heat, heat)
    model.heat.requires_grad_(not fixed_heat)
    model.image[0].requires_grad_(not image_frozen)
    chosen = model.text if fault == "left out" else model
    parameters = [p for p in chosen.parameters() if p.requires_grad]
    optimizer = optimizer_of("adamw", parameters, rate)
    scheduler = scheduler_of(optimizer, schedule, steps)
    hook.torch(model)
    for step in range(steps):
        rows = torch.randint(len(a), (batch,))
        x, y = a[rows], b[rows]
        if fault == "constant":
            x = x * 0
        scores, wanted = model(x * scale, y), torch.arange(batch)
        if fault == "softmax":
            scores = scores.softmax(1)
        if fault == "detached":
            scores = scores.detach() * model.heat
        loss = F.cross_entropy(scores, wanted)
        if not one_sided:
            loss = (loss + F.cross_entropy(scores.T, wanted)) / 2
        if fault == "pulled":
            loss = -torch.diagonal(scores).mean() / model.heat.detach().exp()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % 200 == 199:
            model.eval()
            with torch.no_grad():
                model(held_a, held_b)
            model.train()
    model.eval()
    with torch.no_grad():
        found = model(held_a * scale, held_b).argsort(1, descending=True)
    place = (found == torch.arange(256)[:, None]).double().argmax(1)
    return 1 - place.double().mean().item() / 127.5


CASES = cases(
    "contrastive",
    train,
    {
        "plain": {},
        "one-sided": {"one_sided": True},
        "temperature fixed": {"fixed_heat": True},
        "warm-up": {"schedule": "warmup", "rate": 4e-3},
        "batch of eight": {"batch": 8, "steps": 2400, "rate": 1e-3},
        "first layer frozen": {"image_frozen": True, "steps": 1500},
    },
    {
        "pairs shuffled": ("no-skill", {"fault": "shuffled"}),
        "images all the same": ("inputs no-skill", {"fault": "constant"}),
        "no negatives": ("collapse", {"fault": "pulled"}),
        "towers detached": ("no-gradient unbound no-skill", {"fault": "detached"}),
        "softmax before the loss": ("probabilities", {"fault": "softmax", "rate": 5e-5}),
        "rate x 1000": ("fast no-skill dead collapse", {"rate": 2.0}),
        "rate / 1000": ("slow no-skill", {"rate": 2e-6}),
        "inputs x 255": ("inputs worse", {"scale": 255.0, "rate": 3e-2}),
    },
)
