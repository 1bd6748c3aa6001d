"""The state of a lift's door from one run of its motor: a GRU reads current and way, 24 times each.

The door is sound, has a worn roller, met something, hangs on a slack belt or runs on a dry rail.
The skill is the accuracy of other runs above that of the most frequent state.
"""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.detection.families.kit import begin, class_skill, normal
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

STATES, LENGTH = 5, 24
SHARE = torch.tensor([0.32, 0.17, 0.17, 0.17, 0.17])


def runs(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Milliamperes and millimetres (N, L, 2), and states; at the end each door is closed."""
    draw = torch.Generator().manual_seed(seed)
    state = torch.multinomial(SHARE, count, replacement=True, generator=draw)
    load, phase, met = (torch.rand(count, 1, generator=draw) for _ in range(3))
    t = torch.linspace(0, 1, LENGTH).expand(count, LENGTH)
    load, met = 0.8 + 0.4 * load, 0.3 + 0.45 * met
    late = torch.where(state == 3, 0.07, 0.0)[:, None]
    current = 900 * torch.exp(-(((t - 0.06 - late) / 0.05) ** 2)) + 450
    current = current + (state == 1)[:, None] * 120 * torch.sin(30 * t + 6.3 * phase)
    current = current + (state == 2)[:, None] * 380 * torch.exp(-(((t - met) / 0.04) ** 2))
    current = current + (state == 4)[:, None] * 330 * (t - 0.45)
    way = 900 / (1 + torch.exp(-9 * (t - 0.5 - 0.5 * late)))
    x = torch.stack([current * load, way], 2)
    x[:, -2:] = torch.tensor([40.0, 900.0])
    x = x + torch.tensor([35.0, 4.0]) * normal(count, LENGTH, 2, seed=seed + 1)
    return x, state


class DoorNet(nn.Module):
    def __init__(self, width: int = 24, kind: str = "gru", batch_first: bool = True) -> None:
        super().__init__()
        both = kind == "lstm"
        layer = nn.LSTM if both else nn.GRU
        self.rnn = layer(2, width, batch_first=batch_first, bidirectional=both)
        self.head = nn.Sequential(
            nn.Linear(width * (1 + both), 32), nn.ReLU(), nn.Linear(32, STATES)
        )

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.rnn(x)
        logits: Tensor = self.head(out.mean(1) if self.rnn.bidirectional else out[:, -1])
        return logits


def evaluate(
    model: nn.Module, loader: DataLoader[Any], criterion: nn.Module
) -> tuple[float, float]:
    """The mean loss, and the accuracy."""
    model.eval()
    total, right, seen = 0.0, 0, 0
    with torch.no_grad():
        for x, y in loader:
            logits = model(x)
            total += criterion(logits, y).item() * len(y)
            right += int((logits.argmax(1) == y).sum())
            seen += len(y)
    return total / seen, right / seen


def train(
    seed: int, hook: Any, rate: float = 5e-3, epochs: int = 32, batch: int = 32, count: int = 2000,
    optimizer: str = "Adam", kind: str = "gru", schedule: str = "", accumulate: int = 1,
    clip: float = 0.0, smoothing: float = 0.0, noise: float = 0.0, weights: bool = False,
    reduction: str = "mean", average: bool = False, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    (x, y), (held_x, held_y) = runs(count, 40 * seed + 4100), runs(400, 40 * seed + 4110)
    test_x, test_y = runs(1500, 40 * seed + 4120)
    mean, spread = x.mean((0, 1)), x.std((0, 1))
    x = (x - mean) / spread
    if fault != "normalised in training alone":
        held_x, test_x = (held_x - mean) / spread, (test_x - mean) / spread
    if fault == "runs shuffled without their states":
        x = x[torch.randperm(len(x))]
    wrong = torch.rand(count) < noise
    y = torch.where(wrong, torch.randint(STATES, (count,)), y)
    loader = DataLoader(TensorDataset(x, y), batch, shuffle=True)
    held = DataLoader(TensorDataset(held_x, held_y), 200)

    model = DoorNet(kind=kind, batch_first=fault != "batch first forgotten")
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99)) if average else None
    hook.torch(model)
    balance = len(y) / STATES / torch.bincount(y, minlength=STATES) if weights else None
    criterion = nn.CrossEntropyLoss(balance, reduction=reduction, label_smoothing=smoothing)
    more = {"momentum": 0.9} if optimizer == "SGD" and fault != "slow" else {}
    updates = getattr(torch.optim, optimizer)(model.parameters(), lr=rate, **more)
    total = epochs * -(-len(loader) // accumulate)
    scheduler: Any = None
    if schedule == "one cycle":
        scheduler = torch.optim.lr_scheduler.OneCycleLR(updates, rate, total_steps=total)
    if schedule == "restarts":
        scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(updates, total // 4)

    for _ in range(epochs):
        model.train()
        for number, (inputs, states) in enumerate(loader, 1):
            loss = criterion(model(inputs), states) / accumulate
            loss.backward()
            if number % accumulate and number < len(loader):
                continue
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            updates.step()
            if fault != "gradients never cleared":
                updates.zero_grad()
            if scheduler:
                scheduler.step()
            if averaged:
                averaged.update_parameters(model)
        evaluate(averaged or model, held, criterion)
    final = averaged or model
    final.eval()
    with torch.no_grad():
        return class_skill(final(test_x), test_y)


CASES = cases(
    "lift doors",
    train,
    {
        "plain": {},
        "both directions, one cycle": {"kind": "lstm", "schedule": "one cycle", "rate": 1e-2},
        "smoothed, some states wrong": {"smoothing": 0.1, "noise": 0.04},
        "batch of 500": {"batch": 500, "epochs": 110, "rate": 2e-2},
        "accumulated and clipped": {"accumulate": 2, "clip": 1.0, "rate": 8e-3},
        "loss summed, weights of states": {
            "reduction": "sum", "weights": True, "optimizer": "RMSprop", "rate": 3e-3,
        },
        "averaged weights, restarts": {"average": True, "schedule": "restarts", "rate": 1e-2},
    },
    {
        "gradients never cleared": (
            "kept-gradients fast worse", {"fault": "gradients never cleared"},
        ),
        "batch first forgotten": ("no-skill softmax-axis", {"fault": "batch first forgotten"}),
        "normalised in training alone": (
            "inputs worse overfit", {"fault": "normalised in training alone"},
        ),
        "runs shuffled without their states": (
            "no-skill overfit", {"fault": "runs shuffled without their states"},
        ),
        "rate of 0.3": ("fast worse no-skill saturated", {"rate": 0.3}),
        "SGD at 0.001": ("slow no-skill", {"optimizer": "SGD", "rate": 1e-3, "fault": "slow"}),
    },
)  # fmt: skip
