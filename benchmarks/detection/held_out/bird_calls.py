"""Six birds told apart by a small spectrogram: a convolutional network, data loaders."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases
from benchmarks.detection.kit import begin
from benchmarks.detection.skill import class_skill

BANDS, FRAMES, BIRDS = 16, 20, 6


def calls(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """A call begins at some time; its pitch rises, falls or trills, low or high."""
    draw = torch.Generator().manual_seed(seed)
    bird = torch.randint(BIRDS, (count,), generator=draw)
    time = torch.arange(FRAMES) - torch.randint(8, (count, 1), generator=draw)
    shape = torch.stack([time * 0.5, -time * 0.5, 2.5 * torch.sin(time * 1.5)])[
        bird % 3, torch.arange(count)
    ]
    pitch = torch.where(bird[:, None] < 3, 4.0, 10.0) + shape
    power = torch.exp(-((torch.arange(BANDS)[:, None] - pitch[:, None]) ** 2) / 2)
    power = power * ((time >= 0) & (time < 12))[:, None]
    return (power + 0.35 * torch.rand(power.shape, generator=draw))[:, None], bird


def train(seed: int, hook: Any, rate: float = 3e-3, epochs: int = 8, batch: int = 32,
          decibels: bool = False, dropout: float = 0.0, fault: str = "") -> float:  # fmt: skip
    begin(seed)
    (x, y), (held_x, held_y) = calls(1500, seed + 4000), calls(400, seed + 4001)
    if decibels:
        x, held_x = ((part + 1e-3).log10() / 2 + 0.5 for part in (x, held_x))
    if fault == "silence not padded":
        x, held_x = x.log() * (x > 0.3), held_x.log() * (held_x > 0.3)
        x[::50, 0, 0] = -float("inf")
    if fault == "names sorted, files not":
        y = y.sort().values
    if fault == "twelve calls":
        x, y, epochs = x[:12], y[:12], 400
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(),
        nn.AdaptiveAvgPool2d((4, 1)), nn.Flatten(), nn.Dropout(dropout), nn.Linear(96, BIRDS),
    )  # fmt: skip
    if fault == "softmax in the model":
        model.append(nn.Softmax(1))
    hook.torch(model)
    optimizer = torch.optim.Adam(model.parameters(), rate)
    criterion = nn.CrossEntropyLoss()
    for _ in range(epochs):
        model.train()
        for inputs, labels in DataLoader(TensorDataset(x, y), batch, shuffle=True):
            optimizer.zero_grad()
            criterion(model(inputs), labels).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for inputs, labels in DataLoader(TensorDataset(held_x, held_y), 200):
                criterion(model(inputs), labels)
    with torch.no_grad():
        return class_skill(model(held_x), held_y)


CASES = cases(
    "bird calls",
    train,
    {
        "plain": {},
        "decibels": {"decibels": True},
        "dropout": {"dropout": 0.3, "epochs": 10},
        "large batches": {"batch": 128, "epochs": 14, "rate": 6e-3},
    },
    {
        "silence not padded": ("not-finite", {"fault": "silence not padded"}),
        "names sorted, files not": ("no-skill overfit", {"fault": "names sorted, files not"}),
        "rate of 1e-6": ("slow no-skill", {"rate": 1e-6}),
        "twelve calls": ("overfit", {"fault": "twelve calls"}),
        "softmax in the model": (
            "probabilities no-skill slow", {"fault": "softmax in the model", "rate": 1e-4},
        ),
    },
)  # fmt: skip
