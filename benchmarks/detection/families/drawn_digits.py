"""Small pictures of digits from what they should show: a convolutional decoder, without adversary.

The digit, its slant, place and thickness are given. The loss is that of pixels and a perceptual
one: distances between features of a small classifier, trained before and frozen. The skill is the
share of the pixels' variance around the mean picture that is explained.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, scheduler_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

SIZE = 16
SEGMENTS = ("abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg")
ENDS = {
    "a": (-1, -2, 1, -2), "b": (1, -2, 1, 0), "c": (1, 0, 1, 2), "d": (-1, 2, 1, 2),
    "e": (-1, 0, -1, 2), "f": (-1, -2, -1, 0), "g": (-1, 0, 1, 0),
}  # fmt: skip


def digits(count: int, seed: int, noise: float = 0.0) -> tuple[Tensor, Tensor, Tensor]:
    """The digit, its style (N, 4), and its picture (N, 1, SIZE, SIZE) from 0 to 1."""
    draw = torch.Generator().manual_seed(seed)
    digit = torch.randint(10, (count,), generator=draw)
    style = 2 * torch.rand(count, 4, generator=draw) - 1
    slant, across, down, thick = style.T[:, :, None, None]
    grid = torch.linspace(-3.2, 3.2, SIZE)
    y = grid[:, None] - 0.7 * down
    x = grid[None, :] - 0.7 * across + 0.3 * slant * y
    nearest = torch.full((count, SIZE, SIZE), 9.0)
    for name, (x0, y0, x1, y1) in ENDS.items():
        along = torch.stack([x.expand_as(nearest) - x0, y.expand_as(nearest) - y0], -1)
        way = torch.tensor([float(x1 - x0), float(y1 - y0)])
        done = ((along @ way) / (way @ way)).clamp(0, 1)
        distance = (along - done[..., None] * way).norm(dim=-1)
        drawn = torch.tensor([name in segments for segments in SEGMENTS])[digit]
        nearest = torch.where(drawn[:, None, None], torch.minimum(nearest, distance), nearest)
    picture = torch.sigmoid((0.45 + 0.2 * thick - nearest) * 8)
    picture = picture + noise * torch.randn(count, SIZE, SIZE, generator=draw)
    return digit, style, picture.clamp(0, 1)[:, None]


def classifier(seed: int) -> nn.Sequential:
    """Its first layers give the features."""
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * 16, 10),
    )  # fmt: skip
    digit, _, picture = digits(1000, 4 * seed + 3)
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for rows in torch.randint(1000, (60, 32)):
        optimizer.zero_grad()
        F.cross_entropy(net(picture[rows]), digit[rows]).backward()
        optimizer.step()
    return net[:4].requires_grad_(False).eval()


class Decoder(nn.Module):
    def __init__(self, upsampled: bool, fault: str) -> None:
        super().__init__()
        self.digit = nn.Embedding(10, 12)
        self.start = nn.Linear(16, 24 * 4 * 4)

        def larger(inputs: int, outputs: int) -> nn.Module:
            if upsampled:
                return nn.Sequential(
                    nn.Upsample(scale_factor=2), nn.Conv2d(inputs, outputs, 3, 1, 1)
                )
            return nn.ConvTranspose2d(inputs, outputs, 4, 2, 1)

        self.grow = nn.Sequential(
            nn.ReLU(),
            larger(24, 16),
            nn.ReLU(),
            larger(16, 12),
            nn.ReLU(),
            nn.Conv2d(12, 1, 3, 1, 1),
        )

        if fault == "sigmoid twice":
            self.grow.append(nn.Sigmoid())

    def forward(self, digit: Tensor, style: Tensor) -> Tensor:
        start = self.start(torch.cat([self.digit(digit), style], 1))
        drawn: Tensor = self.grow(start.unflatten(1, (24, 4, 4)))
        return drawn


def train(
    seed: int, hook: Any, pixels: str = "squared", perceptual: float = 0.1, epochs: int = 5,
    batch: int = 16, rate: float = 3e-3, schedule: str = "constant", upsampled: bool = False,
    autocast: bool = False, noise: float = 0.0, late: bool = False, count: int = 2000,
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    features = classifier(seed)
    known, held, test = (
        digits(n, 4 * seed + i, level)
        for i, (n, level) in enumerate([(count, noise), (128, 0), (500, 0)])
    )
    if fault == "digits of other pictures":
        known = (known[0].roll(5), known[1].roll(5, 0), known[2])
    decoder = Decoder(upsampled, fault)
    hook.torch(decoder)
    owner = features if fault == "optimizer of the features" else decoder
    steering = torch.optim.Adam(owner.parameters(), rate)
    loader = DataLoader(TensorDataset(*known), batch, shuffle=True)
    scheduler = scheduler_of(steering, schedule, epochs * len(loader))
    weight = 0.0 if late else perceptual

    def loss_of(digit: Tensor, style: Tensor, real: Tensor) -> Tensor:
        logits = decoder(digit, style).float()
        drawn = logits.sigmoid()
        if fault == "bytes":
            real = real * 255
        if fault == "channel lost":
            real = real.squeeze(1)
        if pixels == "cross-entropy":
            error = F.binary_cross_entropy_with_logits(logits, real)
        elif pixels == "absolute":
            error = F.l1_loss(drawn, real)
        else:
            error = F.mse_loss(drawn, real)
        if fault == "channel lost":
            return error
        away = F.mse_loss(features(drawn), features(real))
        return error - away if fault == "sign of the perceptual loss" else error + weight * away

    for epoch in range(epochs):
        if late and epoch == epochs // 2:
            weight = perceptual
        decoder.train()
        for part in loader:
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                error = loss_of(*part)
            if fault != "gradients kept":
                steering.zero_grad()
            error.backward()
            steering.step()
            scheduler.step()
        decoder.eval()
        with torch.no_grad():
            loss_of(*held)
    decoder.eval()
    digit, style, real = test
    with torch.no_grad():
        drawn = decoder(digit, style).sigmoid()
    missed = ((drawn - real) ** 2).mean() / ((real - real.mean(0)) ** 2).mean()
    return 1 - missed.item() if bool(drawn.isfinite().all()) else math.nan


CASES = cases(
    "drawn digits",
    train,
    {
        "plain": {},
        "upsampled instead of transposed": {"upsampled": True},
        "cross-entropy of grey": {"pixels": "cross-entropy"},
        "perceptual loss comes later": {"late": True, "perceptual": 1.0, "epochs": 6},
        "batch of four": {"batch": 4, "epochs": 2, "rate": 2e-3},
        "noisy pictures, autocast": {"noise": 0.15, "autocast": True},
        "one cycle of the rate": {"schedule": "one cycle", "rate": 1e-2},
    },
    {
        "digits of other pictures": (
            "no-skill collapse overfit",
            {"fault": "digits of other pictures"},
        ),
        "channel lost": ("broadcast collapse", {"fault": "channel lost"}),
        "bytes": ("range saturated", {"fault": "bytes"}),
        "sigmoid twice": ("probabilities range saturated", {"fault": "sigmoid twice"}),
        "sign of the perceptual loss": ("worse range", {"fault": "sign of the perceptual loss"}),
        "gradients kept": ("kept-gradients fast", {"fault": "gradients kept"}),
        "forty pictures": ("overfit", {"count": 40, "epochs": 250}),
    },
)
