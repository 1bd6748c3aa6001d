"""Depth in metres from one picture: a U-Net in a LightningModule, by Lightning's Trainer.

Scenes are a floor that recedes to a wall and boxes upon it; what is far is small, hazy and stands
high in the picture. Sensors measure nothing at some pixels: their depth is 0. The skill is the
share of the variance of depth that is explained.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, scheduler_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.detection.case import cases

SIDE, FARTHEST = 16, 10.0
MEAN, SPREAD = 110.0, 60.0


def scenes(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Pictures (N, 3, SIDE, SIDE) in 0 to 255, and metres (N, 1, SIDE, SIDE)."""
    draw = torch.Generator().manual_seed(seed)
    rows = torch.arange(SIDE).view(1, -1, 1)
    columns = torch.arange(SIDE).view(1, 1, -1)
    horizon = torch.randint(2, 6, (count, 1, 1), generator=draw)
    wall = 6 + 4 * torch.rand(count, 1, 1, generator=draw)
    floor = 12 / (rows - horizon + 1.0).clamp(min=0.1)
    depth = torch.minimum(floor, wall).clamp(1.0, FARTHEST).expand(count, SIDE, SIDE).clone()
    colour = torch.rand(count, 3, 1, 1, generator=draw).expand(count, 3, SIDE, SIDE).clone()
    boxes = 1 + 5 * torch.rand(3, count, 1, 1, generator=draw)
    for away in boxes.sort(0, descending=True).values:
        left = torch.randint(SIDE, (count, 1, 1), generator=draw)
        foot = horizon - 1 + 12 / away
        box = ((columns - left).abs() < 5 / away) & (rows <= foot) & (rows > foot - 14 / away)
        box &= away < depth
        depth = torch.where(box, away, depth)
        paint = torch.rand(count, 3, 1, 1, generator=draw)
        colour = torch.where(box[:, None], paint, colour)
    haze = torch.exp(-depth / 4)[:, None]
    pixels = 255 * (colour * haze + 0.8 * (1 - haze))
    pixels = pixels + 8 * torch.randn(count, 3, SIDE, SIDE, generator=draw)
    return pixels.clamp(0, 255).round(), depth[:, None]


class Scenes(Dataset):
    def __init__(
        self, pixels: Tensor, depth: Tensor, flip: bool = False, scaled: bool = True
    ) -> None:
        self.pixels, self.depth, self.flip, self.scaled = pixels, depth, flip, scaled

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        picture, depth = self.pixels[number], self.depth[number]
        if self.flip and torch.rand(()) < 0.5:
            picture, depth = picture.flip(-1), depth.flip(-1)
        return (picture - MEAN) / SPREAD if self.scaled else picture, depth


