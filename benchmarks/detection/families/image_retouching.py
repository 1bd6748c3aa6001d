"""Lightning: a photo's colours put right by a network, as an expert did (like exposure, HDRNet).

A small network looks at the photo and says gains of three channels and a gamma, which are applied
to every pixel. Photos are scenes of coloured areas under light of some colour, badly exposed, in
bytes; the expert's are the scenes in grey light. The skill is the share of the squared error that
is gone, of that which remains if every photo is corrected alike.
"""

from __future__ import annotations

import copy
import logging
import warnings
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, scheduler_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

SIDE = 16


def photos(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Bytes of the camera, and the expert's picture from 0 to 1; (N, 3, SIDE, SIDE)."""
    draw = torch.Generator().manual_seed(seed)
    scene = (0.4 + 0.2 * torch.rand(count, 3, 1, 1, generator=draw)).expand(-1, -1, SIDE, SIDE)
    rows, columns = torch.arange(SIDE)[:, None], torch.arange(SIDE)
    for _ in range(16):
        top, left = torch.randint(-4, SIDE, (2, count, 1, 1), generator=draw)
        high, wide = torch.randint(2, 7, (2, count, 1, 1), generator=draw)
        area = (rows >= top) & (rows < top + high) & (columns >= left) & (columns < left + wide)
        paint = 0.1 + 0.8 * torch.rand(count, 3, 1, 1, generator=draw)
        scene = torch.where(area[:, None], paint, scene)
    light = (0.4 * torch.randn(count, 3, 1, 1, generator=draw)).exp()
    gamma = (0.25 * torch.randn(count, 1, 1, 1, generator=draw)).exp()
    camera = 0.6 * light * scene**gamma + 0.01 * torch.randn(scene.shape, generator=draw)
    return (255 * camera).round().clamp(0, 255), scene.clone()


class Retoucher(nn.Module):
    def __init__(self, norm: str, start: str, fault: str) -> None:
        super().__init__()
        norms: Any = {
            "batch": nn.BatchNorm2d,
            "instance": nn.InstanceNorm2d,
            "none": lambda width: nn.Identity(),
        }
        first = nn.InstanceNorm2d(3) if norm == "instance" else nn.Identity()
        self.body = nn.Sequential(
            first,
            nn.Conv2d(3, 16, 3, 2, 1), norms[norm](16), nn.ReLU(),
            nn.Conv2d(16, 24, 3, 2, 1), norms[norm](24), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 32), nn.ReLU(),
        )  # fmt: skip
        self.head = nn.Linear(32, 4)
        self.fault = fault
        if start == "identity":
            nn.init.zeros_(self.head.weight)
            nn.init.zeros_(self.head.bias)
        elif start == "zeros":
            for parameter in self.parameters():
                nn.init.zeros_(parameter)
        elif start == "white":
            self.head.bias.data[:3] = 6.0

    def forward(self, photo: Tensor) -> Tensor:
        advice = self.head(self.body(photo))
        if self.fault == "softmax of the gains":
            advice = advice.softmax(1)
        gains, gamma = advice[:, :3, None, None].exp(), advice[:, 3:, None, None].exp()
        lowest = 0.0 if self.fault == "power of zero" else 1e-3
        out = (photo.clamp(min=lowest) * gains) ** gamma
        return out.clamp(max=1.0) if self.fault == "white is the limit" else out


def loss_of(kind: str, found: Tensor, expert: Tensor) -> Tensor:
    error = found - expert
    if kind == "rounded":
        error = (255 * found).round() / 255 - expert
    if kind in ("signal to noise", "signal to noise, raised"):
        ratio = -10 * torch.log10((error**2).mean((1, 2, 3)) + 1e-6).mean()
        return ratio if kind == "signal to noise" else -ratio
    if kind == "squared mean":
        return error.mean() ** 2
    if kind == "squared":
        return (error**2).mean()
    if kind == "smooth":
        return F.smooth_l1_loss(found, expert, beta=0.1)
    if kind == "charbonnier":
        return (error**2 + 1e-6).sqrt().mean()
    if kind == "angles too":
        return error.abs().mean() + (1 - F.cosine_similarity(found, expert, dim=1)).mean()
    return error.abs().mean()


