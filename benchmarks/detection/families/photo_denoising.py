"""A U-Net takes the noise off grey pictures, by their mean absolute error."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIDE, PATCH = 24, 16


def photos(count: int, seed: int) -> Tensor:
    """(N, 1, side, side) between 0 and 1: a gradient of light, and some flat shapes on it."""
    draw = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, 1, 1, generator=draw)

    down, right = torch.arange(SIDE).view(1, -1, 1) / SIDE, torch.arange(SIDE) / SIDE
    image = 0.5 + (uniform(count) - 0.5) * down + (uniform(count) - 0.5) * right
    for _ in range(4):
        top, left, high, wide = uniform(4, count)
        high, wide = 0.15 + 0.35 * high, 0.15 + 0.35 * wide
        inside = (down > top) & (down < top + high) & (right > left) & (right < left + wide)
        image = torch.where(inside, uniform(count), image)
    return image[:, None].clamp(0, 1)


def double_conv(inputs: int, outputs: int, norm: str, start: float) -> nn.Sequential:
    layers: list[nn.Module] = []
    for size in (inputs, outputs):
        conv = nn.Conv2d(size, outputs, 3, padding=1)
        if start:
            nn.init.normal_(conv.weight, std=start)
        layers.append(conv)
        if norm == "batch":
            layers.append(nn.BatchNorm2d(outputs))
        elif norm == "group":
            layers.append(nn.GroupNorm(4, outputs))
        layers.append(nn.ReLU())
    return nn.Sequential(*layers)


class UNet(nn.Module):
    def __init__(
        self, width: int, norm: str, residual: bool, last: str, start: float, fault: str
    ) -> None:
        super().__init__()
        self.inc = double_conv(1, width, norm, start)
        self.down = double_conv(width, 2 * width, norm, start)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.dec = double_conv(2 * width, width, norm, start)
        self.outc = nn.Conv2d(width, 1, 1)
        self.residual, self.last, self.fault = residual, last, fault

    def forward(self, x: Tensor) -> Tensor:
        near = self.inc(x)
        deep = self.up(self.down(F.max_pool2d(near, 2)))
        out: Tensor = self.outc(self.dec(torch.cat([near, deep], 1)))
        if self.fault == "clamped to white":
            out = (out + 3).clamp(0, 1)
        if self.residual:
            out = x - out
        if self.last == "sigmoid":
            out = out.sigmoid()
        elif self.last == "tanh":
            out = out.tanh()
        return out


class Photos:
    """Random patches of clean photos, and the same with noise."""

    def __init__(self, images: Tensor, sigma: float, fault: str) -> None:
        self.images, self.sigma, self.fault = images, sigma, fault

    def pair(self, batch: int, sigma: float) -> tuple[Tensor, Tensor]:
        rows = torch.randint(len(self.images), (batch,))
        top, left = torch.randint(SIDE - PATCH + 1, (2,)).tolist()
        clean = self.images[rows, :, top : top + PATCH, left : left + PATCH]
        noisy = clean + sigma * torch.randn_like(clean)
        if torch.rand(()) < 0.5 or self.fault == "turns the input alone":
            noisy = noisy.rot90(1, (2, 3))
            clean = clean if self.fault == "turns the input alone" else clean.rot90(1, (2, 3))
        if self.fault == "list in another order":
            clean = clean.roll(1, 0)
        if self.fault == "noisy for clean":
            clean = noisy
        if self.fault == "no noise":
            noisy = clean
        if self.fault == "target without channel":
            clean = clean[:, 0]
        if self.fault == "target in bytes":
            clean = clean * 255
        return noisy, clean


def gradients(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.diff(dim=2), x.diff(dim=3)


def criterion_of(loss: str) -> Any:
    def edges(out: Tensor, clean: Tensor) -> Tensor:
        pairs = zip(gradients(out), gradients(clean), strict=True)
        return F.l1_loss(out, clean) + 0.2 * sum(F.l1_loss(a, b) for a, b in pairs)

    def signal_to_noise(out: Tensor, clean: Tensor) -> Tensor:
        return 10 * torch.log10(((out - clean) ** 2).mean())

    def root(out: Tensor, clean: Tensor) -> Tensor:
        error = (out - clean) * (clean > 0.02)  # not where a photo is black
        return (error**2).sqrt().mean()

    found: Any = {
        "l1": nn.L1Loss(), "mse": nn.MSELoss(), "huber": nn.SmoothL1Loss(beta=0.05),
        "charbonnier": lambda out, clean: torch.sqrt((out - clean) ** 2 + 1e-6).mean(),
        "edges": edges, "decibels": signal_to_noise, "root": root,
        "mean error": lambda out, clean: (out - clean).mean().abs(),
        "sum": nn.L1Loss(reduction="sum"),
    }  # fmt: skip
    return found[loss]


def train(
    seed: int, hook: Any, steps: int = 450, rate: float = 3e-3, batch: int = 8, count: int = 400,
    optimizer: str = "adam", schedule: str = "constant", decay: float = 0.0, width: int = 8,
    norm: str = "", residual: bool = True, last: str = "", start: float = 0.0, loss: str = "l1",
    sigma: float = 0.25, mixed_sigma: bool = False, harder: bool = False,
    accumulate: int = 1, scale: float = 1.0, ema: bool = False, bfloat16: bool = False,
    test_scale: float = 1.0, every: int = 100, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    source = Photos(photos(count, seed + 1100), sigma, fault)
    test = photos(100, seed + 1101)
    draw = torch.Generator().manual_seed(seed)
    noisy_test = test + 0.25 * torch.randn(test.shape, generator=draw)
    model = UNet(width, norm, residual, last, start, fault)
    hook.torch(model)
    average = copy.deepcopy(model) if ema else model
    chosen: Any = model.parameters()
    if fault == "the way down alone":
        chosen = [*model.inc.parameters(), *model.down.parameters()]
    optim = optimizer_of(optimizer, chosen, rate, decay)
    scheduler = scheduler_of(optim, schedule, steps)
    criterion = criterion_of(loss)
    clean_test = test[:, 0] if fault == "target without channel" else test
    model.train()
    for step in range(steps):
        optim.zero_grad()
        for _ in range(accumulate):
            strength = sigma * (0.3 + 0.7 * min(1, 2 * step / steps)) if harder else sigma
            if mixed_sigma:
                strength = sigma * float(0.5 + torch.rand(()))
            noisy, clean = source.pair(batch, strength)
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                out = model(noisy)
            if fault == "output detached":
                out = out.detach() + 0 * model.outc.bias.sum()
            (criterion(out.float(), clean) * scale / accumulate).backward()
        optim.step()
        scheduler.step()
        if ema:
            with torch.no_grad():
                for old, new in zip(average.parameters(), model.parameters(), strict=True):
                    old.lerp_(new, 0.02)
        if every and step % every == every - 1:
            model.eval()
            with torch.no_grad():
                found = model(noisy_test * test_scale)
                criterion(found, clean_test)
                psnr = -10 * ((found.clamp(0, 1) - test) ** 2).mean().log10()
            assert psnr.dim() == 0
            model.train()
    average.eval()
    with torch.no_grad():
        found = average(noisy_test * test_scale) / (255 if fault == "target in bytes" else 1)
    return restored(found, noisy_test, test)


def restored(found: Tensor, noisy: Tensor, clean: Tensor) -> float:
    """The share of the noise that is taken off, in mean absolute error."""
    left = (found - clean).abs().mean() / (noisy - clean).abs().mean()
    return 1 - float(left)


CASES = cases(
    "photo denoising",
    train,
    {
        "plain": {},
        "predicts the picture": {"residual": False, "steps": 700},
        "squares": {"loss": "mse"},
        "Charbonnier": {"loss": "charbonnier"},
        "edges, too": {"loss": "edges"},
        "decibels": {"loss": "decibels"},
        "batch norm": {"norm": "batch"},
        "group norm, cosine": {"norm": "group", "schedule": "cosine", "rate": 6e-3},
        "batch of 4": {"batch": 4, "steps": 700, "rate": 2e-3},
        "batch of 48": {"batch": 48, "steps": 150, "rate": 6e-3},
        "noise of many strengths": {"mixed_sigma": True},
        "noise that grows": {"harder": True},
        "moving average": {"ema": True},
        "bfloat16": {"bfloat16": True},
        "sum of errors": {"loss": "sum"},
        "accumulation": {"batch": 4, "accumulate": 2},
        "one cycle, not evaluated": {"schedule": "one cycle", "rate": 0.01, "every": 0},
        "loss / 10,000": {"scale": 1e-4},
    },
    {
        "turns the input alone": ("no-skill overfit", {"fault": "turns the input alone"}),
        "list in another order": ("no-skill collapse", {"fault": "list in another order"}),
        "noisy for clean": ("no-skill leak", {"fault": "noisy for clean"}),
        "no noise in training": ("inputs overfit leak", {"fault": "no noise"}),
        "target without channel": (
            "broadcast no-skill collapse", {"fault": "target without channel", "residual": False},
        ),
        "target in bytes": (
            "range slow", {"fault": "target in bytes", "residual": False, "rate": 3e-4},
        ),
        "test in bytes": ("inputs", {"test_scale": 255.0, "residual": False, "norm": "batch"}),
        "tanh of the picture from far": (
            "saturated dead", {"last": "tanh", "start": 2.0, "residual": False, "rate": 3e-4},
        ),
        "clamped to white": (
            "dead no-gradient collapse", {"fault": "clamped to white", "residual": False},
        ),
        "output detached": (
            "no-gradient no-skill", {"fault": "output detached", "residual": False},
        ),
        "the way down alone": (
            "unbound slow", {"fault": "the way down alone", "rate": 1e-4, "residual": False},
        ),
        "mean of signed errors": ("no-skill", {"loss": "mean error"}),
        "root of zero": ("not-finite", {"loss": "root"}),
        "rate of 1": ("fast no-skill dead", {"rate": 1.0}),
        "rate of 3e-6": ("slow", {"rate": 3e-6}),
        "sum of errors with SGD": (
            "fast not-finite dead", {"loss": "sum", "optimizer": "sgd", "rate": 0.05},
        ),
        "decay of 1": ("collapse no-skill", {"decay": 1.0, "residual": False}),
    },
)  # fmt: skip