def block(inputs: int, outputs: int, norm: str, momentum: float) -> nn.Sequential:
    norms: Any = {
        "batch": lambda: nn.BatchNorm2d(outputs, momentum=momentum),
        "group": lambda: nn.GroupNorm(2, outputs),
        "none": nn.Identity,
    }
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), norms[norm](), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, norm: str, momentum: float) -> None:
        super().__init__()
        self.encoder = nn.ModuleList(
            block(*sizes, norm, momentum) for sizes in ((3, 10), (10, 20), (20, 24))
        )
        self.decoder = nn.ModuleList(
            block(*sizes, norm, momentum) for sizes in ((44, 20), (30, 10))
        )
        self.head = nn.Conv2d(10, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        skipped = []
        for number, part in enumerate(self.encoder):
            x = part(x if number == 0 else F.max_pool2d(x, 2))
            skipped.append(x)
        x = skipped.pop()
        for part in self.decoder:
            x = part(torch.cat([F.interpolate(x, scale_factor=2), skipped.pop()], 1))
        out: Tensor = self.head(x)
        return out


def metres(out: Tensor, activation: str) -> Tensor:
    if activation == "sigmoid":
        return FARTHEST * out.sigmoid()
    return F.relu(out) if activation == "relu" else out


def loss_of(kind: str, found: Tensor, depth: Tensor) -> Tensor:
    valid = depth > 0
    if kind == "broadcast":
        return F.l1_loss(found, depth.squeeze(1))
    if kind == "mask inverted":
        valid = ~valid
    if kind == "logarithms, no mask":
        return F.mse_loss(found.clamp(min=1e-3).log(), depth.log()).sqrt()
    error = (found - depth)[valid]
    if kind == "berhu":
        edge = 0.2 * error.abs().max().detach()
        return torch.where(
            error.abs() <= edge, error.abs(), (error**2 + edge**2) / (2 * edge)
        ).mean()
    if kind == "silog":
        ratio = found.clamp(min=1e-3)[valid].log() - depth[valid].log()
        return 10 * ((ratio**2).mean() - 0.85 * ratio.mean() ** 2 + 1e-6).sqrt()
    if kind == "edges by a root":
        rest = (found - depth) * valid
        across, down = rest.diff(dim=-1)[..., :-1, :], rest.diff(dim=-2)[..., :-1]
        return error.abs().mean() + 0.1 * (across**2 + down**2).sqrt().mean()
    return error.abs().mean()


def train(
    seed: int, hook: Any, loss: str = "l1", activation: str = "sigmoid", rate: float = 3e-3,
    epochs: int = 4, batch: int = 8, optimizer: str = "adam", schedule: str = "constant",
    norm: str = "batch", momentum: float = 0.1, decay: float = 0.0,
    flip: bool = False, holes: float = 0.1, noise: float = 0.0, unit: float = 1.0,
    times: float = 1.0, count: int = 640, clip: float | None = None, accumulate: int = 1,
    precision: str = "32-true", averaged: bool = False, frozen: str = "", fault: str = "",
) -> float:  # fmt: skip
    import lightning

    begin(seed)
    for name in ("lightning", "lightning.pytorch", "lightning.pytorch.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    (pixels, depth), (held, held_depth) = scenes(count, seed + 5200), scenes(80, seed + 5201)
    test, test_depth = scenes(300, seed + 5202)
    if noise:
        depth = depth * (1 + noise * torch.randn_like(depth))
    depth, held_depth = (d * (torch.rand_like(d) >= holes) * unit for d in (depth, held_depth))
    if fault == "names in another order":
        by_name = sorted(range(count), key=str)
        depth = depth[by_name]

    class Depth(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = UNet(norm, momentum)
            if fault == "dead head":
                nn.init.constant_(self.net.head.bias, -20.0)

        def forward(self, x: Tensor) -> Tensor:
            return metres(self.net(x), activation) * (unit if activation == "linear" else 1.0)

        def training_step(self, rows: Any, number: int) -> Any:
            found = self(rows[0])
            error = loss_of(loss, found, rows[1]) * times
            self.log("train_loss", error)
            return None if fault == "nothing returned" else error

        def validation_step(self, rows: Any, number: int) -> None:
            found, valid = self(rows[0]), rows[1] > 0
            self.log("val_loss", loss_of(loss, found, rows[1]))
            ratio = (found / rows[1])[valid]
            self.log("val_delta1", (torch.maximum(ratio, 1 / ratio) < 1.25).float().mean())
            self.log("val_rmse", F.mse_loss(found[valid], rows[1][valid]).sqrt())

        def configure_optimizers(self) -> Any:
            parts: Any = {"only the encoder": self.net.encoder, "only the head": self.net.head}
            chosen = [p for p in parts.get(fault, self).parameters() if p.requires_grad]
            made: Any = {
                "adam": lambda: torch.optim.Adam(chosen, rate, weight_decay=decay),
                "nesterov": lambda: torch.optim.SGD(chosen, rate, momentum=0.9, nesterov=True),
                "rmsprop": lambda: torch.optim.RMSprop(chosen, rate),
            }[optimizer]()
            if schedule == "on plateau":
                fewer = torch.optim.lr_scheduler.ReduceLROnPlateau(made, patience=0, factor=0.5)
                return {
                    "optimizer": made,
                    "lr_scheduler": {"scheduler": fewer, "monitor": "val_loss"},
                }
            if schedule == "decays by step":
                planned: Any = torch.optim.lr_scheduler.StepLR(made, 3, 0.5)
            else:
                planned = scheduler_of(made, schedule, epochs * len(loader) // accumulate)
            return [made], [{"scheduler": planned, "interval": "step"}]

    loader: Any = DataLoader(
        Scenes(pixels, depth, flip), batch, shuffle=True, drop_last=count > batch
    )
    held_loader: Any = DataLoader(
        Scenes(held, held_depth, scaled=fault != "evaluation not scaled"), 40
    )
    model = Depth()
    if frozen:
        model.net.encoder[0].requires_grad_(False)
    average = [lightning.pytorch.callbacks.StochasticWeightAveraging(rate / 3)] if averaged else []
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=[hook.lightning(), *average], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        accumulate_grad_batches=accumulate, gradient_clip_val=clip, precision=precision,
    )  # fmt: skip
    trainer.fit(model, loader, held_loader)
    model.eval()
    with torch.no_grad():
        found = model(test if fault == "evaluation not scaled" else (test - MEAN) / SPREAD) / unit
    missed = ((found - test_depth) ** 2).mean() / test_depth.var()
    return float(1 - missed)


CASES = cases(
    "picture depth",
    train,
    {
        "plain": {},
        "scale-invariant logarithms": {"loss": "silog"},
        "BerHu": {"loss": "berhu"},
        "millimetres": {"unit": 1000.0, "activation": "linear"},
        "batch of four": {"batch": 4, "epochs": 3, "rate": 2e-3},
        "batch of 64": {"batch": 64, "epochs": 12, "rate": 1e-2},
        "one cycle, SGD": {"optimizer": "nesterov", "rate": 0.3, "schedule": "one cycle"},
        "RMSprop, on plateau": {"optimizer": "rmsprop", "rate": 2e-3, "schedule": "on plateau"},
        "group norm": {"norm": "group"},
        "no norm, clipped": {"norm": "none", "clip": 0.5, "epochs": 7},
        "accumulated": {"batch": 4, "accumulate": 4, "epochs": 5},
        "bfloat16": {"precision": "bf16-mixed"},
        "weights averaged": {"averaged": True},
        "flipped": {"flip": True, "epochs": 8},
        "half of the pixels without depth": {"holes": 0.5},
        "depth with noise": {"noise": 0.1},
        "loss x 10000": {"times": 1e4},
        "first layer frozen": {"frozen": "first"},
    },
    {
        "names in another order": ("no-skill overfit", {"fault": "names in another order"}),
        "millimetres for metres": ("range saturated no-skill", {"unit": 1000.0}),
        "shapes that broadcast": ("broadcast", {"loss": "broadcast"}),
        "holes in the logarithm": ("not-finite", {"loss": "logarithms, no mask"}),
        "mask inverted": ("ignored no-skill collapse saturated", {"loss": "mask inverted"}),
        "a root without gradient": ("not-finite", {"loss": "edges by a root"}),
        "dead head": (
            "dead no-gradient no-skill collapse",
            {"fault": "dead head", "activation": "relu"},
        ),
        "evaluation not scaled": ("inputs overfit", {"fault": "evaluation not scaled"}),
        "only the head": ("unbound", {"fault": "only the head", "rate": 1e-3}),
        "nothing returned": ("no-gradient no-skill slow", {"fault": "nothing returned"}),
        "decays by step": ("schedule slow", {"schedule": "decays by step", "rate": 1e-3}),
        "statistics that lag": ("mode overfit", {"momentum": 1e-4}),
        "eight scenes": ("overfit", {"count": 8, "epochs": 250}),
        "decay of one": ("no-skill collapse slow", {"decay": 1.0}),
        "rate x 1000": ("fast no-skill dead saturated", {"rate": 3.0, "norm": "none"}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
    },
)