def train(
    seed: int, hook: Any, loss: str = "absolute", rate: float = 2e-3, epochs: int = 10,
    batch: int = 16, optimizer: str = "adam", schedule: str = "constant", norm: str = "none",
    start: str = "usual", decay: float = 0.0, flip: bool = False, noise: float = 0.0,
    times: float = 1.0, count: int = 800, clip: float | None = None, accumulate: int = 1,
    precision: str = "32-true", averaged: bool = False, every: int = 1,
    batches: float = 0.0, fault: str = "",
) -> float:  # fmt: skip
    import lightning

    begin(seed)
    for name in ("lightning", "lightning.pytorch", "lightning.pytorch.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    (camera, expert), (held, held_expert) = photos(count, seed + 6400), photos(100, seed + 6401)
    test, test_expert = photos(400, seed + 6402)
    alike = ((expert.mean() - test_expert) ** 2).mean()
    for power in (0.6, 0.8, 1.0, 1.2):
        for gain in (0.8, 1.0, 1.2, 1.4, 1.6):
            same = (gain * test / 255) ** power
            alike = torch.minimum(alike, ((same - test_expert) ** 2).mean())
    camera = camera / 255
    if fault != "bytes when evaluated":
        held, test = held / 255, test / 255
    if fault == "names in another order":
        expert = expert[torch.tensor(sorted(range(count), key=str))]
    if fault == "expert in bytes":
        expert, held_expert = 255 * expert, 255 * held_expert
    if fault == "dark to bright":
        order = camera.mean((1, 2, 3)).argsort()
        camera, expert = camera[order], expert[order]
    if noise:
        expert = expert * (1 + noise * torch.randn(count, 3, 1, 1))

    class Retouching(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = Retoucher(norm, start, fault)
            self.automatic_optimization = fault != "no step by hand"

        def forward(self, photo: Tensor) -> Tensor:
            out: Tensor = self.net(photo)
            return out

        def training_step(self, rows: Any, number: int) -> Tensor:
            photo, wanted = rows
            if flip and torch.rand(()) < 0.5:
                photo, wanted = photo.flip(-1), wanted.flip(-1)
            error = loss_of(loss, self(photo), wanted) * times
            self.log("train_loss", error)
            if fault == "no step by hand":
                self.optimizers().zero_grad()
                self.manual_backward(error)
            return error

        def validation_step(self, rows: Any, number: int) -> None:
            self.log("val_loss", loss_of(loss, self(rows[0]), rows[1]))

        def configure_optimizers(self) -> Any:
            older = copy.deepcopy(self.net)
            owner = older if fault == "optimizer of a copy" else self.net
            chosen = [p for p in owner.parameters() if p.requires_grad]
            made: Any = {
                "adam": lambda: torch.optim.Adam(chosen, rate, weight_decay=decay),
                "momentum": lambda: torch.optim.SGD(chosen, rate, momentum=0.9),
            }[optimizer]()
            if schedule == "warm-up of 1000 epochs":
                return [made], [torch.optim.lr_scheduler.LinearLR(made, 1e-3, 1.0, 1000)]
            planned = scheduler_of(made, schedule, epochs * len(loader) // accumulate)
            return [made], [{"scheduler": planned, "interval": "step"}]

    loader: Any = DataLoader(
        TensorDataset(camera, expert), batch, shuffle=fault != "dark to bright"
    )
    model = Retouching()
    average = [lightning.pytorch.callbacks.StochasticWeightAveraging(rate / 3)] if averaged else []
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=[hook.lightning(), *average], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        accumulate_grad_batches=accumulate, gradient_clip_val=clip, precision=precision,
        check_val_every_n_epoch=every, overfit_batches=batches,
    )  # fmt: skip
    trainer.fit(model, loader, DataLoader(TensorDataset(held, held_expert), 50))
    model.eval()
    with torch.no_grad():
        missed = ((model(test) - test_expert) ** 2).mean()
    return float(1 - missed / alike)


CASES = cases(
    "image retouching",
    train,
    {
        "plain": {},
        "squared error": {"loss": "squared", "rate": 3e-3},
        "smooth absolute error": {"loss": "smooth", "rate": 3e-3},
        "Charbonnier": {"loss": "charbonnier"},
        "angles of colours too": {"loss": "angles too"},
        "signal to noise": {"loss": "signal to noise, raised"},
        "identity at first": {"start": "identity"},
        "one cycle, SGD": {"optimizer": "momentum", "rate": 0.2, "schedule": "one cycle"},
        "restarts": {"schedule": "restarts", "rate": 4e-3},
        "batch of 100": {"batch": 100, "epochs": 60, "rate": 4e-3, "every": 5},
        "accumulated": {"batch": 4, "accumulate": 4, "epochs": 8, "rate": 3e-3},
        "bfloat16": {"precision": "bf16-mixed"},
        "weights averaged": {"averaged": True},
        "mirrored": {"flip": True},
        "the expert hesitates": {"noise": 0.1},
        "loss x 10000": {"times": 1e4},
        "clipped": {"clip": 0.02},
    },
    {
        "names in another order": ("no-skill overfit", {"fault": "names in another order"}),
        "power of zero": ("not-finite", {"fault": "power of zero"}),
        "white is the limit": (
            "dead saturated no-gradient no-skill collapse not-finite",
            {"fault": "white is the limit", "start": "white"},
        ),
        "softmax of the gains": ("range probabilities", {"fault": "softmax of the gains"}),
        "each photo normalised": ("inputs no-skill slow", {"norm": "instance"}),
        "batch norm of one": ("mode overfit no-skill", {"norm": "batch", "batch": 1, "epochs": 2}),
        "zero start": ("dead no-gradient no-skill collapse", {"start": "zeros"}),
        "bytes when evaluated": ("inputs overfit", {"fault": "bytes when evaluated"}),
        "expert in bytes": ("range fast no-skill", {"fault": "expert in bytes"}),
        "dark to bright": ("order", {"fault": "dark to bright", "rate": 1e-2}),
        "six photos": ("overfit", {"count": 6, "epochs": 600, "every": 30}),
        "one batch left on": ("overfit", {"batches": 1, "batch": 4, "epochs": 600, "every": 30}),
        "signal to noise minimised": (
            "worse no-skill fast not-finite", {"loss": "signal to noise"},
        ),
        "squared mean": ("no-skill collapse", {"loss": "squared mean"}),
        "rounded to bytes": ("no-gradient unbound no-skill", {"loss": "rounded"}),
        "no step by hand": ("no-gradient unbound no-skill slow", {"fault": "no step by hand"}),
        "optimizer of a copy": ("unbound no-skill", {"fault": "optimizer of a copy"}),
        "warm-up of 1000 epochs": ("schedule slow", {"schedule": "warm-up of 1000 epochs"}),
        "decay of one": ("no-skill collapse slow", {"decay": 1.0}),
        "rate x 1000": ("fast no-skill dead saturated worse not-finite", {"rate": 2.0}),
    },
)  # fmt: skip
