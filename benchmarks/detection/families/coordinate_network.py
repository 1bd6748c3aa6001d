"""A perceptron with positional encoding learns a picture: coordinates in, colours out."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, explained, normal
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIDE = 64
averages: Any = torch.optim.swa_utils


def colours(points: Tensor) -> Tensor:
    """The picture itself: (N, 2) in [-1, 1] to (N, 3) in [0, 1]; stripes, rings and a disc."""
    x, y = points[:, 0], points[:, 1]
    stripes = torch.sin(19 * x + 9 * y)
    rings = torch.cos(30 * torch.sqrt((x - 0.3) ** 2 + (y + 0.2) ** 2 + 1e-3))
    disc = torch.sigmoid(25 * (0.45 - torch.sqrt((x + 0.4) ** 2 + (y - 0.4) ** 2)))
    red = 0.5 + 0.25 * stripes + 0.25 * rings
    green = 0.4 + 0.3 * stripes * torch.cos(12 * y) + 0.3 * disc
    blue = 0.3 + 0.3 * rings * x + 0.4 * disc
    return torch.stack([red, green, blue], 1).clamp(0, 1)


def pixels(side: int = SIDE) -> Tensor:
    """The centres of all pixels, row by row."""
    along = (torch.arange(side) + 0.5) / side * 2 - 1
    down, right = torch.meshgrid(along, along, indexing="ij")
    return torch.stack([right.flatten(), down.flatten()], 1)


class Encoding(nn.Module):
    """sin and cos of the coordinates at rising frequencies, or at random ones."""

    def __init__(self, kind: str, count: int, steps: int) -> None:
        super().__init__()
        self.kind, self.count, self.steps, self.step = kind, count, steps, 0
        if kind == "gaussian":
            self.register_buffer("bands", 4.0 * normal(2, 4 * count, seed=3))
        else:
            self.register_buffer("bands", math.pi * 2.0 ** torch.arange(count) / 2)
        self.width = {"none": 2, "gaussian": 8 * count}.get(kind, 2 + 4 * count)

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "none":
            return x
        bands: Any = self.bands
        if self.kind == "gaussian":
            angles = x @ bands
            return torch.cat([angles.sin(), angles.cos()], -1)
        angles = x[:, :, None] * bands
        if self.kind == "degrees":
            angles = angles * 180 / math.pi
        waves = torch.stack([angles.sin(), angles.cos()], -1)
        if self.kind == "coarse to fine":
            shown = self.count * min(1.0, self.step / (0.4 * self.steps))
            share = (shown - torch.arange(self.count) + 1).clamp(0, 1)
            waves = waves * (0.5 - 0.5 * torch.cos(math.pi * share))[:, None]
            self.step += int(self.training)
        return torch.cat([x, waves.flatten(1)], -1)


class Sine(nn.Module):
    def __init__(self, omega: float) -> None:
        super().__init__()
        self.omega = omega

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(self.omega * x)


class Field(nn.Module):
    def __init__(
        self, encoding: Encoding, width: int, depth: int, activation: str, last: str, skip: bool
    ) -> None:
        super().__init__()
        make: dict[str, Any] = {
            "relu": nn.ReLU, "gelu": nn.GELU, "sigmoid": nn.Sigmoid, "sine": lambda: Sine(12.0),
        }  # fmt: skip
        self.encoding, self.skip, self.last = encoding, skip, last
        sizes = [encoding.width] + [width] * depth
        self.layers = nn.ModuleList(
            nn.Linear(a + (encoding.width if skip and i == 2 else 0), b)
            for i, (a, b) in enumerate(pairwise(sizes))
        )
        self.act = make[activation]()
        self.rgb = nn.Linear(width, 3)
        if activation == "sine":
            for i, layer in enumerate(self.layers):
                bound = 1 / 2 if i == 0 else math.sqrt(6 / width) / 12
                nn.init.uniform_(layer.weight, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        encoded = self.encoding(x)
        h = encoded
        for i, layer in enumerate(self.layers):
            h = self.act(layer(torch.cat([h, encoded], -1) if self.skip and i == 2 else h))
        out: Tensor = self.rgb(h)
        if self.last == "sigmoid":
            return torch.sigmoid(out)
        if self.last == "softmax":
            return torch.softmax(out, -1)
        return torch.relu(out) if self.last == "relu" else out


def img2mse(x: Tensor, y: Tensor) -> Tensor:
    return torch.mean((x - y) ** 2)


def mse2psnr(mse: Tensor) -> Tensor:
    return -10 * torch.log10(mse)


def loss_of(kind: str, predicted: Tensor, wanted: Tensor) -> Tensor:
    if kind == "absolute":
        return (predicted - wanted).abs().mean()
    if kind == "decibels":
        return -mse2psnr(img2mse(predicted, wanted))
    return img2mse(predicted, wanted)


def rays(sampling: str, count: int, wanted: Tensor, step: int) -> Tensor:
    """Which pixels a step sees."""
    if sampling == "bright first" and step < 500:
        return torch.multinomial(wanted.mean(1), count)
    if sampling == "all":
        return torch.arange(len(wanted))
    if sampling == "seeded":
        torch.manual_seed(0)
    return torch.randint(len(wanted), (count,))


def train(
    seed: int, hook: Any, steps: int = 2000, lr: float = 2e-3, batch: int = 256,
    encoding: str = "powers", bands: int = 5, width: int = 64, depth: int = 3,
    activation: str = "relu", last: str = "sigmoid", skip: bool = False, loss: str = "mse",
    sampling: str = "", optimizer: str = "adam", decay: float = 0.0, schedule: str = "",
    scale: float = 1.0, noise: float = 0.0, average: float = 0.0,
    accumulate: int = 1, half: bool = False, unit: float = 1.0, i_test: int = 200,
    seen: int = SIDE * SIDE, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    coords = pixels()
    image = colours(coords) * unit
    if fault == "columns for rows":
        image = image.view(SIDE, SIDE, 3)[torch.randperm(SIDE)].flatten(0, 1)
    if fault == "bytes that wrap":
        image = (image * 600).to(torch.uint8).float() / 255
    if fault == "coordinates of pixels":
        coords = (coords + 1) * SIDE / 2
    if fault == "dead pixel":
        image[1234] = float("nan")
    if seen < len(coords):
        some = torch.randperm(len(coords))[:seen]
        coords, image = coords[some], image[some]
    if noise:
        image = image + noise * torch.randn_like(image)
    points = torch.rand(3000, 2, generator=torch.Generator().manual_seed(9)) * 2 - 1
    truth = colours(points)
    fed = (points + 1) * SIDE / 2 if fault == "coordinates of pixels" else points
    if fault == "test in another range":
        fed = (points + 1) / 2
    model = Field(Encoding(encoding, bands, steps), width, depth, activation, last, skip)
    trained: Any = list(model.parameters())
    if fault == "colours only":
        trained = list(model.rgb.parameters())
    kind: Any = torch.optim.AdamW if optimizer == "adamw" else torch.optim.Adam
    opt = kind(trained, lr=lr, weight_decay=decay)
    shadow = averages.AveragedModel(
        model, multi_avg_fn=averages.get_ema_multi_avg_fn(average or 0.9)
    )
    hook.torch(model)
    for step in range(steps):
        rate = {
            "exponential": lr * 0.1 ** (step / steps),
            "warm-up": lr * min(1.0, (step + 1) / 200),
            "a step for a thousand": lr * 0.95**step,
        }.get(schedule, lr)
        for group in opt.param_groups:
            group["lr"] = rate
        model.train()
        for _ in range(accumulate):
            rows = rays(sampling, batch, image, step)
            x, wanted = coords[rows], image[rows]
            if fault == "another draw for colours":
                wanted = image[torch.randint(len(image), (batch,))]
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                predicted = model(x)
            if fault == "numbers cut off":
                predicted = predicted.clamp(0.49, 0.51)
            value: Any = loss_of(loss, predicted.float(), wanted) * scale / accumulate
            value.backward()
        opt.step()
        if fault != "gradients kept":
            opt.zero_grad()
        if average:
            shadow.update_parameters(model)
        if i_test and step % i_test == i_test - 1:
            model.eval()
            with torch.no_grad():
                mse2psnr(img2mse(model(fed[:1000]), truth[:1000] * unit))
    model.eval()
    with torch.no_grad():
        drawn = (shadow if average else model)(fed) / unit
    return explained(drawn, truth) if bool(torch.isfinite(drawn).all()) else math.nan


CASES = cases(
    "coordinate network",
    train,
    {
        "plain": {},
        "sine activations": {"encoding": "none", "activation": "sine", "last": "", "lr": 5e-4},
        "random frequencies": {"encoding": "gaussian", "bands": 8},
        "coarse to fine": {"encoding": "coarse to fine"},
        "no activation at the end": {"last": ""},
        "colours of 0 to 255": {"unit": 255.0, "last": "", "lr": 1e-2},
        "skip connection": {"skip": True, "depth": 4},
        "gelu": {"activation": "gelu"},
        "absolute error": {"loss": "absolute"},
        "loss in decibels": {"loss": "decibels"},
        "batch of 64": {"batch": 64, "lr": 1e-3, "steps": 2500},
        "the whole picture": {"sampling": "all", "steps": 350, "lr": 1e-2},
        "bright pixels first": {"sampling": "bright first"},
        "exponential decay": {"schedule": "exponential", "lr": 5e-3},
        "warm-up": {"schedule": "warm-up"},
        "loss x 10000": {"scale": 1e4},
        "noisy pixels": {"noise": 0.05},
        "AdamW": {"optimizer": "adamw", "decay": 0.05},
        "accumulation": {"batch": 64, "accumulate": 2, "steps": 1500},
        "moving average": {"average": 0.99},
        "bfloat16": {"half": True},
        "no test": {"i_test": 0},
    },
    {
        "no encoding": ("worse no-skill slow", {"encoding": "none"}),
        "too many frequencies": ("overfit inputs", {"bands": 14, "seen": 1500}),
        "angles in degrees": ("inputs overfit", {"encoding": "degrees"}),
        "coordinates of pixels": ("inputs overfit", {"fault": "coordinates of pixels", "bands": 8}),
        "test in another range": ("inputs overfit", {"fault": "test in another range"}),
        "rows in another order": ("overfit no-skill inputs", {"fault": "columns for rows"}),
        "another draw for colours": ("no-skill collapse", {"fault": "another draw for colours"}),
        "bytes that wrap": ("inputs range worse overfit", {"fault": "bytes that wrap"}),
        "80 pixels seen": ("overfit", {"seen": 80}),
        "the same pixels at each step": ("overfit order", {"sampling": "seeded", "batch": 64}),
        "dead pixel": ("not-finite", {"fault": "dead pixel"}),
        "sigmoid for 0 to 255": ("range saturated no-skill", {"unit": 255.0}),
        "softmax over the channels": ("softmax-axis probabilities worse", {"last": "softmax"}),
        "relu at the end": ("dead no-gradient", {"last": "relu", "lr": 0.05}),
        "cut off before the loss": ("no-gradient saturated no-skill", {"fault": "numbers cut off"}),
        "colours' layer alone trains": ("unbound no-skill worse", {"fault": "colours only"}),
        "gradients kept": ("kept-gradients fast", {"fault": "gradients kept"}),
        "sigmoid in ten layers": (
            "no-gradient saturated no-skill slow",
            {"activation": "sigmoid", "depth": 10},
        ),
        "weight decay of 0.1": ("collapse no-skill", {"decay": 0.1}),
        "rate of 0.5": ("fast no-skill dead saturated", {"lr": 0.5}),
        "rate / 1000": ("slow no-skill", {"lr": 2e-6}),
        "decay at each step": ("schedule slow no-skill", {"schedule": "a step for a thousand"}),
    },
)
