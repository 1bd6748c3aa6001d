"""Lightning: bands of tomorrow's energy, three quantiles an hour, by a temporal convolution.

From two days of a house's load, and the weather of tomorrow. The skill is the share of the pinball
loss that is saved, beside quantiles of each hour that are the same on all days.
"""

from __future__ import annotations

import logging
import math
import warnings
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, scheduler_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

PAST, AHEAD = 48, 12
LEVELS = torch.tensor([0.1, 0.5, 0.9])


def house(days: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Pasts (N, 2, PAST) of load and cold, colds to come (N, AHEAD), loads to come (N, AHEAD)."""
    draw = torch.Generator().manual_seed(seed)
    count = days * 24
    hour = torch.arange(count).float()
    cold = torch.zeros(days + 2)
    for day in range(1, days + 2):
        cold[day] = 0.85 * cold[day - 1] + 0.7 * torch.randn((), generator=draw)
    daily = cold.repeat_interleave(24)[:count] + 0.6 * (2 * math.pi * hour / 24).cos()
    away = (torch.rand(days + 2, generator=draw) < 0.3).float().repeat_interleave(24)[:count]
    habit = 1.2 * (2 * math.pi * hour / 24 - 2.2).sin() + 0.7 * (4 * math.pi * hour / 24).sin()
    load = 4 + habit * (1 - 0.8 * away) + 1.1 * daily + 0.5 * torch.relu(daily) ** 2
    load = load + (0.15 + 0.1 * habit.abs()) * torch.randn(count, generator=draw)
    starts = torch.arange(0, count - PAST - AHEAD, 3)
    past = starts[:, None] + torch.arange(PAST)
    later = starts[:, None] + PAST + torch.arange(AHEAD)
    return torch.stack([load[past], daily[past]], 1), daily[later], load[later]


def pinball(found: Tensor, wanted: Tensor, levels: Tensor) -> Tensor:
    """Of quantiles (N, AHEAD, 3); ``wanted`` has a last dimension too."""
    short = wanted - found
    return torch.maximum(levels * short, (levels - 1) * short).mean()


class Block(nn.Module):
    def __init__(self, width: int, reach: int) -> None:
        super().__init__()
        self.ahead = nn.ConstantPad1d((2 * reach, 0), 0.0)
        self.convolution = nn.Conv1d(width, width, 3, dilation=reach)

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = x + self.convolution(self.ahead(x)).relu()
        return h


class Bands(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(2, width, 1)
        self.blocks = nn.Sequential(*(Block(width, reach) for reach in (1, 6)))
        self.head = nn.Sequential(
            nn.Linear(2 * width + AHEAD, 48), nn.ReLU(), nn.Linear(48, AHEAD * 3)
        )

    def forward(self, past: Tensor, cold: Tensor) -> Tensor:
        h = self.blocks(self.first(past))
        h = torch.cat([h[..., -1], h[..., -24], cold], 1)
        bands: Tensor = self.head(h).unflatten(1, (AHEAD, 3))
        return bands


def train(
    seed: int, hook: Any, rate: float = 2e-3, epochs: int = 10, batch: int = 12, days: int = 305,
    schedule: str = "constant", clip: float | None = None, smooth: bool = False,
    validated: bool = True, times: float = 1.0, fault: str = "",
) -> float:  # fmt: skip
    import lightning

    begin(seed)
    for name in ("lightning", "lightning.pytorch", "lightning.pytorch.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    levels = LEVELS * 100 if fault == "levels in hundredths" else LEVELS
    parts = [house(size, seed + 9200 + n) for n, size in enumerate((days, 40, 120))]
    if fault == "loads in another order":
        past, cold, load = parts[0]
        parts[0] = past, cold, load[torch.randperm(len(load))]
    if fault == "weather with another sign":
        for n in (1, 2):
            past, cold, load = parts[n]
            parts[n] = torch.stack([past[:, 0], -past[:, 1]], 1), -cold, load

    def error_of(found: Tensor, load: Tensor) -> Tensor:
        if fault == "hours against quantiles":  # the median is held against all, in a new shape
            found = found.flatten(1)[:, None]
            return (found - load[..., None]).abs().mean()
        error = pinball(found, load[..., None], levels)
        if smooth:
            error = error + 0.02 * ((found - load[..., None]) ** 2).mean()
        return error

    class Forecast(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = Bands(12)

        def forward(self, past: Tensor, cold: Tensor) -> Tensor:
            past = (past - torch.tensor([[4.0], [0.0]])) / 2
            out: Tensor = self.net(past, cold) + 4
            return out

        def training_step(self, rows: Any, number: int) -> Any:
            past, cold, load = rows
            loss = error_of(self(past, cold), load) * times
            self.log("train_loss", loss)
            return loss

        def validation_step(self, rows: Any, number: int) -> None:
            past, cold, load = rows
            self.log("val_loss", error_of(self(past, cold), load))

        def configure_optimizers(self) -> Any:
            updates = torch.optim.Adam(self.parameters(), lr=rate)
            if fault == "rate falls at each batch":
                planned: Any = torch.optim.lr_scheduler.StepLR(updates, 1, gamma=0.9)
            else:
                planned = scheduler_of(updates, schedule, epochs * len(loader))
            return [updates], [{"scheduler": planned, "interval": "step"}]

    loader: Any = DataLoader(TensorDataset(*parts[0]), batch, shuffle=True)
    forecast = Forecast()
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=[hook.lightning()], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        gradient_clip_val=clip, check_val_every_n_epoch=3,
        limit_val_batches=1.0 if validated else 0,
    )  # fmt: skip
    trainer.fit(forecast, loader, DataLoader(TensorDataset(*parts[1]), 160))
    forecast.eval()
    past, cold, load = parts[2]
    with torch.no_grad():
        mine = pinball(forecast(past, cold), load[..., None], LEVELS).item()
    same = load.quantile(LEVELS, 0).T.expand(len(load), -1, -1)
    saved: float = 1 - mine / pinball(same, load[..., None], LEVELS).item()
    return saved


CASES = cases(
    "energy bands",
    train,
    {
        "plain": {},
        "warm-up, clipped": {"schedule": "warmup", "rate": 4e-3, "clip": 0.1},
        "a squared part": {"smooth": True},
        "loss x 10000, not validated": {"times": 1e4, "validated": False},
    },
    {
        "levels in hundredths": ("worse range no-skill", {"fault": "levels in hundredths"}),
        "hours against quantiles": ("broadcast no-skill", {"fault": "hours against quantiles"}),
        "loads in another order": ("no-skill overfit", {"fault": "loads of a window before"}),
        "weather with another sign": ("inputs overfit", {"fault": "weather with another sign"}),
        "rate falls at each batch": ("schedule slow", {"fault": "rate falls at each batch"}),
    },
)
