"""A siamese network verifies signatures of writers it never saw, by contrastive loss by hand."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of
from sklearn.metrics import roc_curve
from torch import Tensor, nn

from benchmarks.detection.case import cases

POINTS, PER_WRITER, WAVES = 32, 16, 3


def strokes(writers: int, seed: int) -> Tensor:
    """Signatures as paths of a pen, (writers, PER_WRITER, 2, POINTS), in pixels of 0 to 255."""
    draw = torch.Generator().manual_seed(seed)
    angle = torch.linspace(0, 2 * math.pi, POINTS)
    basis = torch.stack([f((k + 1) * angle) for k in range(WAVES) for f in (torch.sin, torch.cos)])
    own = torch.randn(writers, 1, 2, 2 * WAVES, generator=draw)
    hand = own + 0.4 * torch.randn(writers, PER_WRITER, 2, 2 * WAVES, generator=draw)
    path = hand @ basis + 0.3 * torch.randn(writers, PER_WRITER, 2, POINTS, generator=draw)
    return 127 + 30 * path


class Pairs(torch.utils.data.Dataset):
    """Draws a genuine pair, or two of different writers; the label of a genuine pair is 1."""

    def __init__(
        self, images: Tensor, count: int, genuine: float = 0.5, fault: str = "", noise: float = 0.0
    ) -> None:
        self.images, self.count, self.genuine = images, count, genuine
        self.fault, self.noise = fault, noise

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        writers = len(self.images)
        same = random.random() < self.genuine
        first = random.randrange(writers)
        second = first if same else (first + random.randrange(1, writers)) % writers
        one, two = random.sample(range(PER_WRITER), 2)
        label = float(same)
        if self.fault == "genuine is zero":
            label = 1 - label
        if random.random() < self.noise:
            label = float(random.random() < 0.5)
        a, b = self.images[first, one], self.images[second, two]
        return a, b, torch.tensor(label)


class Encoder(nn.Module):
    def __init__(self, size: int = 16) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(2, 16, 5, 2, 2), nn.Conv1d(16, 32, 3, 2, 1)
        self.norm = nn.BatchNorm1d(16)
        self.fc1, self.fc2 = nn.Linear(32 * POINTS // 4, 64), nn.Linear(64, size)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.conv1(x)))
        x = F.relu(self.conv2(x)).flatten(1)
        y: Tensor = self.fc2(F.relu(self.fc1(x)))
        return y


def contrastive(a: Tensor, b: Tensor, y: Tensor, margin: float, fault: str = "") -> Tensor:
    distance = ((a - b).pow(2).sum(1) + 1e-9).sqrt()
    if fault == "labels as a column":
        y = y[:, None]
    return (y * distance**2 + (1 - y) * F.relu(margin - distance) ** 2).mean()


def train(
    seed: int, hook: Any, rate: float = 1e-3, epochs: int = 6, batch: int = 32,
    optimizer: str = "adam", margin: float = 2.0, genuine: float = 0.5,
    size: int = 16, unit: bool = False, loss: str = "",
    factor: float = 1.0, noise: float = 0.0, clip: float = 0.0, schedule: str = "",
    frozen: bool = False, writers: int = 120, fault: str = "",
    per_epoch: int = 2560,
) -> float:  # fmt: skip
    begin(seed)
    random.seed(seed)
    images, new = strokes(writers, seed + 720), strokes(60, seed + 721)
    images, new = (images - 127) / 30, (new - 127) / 30
    if fault == "a pen without ink":
        images[5, 3, :, 7] = float("nan")
    loader = torch.utils.data.DataLoader(Pairs(images, per_epoch, genuine, fault, noise), batch)
    random.seed(99)
    test = list(torch.utils.data.DataLoader(Pairs(new, 1000), 500))
    random.seed(seed)
    net = Encoder(size)
    if frozen:
        net.conv1.requires_grad_(False)
    if fault == "zero start":
        for p in net.parameters():
            nn.init.zeros_(p)
    trained = [p for p in net.parameters() if p.requires_grad]
    opt = optimizer_of(optimizer, trained, rate)
    steps = epochs * len(loader)
    gamma = 0.05 ** (1 / steps) if schedule == "exponential" else 0.9
    plan = torch.optim.lr_scheduler.ExponentialLR(opt, gamma)
    if schedule == "restarts":
        plan = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, max(1, steps // 4))

    def embed(x: Tensor) -> Tensor:
        y: Tensor = net(x)
        return F.normalize(y, dim=1) if unit else y

    def verify() -> tuple[float, float]:
        """The loss, and the equal error rate."""
        net.eval()
        losses, distances, labels = [], [], []
        with torch.no_grad():
            for a, b, y in test:
                a, b = embed(a), embed(b)
                losses.append(contrastive(a, b, y, margin).item())
                distances.append((a - b).norm(dim=1).numpy())
                labels.append(y.numpy())
        distance = np.concatenate(distances)
        if not np.isfinite(distance).all():
            return math.nan, math.nan
        wrong, right, _ = roc_curve(np.concatenate(labels), -distance)
        place = np.nanargmin(np.abs(1 - right - wrong))
        return float(np.mean(losses)), float((wrong[place] + 1 - right[place]) / 2)

    hook.torch(net)
    for _epoch in range(epochs):
        net.train()
        for a, b, y in loader:
            opt.zero_grad()
            left, right = embed(a), embed(b)
            if loss == "cosine":
                value = F.cosine_embedding_loss(left, right, 2 * y - 1, margin=0.3)
            elif loss == "logistic":
                value = F.binary_cross_entropy_with_logits(4 - (left - right).pow(2).sum(1), y)
            else:
                value = contrastive(left, right, y, margin, fault)
            (value * factor).backward()
            if clip:
                nn.utils.clip_grad_norm_(net.parameters(), clip)
            opt.step()
            if schedule:
                plan.step()
        verify()
    return 1 - 2 * verify()[1]


CASES = cases(
    "signature verification",
    train,
    {
        "plain": {},
        "cosine": {"loss": "cosine"},
        "logistic of the distance": {"loss": "logistic"},
        "on the unit sphere": {"unit": True, "margin": 1.0},
        "wide margin": {"margin": 10.0, "rate": 2e-3},
        "one genuine of four": {"genuine": 0.25},
        "momentum": {"optimizer": "momentum", "rate": 0.02, "clip": 1.0},
        "batch of four": {"batch": 4, "rate": 3e-4, "per_epoch": 1000},
        "batch of 512": {"batch": 512, "rate": 5e-3},
        "labels with noise": {"noise": 0.05},
        "loss times 10000": {"factor": 1e4},
        "rate decays": {"schedule": "exponential", "rate": 3e-3},
        "restarts": {"schedule": "restarts", "rate": 2e-3},
        "first layer frozen": {"frozen": True},
    },
    {
        "genuine is zero": ("worse no-skill", {"fault": "genuine is zero"}),
        "labels as a column": ("broadcast no-skill collapse", {"fault": "labels as a column"}),
        "genuine pairs only": ("collapse imbalance no-skill", {"genuine": 1.0}),
        "labels drawn again": ("no-skill collapse", {"noise": 1.0}),
        "four writers": ("overfit", {"writers": 4}),
        "margin of nothing": ("collapse no-skill", {"margin": 0.0}),
        "a pen without ink": ("not-finite", {"fault": "a pen without ink"}),
        "zero start": ("no-gradient dead collapse no-skill", {"fault": "zero start"}),
        "rate x 1000": ("fast no-skill collapse dead", {"rate": 1.0}),
    },
)  # fmt: skip
