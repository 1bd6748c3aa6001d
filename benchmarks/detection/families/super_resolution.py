"""Small pictures upscaled by two with sub-pixel convolutions; PSNR beside bicubic's."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of, scheduler_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

SIDE = 24


def photos(count: int, seed: int) -> Tensor:
    """Pictures in [0, 1], (N, 1, SIDE, SIDE): gratings and polygons with sharp edges."""
    draw = torch.Generator().manual_seed(seed)

    def uniform(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(count, 1, 1, generator=draw)

    rows = torch.arange(SIDE).view(1, -1, 1) / SIDE
    columns = torch.arange(SIDE).view(1, 1, -1) / SIDE
    image = 0.5 + uniform(-0.2, 0.2) * (rows - 0.5) + uniform(-0.2, 0.2) * columns
    for _ in range(3):
        turn = uniform(0, 2 * math.pi)
        at = torch.cos(turn) * (rows - uniform(0.2, 0.8)) + torch.sin(turn) * (
            columns - uniform(0.2, 0.8)
        )
        image = image + uniform(-0.35, 0.35) * (at > 0)
    turn = uniform(0, math.pi)
    along = torch.cos(turn) * rows + torch.sin(turn) * columns
    image = image + 0.12 * torch.sin(2 * math.pi * uniform(3, 7) * along + uniform(0, 6))
    return image.clamp(0, 1).unsqueeze(1)


def shrink(high: Tensor) -> Tensor:
    return F.avg_pool2d(high, 2)


class ResidualBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        changed: Tensor = self.conv2(F.relu(self.conv1(x)))
        return x + changed


class TinyEDSR(nn.Module):
    """Learns what bicubic interpolation lacks."""

    def __init__(self, width: int, blocks: int, skip: bool, last: str) -> None:
        super().__init__()
        self.head = nn.Conv2d(1, width, 3, padding=1)
        self.body = nn.Sequential(*[ResidualBlock(width) for _ in range(blocks)])
        self.tail = nn.Conv2d(width, 4, 3, padding=1)
        self.shuffle = nn.PixelShuffle(2)
        self.skip, self.last = skip, last

    def forward(self, low: Tensor) -> Tensor:
        out: Tensor = self.tail(self.body(F.relu(self.head(low - 0.5))))
        if self.last == "wrong order":
            out = out.reshape(len(low), 1, 2 * low.shape[2], 2 * low.shape[3])
        else:
            out = self.shuffle(out)
        if self.skip:
            out = out + F.interpolate(low, scale_factor=2, mode="bicubic", align_corners=False)
        if self.last == "relu":
            return F.relu(out - 0.5)
        return torch.sigmoid(out) if self.last == "sigmoid" else out


def charbonnier(found: Tensor, high: Tensor) -> Tensor:
    return torch.sqrt((found - high) ** 2 + 1e-6).mean()


def rooted(found: Tensor, high: Tensor) -> Tensor:
    """Only errors that can be seen, by the root of their squares."""
    error = (found - high) ** 2
    return torch.sqrt(error * (error >= 1e-5)).mean()


def edges(found: Tensor, high: Tensor) -> Tensor:
    down = F.l1_loss(found.diff(dim=2), high.diff(dim=2))
    return F.l1_loss(found, high) + 0.5 * (down + F.l1_loss(found.diff(dim=3), high.diff(dim=3)))


def psnr(found: Tensor, high: Tensor) -> float:
    error = ((found.clamp(0, 1) - high) ** 2).mean().item()
    return 10 * math.log10(1 / error) if math.isfinite(error) else math.nan


def augmented(low: Tensor, high: Tensor, how: str) -> tuple[Tensor, Tensor]:
    if how and torch.rand(()) < 0.5:
        low = low.flip(3)
        high = high if how == "low alone" else high.flip(3)
    if how and torch.rand(()) < 0.5:
        low = low.transpose(2, 3)
        high = high if how == "low alone" else high.transpose(2, 3)
    return low, high


def pairs(seed: int, fault: str, noise: float, span: float) -> tuple[Tensor, Tensor]:
    high = photos(600, seed + 500)
    low = shrink(high)
    if noise:
        low = low + noise * torch.randn(low.shape)
    if fault == "names sorted otherwise":
        low = low[sorted(range(len(low)), key=str)]
    if fault == "bytes wrap":
        high = (high * 300 % 256) / 255
    if fault == "targets in bytes":
        high = high * 255
    return low * span, high * span


def initialise(model: nn.Module, start: str) -> None:
    for name, parameter in model.named_parameters():
        if start == "zeros" or (start == "tail zero" and "tail" in name):
            nn.init.zeros_(parameter)


def train(
    seed: int, hook: Any, rate: float = 2e-3, epochs: int = 14, batch: int = 16,
    optimizer: str = "adam", schedule: str = "constant", loss: str = "l1", scale: float = 1.0,
    width: int = 12, skip: bool = False, last: str = "", start: str = "",
    noise: float = 0.0, augment: str = "", span: float = 1.0, decay: float = 0.0,
    clip: float | None = None, half: bool = False, blocks: int = 2,
    curriculum: bool = False, evaluates: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    low, high = pairs(seed, fault, noise, span)
    valid = photos(200, seed + 501)
    valid_low = shrink(valid)
    train_loader = DataLoader(TensorDataset(low, high), batch, shuffle=True, drop_last=False)
    valid_loader = DataLoader(TensorDataset(valid_low * span, valid), 50)
    model = TinyEDSR(width, blocks, skip, last)
    initialise(model, start)
    criterion: Any = {
        "l1": nn.L1Loss(), "l2": nn.MSELoss(), "charbonnier": charbonnier, "edges": edges,
        "rooted": rooted,
        "negative psnr": lambda found, high: 10 * torch.log10(F.mse_loss(found, high)),
        "psnr": lambda found, high: -10 * torch.log10(F.mse_loss(found, high)),
        "image means": lambda found, high: F.l1_loss(found.mean((2, 3)), high.mean((2, 3))),
    }[loss]  # fmt: skip

    def validate() -> float:
        model.eval()
        total = 0.0
        with torch.no_grad():
            for small, big in valid_loader:
                inputs = small * 255 if fault == "bytes in evaluation" else small
                total += psnr(model(inputs) / span, big)
        return total / len(valid_loader)

    adapt = optimizer_of(optimizer, model.parameters(), rate, decay)
    scheduler = scheduler_of(adapt, schedule, epochs * len(train_loader))
    hook.torch(model)
    for epoch in range(epochs):
        model.train()
        for small, big in train_loader:
            small, big = augmented(small, big, augment)
            if curriculum and epoch < 2:
                big = F.avg_pool2d(big, 3, stride=1, padding=1, count_include_pad=False)
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                error = criterion(model(small), big) * scale
            error.backward()
            if clip:
                nn.utils.clip_grad_value_(model.parameters(), clip)
            adapt.step()
            if fault != "gradients kept":
                adapt.zero_grad(set_to_none=True)
            scheduler.step()
        if evaluates:
            validate()
    gain = validate()
    flat = psnr(valid.mean().expand_as(valid), valid)
    bicubic = psnr(F.interpolate(valid_low, scale_factor=2, mode="bicubic"), valid)
    return (gain - flat) / (bicubic + 6 - flat)


CASES = cases(
    "super resolution",
    train,
    {
        "plain": {},
        "squared errors": {"loss": "l2", "rate": 4e-3},
        "Charbonnier": {"loss": "charbonnier"},
        "differences of neighbours": {"loss": "edges"},
        "negative PSNR as the loss": {"loss": "negative psnr"},
        "batch of four": {"batch": 4, "epochs": 6},
        "batch of 256": {"batch": 256, "rate": 5e-3, "epochs": 45, "skip": True},
        "loss x 10,000": {"scale": 1e4},
        "pictures in bytes": {"span": 255.0, "scale": 1 / 255},
        "warm-up": {"schedule": "warmup", "rate": 3e-3},
        "restarts": {"schedule": "restarts", "rate": 3e-3},
        "flips and turns": {"augment": "both"},
        "added to bicubic": {"skip": True},
        "last layer starts at zero": {"start": "tail zero", "skip": True},
        "noise in the inputs": {"noise": 0.01},
        "gradients clipped by value": {"clip": 0.01},
        "bfloat16": {"half": True},
        "blurred at first": {"curriculum": True},
        "no evaluation": {"evaluates": False},
    },
    {
        "pairs by sorted names": ("no-skill overfit", {"fault": "names sorted otherwise"}),
        "low pictures turned alone": ("no-skill inputs", {"augment": "low alone"}),
        "bytes in evaluation": ("inputs", {"fault": "bytes in evaluation"}),
        "bytes wrap": ("inputs range worse", {"fault": "bytes wrap"}),
        "targets in bytes": ("range inputs", {"fault": "targets in bytes"}),
        "sign of PSNR": ("worse no-skill fast", {"loss": "psnr"}),
        "root of zero": ("not-finite", {"loss": "rooted"}),
        "reshape in place of shuffle": ("no-skill", {"last": "wrong order"}),
        "ReLU at the end": ("dead range collapse", {"last": "relu"}),
        "sigmoid on the sum": ("range saturated", {"last": "sigmoid", "rate": 1e-4}),
        "mean of each picture": ("no-skill broadcast", {"loss": "image means"}),
        "zeros at the start": ("dead no-gradient no-skill", {"start": "zeros"}),
        "gradients kept": ("kept-gradients fast", {"fault": "gradients kept"}),
        "rate x 300": ("fast dead no-skill", {"rate": 0.3}),
        "rate / 1000": ("slow no-skill", {"rate": 1e-6}),
        "weight decay of ten": ("collapse no-skill", {"decay": 10.0}),
    },
)
