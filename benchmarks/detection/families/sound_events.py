"""Sound events in the frames of a spectrogram, several at a time, by a convolutional GRU.

Made-up recordings of 48 frames and 24 bands hold up to four events of five kinds: a horn, a chirp,
a click, a hiss and a hum. The skill is F1 over frames and kinds in other recordings.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of, scheduler_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.detection.case import cases

FRAMES, BANDS, KINDS = 48, 24, 5


def recording(draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Power (FRAMES, BANDS) and which kinds sound (FRAMES, KINDS)."""
    power = 0.05 * torch.rand(FRAMES, BANDS, generator=draw)
    sounds = torch.zeros(FRAMES, KINDS)
    for _ in range(int(torch.randint(1, 5, (1,), generator=draw))):
        kind, start, long, low = torch.randint(1000, (4,), generator=draw).tolist()
        kind, start, low = kind % KINDS, start % (FRAMES - 6), low % 8
        frames = torch.arange(start, min(FRAMES, start + (3 if kind == 2 else 6 + long % 16)))
        if kind == 0:
            power[frames[:, None], torch.tensor([low, low + 6, low + 12])] += 1.0
        elif kind == 1:
            power[frames, (low + frames - start).clamp(max=BANDS - 1)] += 1.5
        elif kind == 2:
            power[frames] += 0.6
        elif kind == 3:
            power[frames, BANDS // 2 :] += torch.rand(len(frames), BANDS // 2, generator=draw)
        else:
            power[frames, :3] += 0.8
        sounds[frames, kind] = 1.0
    power[:, :] *= 0.1 + torch.rand(1, generator=draw)
    return power, sounds


class Recordings(Dataset):
    def __init__(self, count: int, seed: int, decibels: bool = True, fault: str = "") -> None:
        draw = torch.Generator().manual_seed(seed)
        made = [recording(draw) for _ in range(count)]
        self.sounds = torch.stack([sounds for _, sounds in made])
        power = torch.stack([power for power, _ in made])
        if fault == "logarithm of silence":
            power[torch.rand(len(power), FRAMES, generator=draw) < 0.01] = 0.0
            self.x = (10 * power.log10() + 15) / 8
        else:
            self.x = (10 * (power + 1e-5).log10() + 15) / 8 if decibels else power * 1e3
        if fault == "labels of another hop":
            self.sounds = F.interpolate(self.sounds.mT, scale_factor=2).mT[:, :FRAMES]

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, at: int) -> dict[str, Tensor]:
        return {"spectrogram": self.x[at], "events": self.sounds[at]}


class Detector(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.MaxPool2d((1, 3)),
            nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.MaxPool2d((1, 2)),
        )  # fmt: skip
        self.recurrent = nn.GRU(channels * 4, 16, batch_first=True, bidirectional=True)
        self.answer = nn.Linear(32, KINDS)

    def forward(self, x: Tensor) -> Tensor:
        h = self.convolutions(x[:, None]).transpose(1, 2).flatten(2)
        scores: Tensor = self.answer(self.recurrent(h)[0])
        return scores


def train(
    seed: int, hook: Any, rate: float = 5e-3, epochs: int = 7, batch: int = 16,
    optimizer: str = "adam", loss: str = "binary", louder: float = 1.0,
    mixed: bool = False, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    of_training = fault if fault in ("logarithm of silence", "labels of another hop") else ""
    sounds = Recordings(700, seed + 8700, fault=of_training)
    held, test = (Recordings(n, seed + 8700 + n, fault != "powers later") for n in (100, 300))
    model = Detector(8)
    hook.torch(model)
    loader = DataLoader(sounds, batch, shuffle=True)
    updates = optimizer_of(optimizer, model.parameters(), rate, 1e-4)
    schedule = "one cycle" if optimizer == "momentum" else "constant"
    falls = scheduler_of(updates, schedule, epochs * len(loader))

    def loss_of(rows: dict[str, Tensor]) -> Tensor:
        x, wanted = rows["spectrogram"], rows["events"]
        if mixed and model.training:
            share, other = torch.rand(len(x), 1, 1) * 0.3, torch.randperm(len(x))
            x, wanted = x.lerp(x[other], share), wanted.lerp(wanted[other], share)
        scores = model(x)
        if loss == "focal":
            each = F.binary_cross_entropy_with_logits(scores, wanted, reduction="none")
            return ((1 - (-each).exp()) ** 2 * each).mean()
        if loss == "one kind a frame":
            return F.binary_cross_entropy(scores.softmax(1), wanted)
        scores = scores.sigmoid() if loss == "sigmoid twice" else scores
        weight = torch.full((KINDS,), louder)
        return F.binary_cross_entropy_with_logits(scores, wanted, pos_weight=weight)

    for _ in range(epochs):
        model.train()
        for rows in loader:
            updates.zero_grad()
            loss_of(rows).backward()
            updates.step()
            falls.step()
        model.eval()
        with torch.no_grad():
            for rows in DataLoader(held, 50):
                loss_of(rows)
    model.eval()
    with torch.no_grad():
        scores = model(test.x)
    if not bool(torch.isfinite(scores).all()):
        return math.nan
    found, real = scores > 0, test.sounds > 0.5
    return float(2 * (found & real).sum() / (found.sum() + real.sum()))


CASES = cases(
    "sound events",
    train,
    {
        "plain": {},
        "focal loss": {"loss": "focal"},
        "events weigh more": {"louder": 2.0},
        "recordings mixed": {"mixed": True, "epochs": 8},
        "one cycle of momentum": {"optimizer": "momentum", "rate": 0.3, "epochs": 9},
        "batch of eight": {"batch": 8, "epochs": 4, "rate": 3e-3},
    },
    {
        "logarithm of silence": ("not-finite", {"fault": "logarithm of silence"}),
        "labels of another hop": ("no-skill overfit", {"fault": "labels of another hop"}),
        "sigmoid twice": ("probabilities no-skill collapse", {"loss": "sigmoid twice"}),
        "softmax over frames": ("softmax-axis probabilities", {"loss": "one kind a frame"}),
        "powers later": ("inputs overfit", {"fault": "powers later"}),
    },
)
