"""The next half day of a solar plant's power, by a transformer over patches of the past (PatchTST).

Each window is brought to mean zero and deviation one by itself and taken back at the end, as in
reversible instance normalisation. Channels are two plants and the clouds over them. The skill is
the share of the variance of the hours to come that is explained, on days never seen.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, explained, normal
from torch import Tensor, nn

from benchmarks.detection.case import cases

CHANNELS, PAST, AHEAD, PATCH = 3, 48, 12, 8
PATCHES = PAST // PATCH


def record(hours: int, seed: int) -> Tensor:
    """Kilowatts of two plants and the share of clouds (hours, channels)."""
    t = torch.arange(hours)
    noise = normal(hours, CHANNELS, seed=seed)
    wave = torch.zeros(hours)
    for number, period in enumerate((31.0, 67.0, 113.0)):
        wave += torch.sin(2 * math.pi * t / period + seed + number)
    clouds = torch.sigmoid(wave + 0.1 * noise[:, 2])
    sun = torch.sin(2 * math.pi * (t % 24 - 6) / 24).clamp(min=0)
    near = 900 * sun * (1 - 0.7 * clouds) + 15 * noise[:, 0]
    far = 350 * sun * (1 - 0.7 * clouds.roll(3)) + 8 * noise[:, 1]
    return torch.stack([near, far, 100 * clouds], 1)


class PatchTransformer(nn.Module):
    def __init__(
        self, width: int = 32, layers: int = 1, dropout: float = 0.0, activation: str = "gelu",
        normalise: bool = True, last: nn.Module | None = None, spread: float = 0.02,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalise = normalise
        self.embed = nn.Linear(CHANNELS * PATCH, width)
        self.position = nn.Parameter(spread * torch.randn(PATCHES, width))
        layer = nn.TransformerEncoderLayer(
            width, 4, 2 * width, dropout, activation, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(PATCHES * width, CHANNELS * AHEAD)
        self.last = last or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        mean, deviation = x.mean(1, keepdim=True), x.std(1, keepdim=True) + 1e-3
        if self.normalise:
            x = (x - mean) / deviation
        patches = x.reshape(len(x), PATCHES, PATCH * CHANNELS)
        h = self.encoder(self.embed(patches) + self.position)
        y = self.last(self.head(h.flatten(1))).view(-1, AHEAD, CHANNELS)
        return y * deviation + mean if self.normalise else y


class Forecaster:
    """Trains, evaluates and keeps the best weights."""

    def __init__(self, model: nn.Module, criterion: nn.Module, optimizer: Any, scheduler: Any):
        self.model, self.criterion = model, criterion
        self.optimizer, self.scheduler = optimizer, scheduler
        self.best, self.kept = math.inf, copy.deepcopy(model.state_dict())

    def windows(self, data: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        rows = starts[:, None] + torch.arange(PAST + AHEAD)
        both = data[rows]
        return both[:, :PAST], both[:, PAST:]

    def step(self, x: Tensor, y: Tensor, clip: float, update: bool = True) -> None:
        self.model.train()
        loss = self.criterion(self.model(x), y)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), clip)
        self.optimizer.step()
        self.scheduler.step()
        if update:
            self.optimizer.zero_grad()

    @torch.no_grad()
    def evaluate(self, data: Tensor) -> float:
        self.model.eval()
        x, y = self.windows(data, torch.arange(0, len(data) - PAST - AHEAD, 7))
        loss: float = self.criterion(self.model(x), y).item()
        if loss < self.best:
            self.best, self.kept = loss, copy.deepcopy(self.model.state_dict())
        return loss


def train(
    seed: int, hook: Any, steps: int = 2000, rate: float = 2e-3, batch: int = 16, hours: int = 6000,
    optimizer: str = "adamw", schedule: str = "cosine", clip: float = 0.0, loss: str = "mse",
    dropout: float = 0.0, noise: float = 0.0, decay: float = 0.01, keep_best: bool = False,
    last: type[nn.Module] = nn.Identity, normalise: bool = True, evaluate_every: int = 200,
    frozen_until: int = 0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    known, held, test = (record(n, 4 * seed + n) for n in (hours, 701, 1502))
    center, spread = known.mean(0), known.std(0)
    if fault != "in kilowatts":
        known, held, test = ((part - center) / spread for part in (known, held, test))
    model = PatchTransformer(dropout=dropout, normalise=normalise, last=last())
    hook.torch(model)
    criterion = {"mse": nn.MSELoss(), "huber": nn.HuberLoss(), "mae": nn.L1Loss()}[loss]
    kinds = {"adamw": torch.optim.AdamW, "rmsprop": torch.optim.RMSprop, "sgd": torch.optim.SGD}
    head = list(model.head.parameters())
    body = [p for name, p in model.named_parameters() if "head" not in name]
    groups = [{"params": body}, {"params": head, "lr": rate / 2}]
    if fault == "head alone":
        groups = groups[1:]
    steering = kinds[optimizer](groups, lr=rate, weight_decay=decay)
    scheduler: Any = torch.optim.lr_scheduler.CosineAnnealingLR(steering, steps)
    if schedule == "linear warm-up":
        scheduler = torch.optim.lr_scheduler.LinearLR(steering, 0.01, 1.0, steps // 4)
    if schedule == "milestones":
        scheduler = torch.optim.lr_scheduler.MultiStepLR(steering, [steps // 2, 3 * steps // 4])
    if schedule == "rate grows":
        scheduler = torch.optim.lr_scheduler.ExponentialLR(steering, 1.005)
    trainer = Forecaster(model, criterion, steering, scheduler)
    for step in range(steps):
        if frozen_until:
            model.embed.requires_grad_(step >= frozen_until)
        x, y = trainer.windows(known, torch.randint(hours - PAST - AHEAD, (batch,)))
        if noise:
            x = x + noise * torch.randn_like(x)
        if fault == "targets of another window":
            y = y[torch.randperm(batch)]
        if fault == "hours reversed":
            y = y.flip(1)
        trainer.step(x, y, clip, update=fault != "gradients kept")
        if evaluate_every and (step + 1) % evaluate_every == 0:
            trainer.evaluate(held)
    if keep_best:
        model.load_state_dict(trainer.kept)
    model.eval()
    with torch.no_grad():
        x, y = trainer.windows(test, torch.arange(len(test) - PAST - AHEAD))
        said = model(x)
    if not bool(said.isfinite().all()):
        return math.nan
    return sum(explained(said[..., c], y[..., c]) for c in range(CHANNELS)) / CHANNELS


CASES = cases(
    "solar patches",
    train,
    {
        "plain": {},
        "RMSprop and milestones": {"optimizer": "rmsprop", "rate": 1.5e-3, "decay": 0.0,
                                   "schedule": "milestones"},
        "a quarter of warm-up, clipped": {"schedule": "linear warm-up", "clip": 0.5},
        "Huber, best weights kept": {"loss": "huber", "keep_best": True, "evaluate_every": 100},
        "noisy inputs": {"noise": 0.1, "dropout": 0.05},
        "embedding frozen at first": {"frozen_until": 500},
        "four windows at a time, not evaluated": {"batch": 4, "rate": 1e-3, "evaluate_every": 0,
                                                  "steps": 2500},
    },
    {
        "rectified at the end": ("range dead", {"last": nn.ReLU}),
        "in kilowatts": ("inputs no-skill fast slow", {"fault": "in kilowatts", "normalise": False,
                                                       "optimizer": "sgd", "rate": 1e-2}),
        "targets of another window": ("no-skill", {"fault": "targets of another window"}),
        "rate grows": ("schedule fast worse", {"schedule": "rate grows"}),
        "gradients kept": ("kept-gradients fast worse", {"fault": "gradients kept",
                                                         "optimizer": "sgd", "rate": 2e-2}),
        "four days": ("overfit", {"hours": 96, "decay": 0.0}),
    },
)  # fmt: skip
