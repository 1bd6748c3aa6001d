"""Motion between two frames: dense optical flow by correlation of features, with Lightning.

A smooth random texture is shifted, turned and enlarged a little, under noise. For each pixel the
network says how far it moved; the loss is the end point error. The skill is one less the end point
error on other pairs, as a share of that of no motion at all.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.detection.case import cases

SIDE, REACH = 16, 2


def moved(picture: Tensor, flow: Tensor, in_pixels: bool = True) -> Tensor:
    """The picture (N, 1, SIDE, SIDE), each pixel taken from where the flow says it went."""
    place = torch.linspace(-1, 1, SIDE)
    grid = torch.stack(torch.meshgrid(place, place, indexing="xy"), -1)
    away = flow.permute(0, 2, 3, 1) * (2 / (SIDE - 1) if in_pixels else 1.0)
    return F.grid_sample(picture, grid + away, align_corners=True, padding_mode="border")


def pairs(count: int, seed: int) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    coarse = torch.randn(count, 1, 8, 8, generator=draw)
    second = F.interpolate(coarse, SIDE, mode="bicubic", align_corners=True)
    second = second + 0.4 * torch.randn(second.shape, generator=draw)
    second = F.avg_pool2d(F.pad(second, (1, 1, 1, 1), "replicate"), 3, 1)
    shift = 2.6 * torch.rand(count, 2, 1, 1, generator=draw) - 1.3
    turn, grow = 0.1 * torch.randn(2, count, 1, 1, generator=draw)
    place = torch.arange(SIDE) - (SIDE - 1) / 2
    down, across = torch.meshgrid(place, place, indexing="ij")
    swirl = torch.stack([grow * across - turn * down, grow * down + turn * across], 1)
    flow = (shift + swirl).clamp(-REACH, REACH)
    frames = torch.cat([moved(second, flow), second], 1)
    known = torch.rand(count, 1, SIDE, SIDE, generator=draw) < 0.3
    frames = frames / frames.std() + 0.05 * torch.randn(frames.shape, generator=draw)
    return {"frames": frames, "flow": flow, "known": known}


class Pairs(Dataset):
    def __init__(self, data: dict[str, Tensor], turned: str = "") -> None:
        self.data, self.turned = data, turned

    def __len__(self) -> int:
        return len(self.data["flow"])

    def __getitem__(self, number: int) -> dict[str, Tensor]:
        item = {key: part[number] for key, part in self.data.items()}
        if self.turned and torch.rand(()) < 0.5:
            item = {key: part.flip(-1) for key, part in item.items()}
            if self.turned == "with its sign":
                item["flow"] = item["flow"] * torch.tensor([-1.0, 1.0])[:, None, None]
        return item


class FlowNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Conv2d(1, 8, 3, padding=1)
        self.decoder = nn.Sequential(
            nn.Conv2d(8 + (2 * REACH + 1) ** 2, 32, 3, padding=1), nn.LeakyReLU(0.1),
            nn.Conv2d(32, 32, 3, padding=2, dilation=2), nn.LeakyReLU(0.1),
            nn.Conv2d(32, 2, 3, padding=1),
        )  # fmt: skip

    def forward(self, frames: Tensor) -> Tensor:
        first, second = self.features(frames[:, :1]), self.features(frames[:, 1:])
        patches = F.unfold(second, 2 * REACH + 1, padding=REACH)
        patches = patches.view(len(frames), 8, -1, SIDE, SIDE)
        cost = -(first[:, :, None] - patches).abs().mean(1)
        out: Tensor = self.decoder(torch.cat([cost, first], 1))
        return out


def train(
    seed: int, hook: Any, loss: str = "end point", rate: float = 3e-3, epochs: int = 6,
    batch: int = 8, optimizer: str = "adam", turned: str = "",
    clip: float | None = None, fault: str = "",
) -> float:  # fmt: skip
    import lightning

    begin(seed)
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    data, held, test = (pairs(n, seed + 620 + i) for i, n in enumerate((1000, 64, 200)))
    if fault == "one frame twice":
        data["frames"] = data["frames"][:, :1].expand(-1, 2, -1, -1)

    class Flow(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = FlowNet()

        def error(self, rows: dict[str, Tensor]) -> Tensor:
            found, wanted, frames = self.net(rows["frames"]), rows["flow"], rows["frames"]
            if loss == "photometric":
                back = moved(frames[:, 1:], found, in_pixels=False)
                rough = found.diff(dim=2).abs().mean() + found.diff(dim=3).abs().mean()
                return (back - frames[:, :1]).abs().mean() + 0.05 * rough
            if fault == "unknown as zero":
                wanted = wanted * rows["known"]
            gap = (found - wanted).square().sum(1, keepdim=True)
            if fault == "root of zero":
                return (gap * rows["known"]).sqrt().mean()
            gap = (gap + 1e-8).sqrt()
            if loss == "sparse":
                return gap[rows["known"]].mean()
            return gap.sum((1, 2, 3)).mean() if loss == "summed" else gap.mean()

        def training_step(self, rows: dict[str, Tensor], number: int) -> Tensor:
            return self.error(rows)

        def validation_step(self, rows: dict[str, Tensor], number: int) -> None:
            self.log("val/loss", self.error(rows))

        def configure_optimizers(self) -> Any:
            steps = optimizer_of(optimizer, self.parameters(), rate)
            if optimizer == "adam":
                return steps
            total = int(self.trainer.estimated_stepping_batches)
            planned = torch.optim.lr_scheduler.OneCycleLR(steps, rate, total, pct_start=0.1)
            return [steps], [{"scheduler": planned, "interval": "step"}]

    loader = DataLoader(Pairs(data, turned), batch, shuffle=True)
    flow = Flow()
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=[hook.lightning()], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        gradient_clip_val=clip,
    )  # fmt: skip
    trainer.fit(flow, loader, DataLoader(Pairs(held), 64))
    flow.eval()
    with torch.no_grad():
        found = flow.net(test["frames"])
        error, motion = (found - test["flow"]).norm(dim=1), test["flow"].norm(dim=1)
        return 1 - float(error.mean() / motion.mean())


CASES = cases(
    "frame motion",
    train,
    {
        "plain": {},
        "summed over pixels": {"loss": "summed"},
        "AdamW, one cycle, clipped": {"optimizer": "adamw", "rate": 8e-3, "clip": 1.0},
        "mirrored with its sign": {"turned": "with its sign", "epochs": 7},
        "sparse measurements": {"loss": "sparse", "epochs": 7},
    },
    {
        "mirrored without its sign": ("no-skill", {"turned": "without"}),
        "pixels for the grid": ("range no-skill", {"loss": "photometric"}),
        "unknown as zero": ("ignored range no-skill collapse", {"fault": "unknown as zero"}),
        "root of zero": ("not-finite", {"fault": "root of zero"}),
        "one frame twice": ("inputs no-skill", {"fault": "one frame twice"}),
    },
)
