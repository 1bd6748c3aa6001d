"""A variational autoencoder: a reconstruction, and how far the code lies from normal."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import (
    begin,
    dense,
    explained,
    normal,
    optimizer_of,
    scheduler_of,
)
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIZE, CODE = 24, 3


def samples(count: int, seed: int) -> Tensor:
    hidden = normal(count, CODE, seed=seed)
    x = torch.tanh(hidden @ normal(CODE, SIZE, seed=81))
    return x + 0.1 * normal(count, SIZE, seed=seed + 1)


class Variational(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = dense([SIZE, 48, 2 * CODE])
        self.decoder = dense([CODE, 48, SIZE])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, spread = self.encoder(x).chunk(2, 1)
        code = mean + torch.randn_like(mean) * (spread / 2).exp() if self.training else mean
        return self.decoder(code), mean, spread


def train(
    seed: int, hook: Any, rate: float = 3e-3, steps: int = 1500, batch: int = 32,
    weight: float = 0.02, annealed: bool = False, schedule: str = "constant", fault: str = "",
    only: str = "", scale: float = 1.0, functional: bool = False,
) -> float:  # fmt: skip
    begin(seed)
    x, held = samples(5000, seed + 300), samples(600, seed + 302)
    model = Variational()
    chosen = [p for name, p in model.named_parameters() if only in name]
    optimizer = optimizer_of("adam", chosen, rate)
    scheduler = scheduler_of(optimizer, schedule, steps)
    criterion: Any = F.mse_loss if functional else nn.MSELoss()
    hook.torch(model)
    for step in range(steps):
        true = x[torch.randint(len(x), (batch,))]
        made, mean, spread = model(true * (scale if fault == "train" else 1))
        if fault == "others":
            true = true[torch.randperm(batch)]
        if fault == "range":
            made, true = made.sigmoid(), 30 * true
        beta = weight * min(1.0, 2 * step / steps) if annealed else weight
        apart = -0.5 * (1 + spread - mean.square() - spread.exp()).sum(1).mean()
        if fault == "wrong sign":
            apart = -apart
        loss = criterion(made.detach() if fault == "detached" else made, true) + beta * apart
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % 250 == 249:
            model.eval()
            with torch.no_grad():
                criterion(model(held * scale)[0], held)
            model.train()
    model.eval()
    with torch.no_grad():
        made = model(held * scale)[0]
    return explained(made, held) if bool(torch.isfinite(made).all()) else float("nan")


CASES = cases(
    "variational autoencoder",
    train,
    {
        "plain": {},
        "code annealed": {"annealed": True},
        "functional loss": {"functional": True},
        "restarts": {"schedule": "restarts", "rate": 5e-3},
        "batch of eight": {"batch": 8, "steps": 2500, "rate": 1e-3},
    },
    {
        "pictures of others": ("no-skill", {"fault": "others"}),
        "code collapses": ("collapse no-skill", {"weight": 20.0}),
        "reconstruction detached": ("no-gradient no-skill unbound", {"fault": "detached"}),
        "targets out of a sigmoid's range": ("range saturated", {"fault": "range"}),
        "wrong sign": ("worse no-skill", {"fault": "wrong sign"}),
        "decoder in no optimizer": ("unbound", {"only": "encoder.0"}),
        "evaluation x 255": ("inputs", {"scale": 255.0}),
        "rate x 1000": ("fast no-skill dead", {"rate": 3.0}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
    },
)
