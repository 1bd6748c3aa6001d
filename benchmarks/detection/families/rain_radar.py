"""Rain of the next minutes by a convolutional LSTM, with Lightning.

Radar pictures show showers that drift, grow and fade. Four pictures go in, and the network goes on
by itself for three more. Rain is in millimetres an hour, and most pixels are dry. The skill is the
share of the variance of the next three pictures that is explained, in other weather.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, explained, optimizer_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

SIDE, SEEN, NEXT = 12, 4, 3
MISSING = 255.0


def weather(count: int, seed: int) -> Tensor:
    """Rain (count, SEEN + NEXT, SIDE, SIDE): two showers that drift with one wind."""
    draw = torch.Generator().manual_seed(seed)
    time = torch.arange(SEEN + NEXT).float()
    wind = 0.7 * torch.randn(2, count, 1, generator=draw)
    place = torch.arange(SIDE).float()
    rain = torch.zeros(count, SEEN + NEXT, SIDE, SIDE)
    for _ in range(2):
        of = torch.rand(4, count, 1, generator=draw)
        across = SIDE * of[0] + wind[0] * (time - 3)
        down = SIDE * of[1] + wind[1] * (time - 3)
        strength = (4 + 14 * of[2]) * (0.15 * (of[3] - 0.5) * (time - 3)).exp()
        far = (place - across[..., None])[:, :, None] ** 2 + (place - down[..., None])[
            ..., None
        ] ** 2
        rain += strength[..., None, None] * (-far / 5).exp()
    rain = rain * torch.exp(0.1 * torch.randn(rain.shape, generator=draw)) - 0.5
    return rain.clamp(min=0)


class Cell(nn.Module):
    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.gates = nn.Conv2d(inputs + width, 4 * width, 3, padding=1)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        into, forget, out, new = self.gates(torch.cat([x, state[0]], 1)).chunk(4, 1)
        memory = (forget + 1).sigmoid() * state[1] + into.sigmoid() * new.tanh()
        return out.sigmoid() * memory.tanh(), memory


class Nowcast(nn.Module):
    def __init__(self, width: int, last: str, residual: bool) -> None:
        super().__init__()
        self.width, self.last, self.residual = width, last, residual
        self.cell = Cell(1, width)
        self.head = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, seen: Tensor, given: Tensor | None = None) -> Tensor:
        """Of pictures (N, SEEN, SIDE, SIDE) those that follow; ``given`` are fed if there are."""
        h = torch.zeros(len(seen), self.width, SIDE, SIDE)
        state = (h, h)
        found: list[Tensor] = []
        for time in range(SEEN + NEXT - 1):
            if time < SEEN:
                x = seen[:, time, None]
            else:
                x = found[-1] if given is None else given[:, time - SEEN, None]
            state = self.cell(x, state)
            if time >= SEEN - 1:
                out = self.head(state[0]) + (x if self.residual else 0)
                found.append(out.sigmoid() if self.last == "sigmoid" else out)
        return torch.cat(found, 1)


def train(
    seed: int, hook: Any, rate: float = 1e-2, epochs: int = 5, batch: int = 8, width: int = 12,
    loss: str = "squares", unit: float = 10.0, last: str = "", residual: bool = False,
    optimizer: str = "adam", decay: float = 0.0, teacher: float = 0.0, clip: float | None = None,
    count: int = 800, precision: str = "32-true", fault: str = "",
) -> float:  # fmt: skip
    import lightning

    begin(seed)
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    data, held, test = (weather(n, seed + 730 + i) for i, n in enumerate((count, 64, 200)))
    if fault == "missing values kept":
        data[torch.rand(data.shape) < 0.04] = MISSING
    if fault == "pictures from anywhere":
        data[:, SEEN:] = data[torch.randperm(count), SEEN:]

    def scaled(rain: Tensor, later: bool = False) -> Tensor:
        if fault == "logarithm in training alone":
            return rain if later else rain.log1p()
        return rain / unit

    class Rain(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = Nowcast(width, last, residual)

        def error(self, rain: Tensor, later: bool) -> Tensor:
            rain = scaled(rain, later)
            if fault == "time and rows mixed" and not later:
                rain = rain.transpose(0, 1).reshape(rain.shape)
            seen, wanted = rain[:, :SEEN], rain[:, SEEN:]
            fed = not later and float(torch.rand(())) < teacher
            found = self.net(seen, wanted if fed else None)
            if loss == "weighted":
                return ((1 + wanted) * (found - wanted).abs()).mean()
            if loss == "summed":
                return (found - wanted).square().sum((1, 2, 3)).mean()
            return F.mse_loss(found, wanted)

        def training_step(self, rows: Any, number: int) -> Tensor:
            return self.error(rows[0], later=False)

        def validation_step(self, rows: Any, number: int) -> None:
            self.log("val_loss", self.error(rows[0], later=True))

        def configure_optimizers(self) -> Any:
            return optimizer_of(optimizer, self.parameters(), rate, decay)

    model = Rain()
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=[hook.lightning()], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        gradient_clip_val=clip, precision=precision,
    )  # fmt: skip
    loader = DataLoader(TensorDataset(data), batch, shuffle=True)
    trainer.fit(model, loader, DataLoader(TensorDataset(held), 64))
    model.eval()
    with torch.no_grad():
        found = model.net(scaled(test[:, :SEEN], True))
    found = found if fault == "logarithm in training alone" else found * unit
    return explained(found, test[:, SEEN:])


CASES = cases(
    "rain radar",
    train,
    {
        "plain": {},
        "heavier rain weighs more": {"loss": "weighted"},
        "summed, clipped": {"loss": "summed", "clip": 5.0, "epochs": 6},
        "changes predicted": {"residual": True},
        "fed with the truth at times": {"teacher": 0.4},
        "AdamW, bfloat16": {"optimizer": "adamw", "decay": 0.01, "precision": "bf16-mixed"},
    },
    {
        "time and rows mixed": ("inputs no-skill overfit", {"fault": "time and rows mixed"}),
        "missing values kept": ("range inputs no-skill", {"fault": "missing values kept"}),
        "sigmoid at the end": ("range saturated", {"last": "sigmoid", "unit": 1.0}),
        "logarithm in training alone": (
            "inputs overfit",
            {"fault": "logarithm in training alone"},
        ),
        "pictures from anywhere": ("no-skill overfit", {"fault": "pictures from anywhere"}),
    },
)
