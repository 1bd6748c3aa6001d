"""A conditional GAN paints facades after label maps, with a U-shaped generator."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIDE = 16
LABELS = torch.tensor([[0, 0, 170], [0, 85, 255], [255, 85, 0], [170, 255, 85], [255, 0, 0]])
PAINT = torch.tensor(
    [[150, 190, 230], [190, 150, 120], [60, 70, 110], [120, 80, 40], [150, 60, 50]]
)


def facades(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Label maps and pictures, as bytes (N, 3, SIDE, SIDE): sky, wall, windows, a door, a roof."""
    draw = np.random.default_rng(seed)
    kinds = np.zeros((count, SIDE, SIDE), dtype=np.int64)
    for house in kinds:
        top, left, right = draw.integers(2, 7), draw.integers(0, 4), SIDE - draw.integers(0, 4)
        house[top:, left:right] = 1
        house[top - 2 : top, left:right] = 4
        columns, wide = draw.integers(left + 1, left + 3), draw.integers(2, 4)
        for row, column in itertools.product(
            range(top + 1, SIDE - 4, 4), range(columns, right - wide, wide + 2)
        ):
            house[row : row + 2, column : column + wide] = 2
        door = draw.integers(left + 1, right - 3)
        house[SIDE - 4 :, door : door + 3] = 3
    kind = torch.as_tensor(kinds)
    maps = LABELS[kind].movedim(-1, 1).float()
    edges = (F.avg_pool2d(maps, 3, 1, 1) - maps).abs().mean(1, keepdim=True) > 20
    light = torch.linspace(1.25, 0.75, SIDE).view(1, 1, SIDE, 1)
    picture = PAINT[kind].movedim(-1, 1) * light * torch.where(edges, 0.55, 1.0)
    grain = torch.as_tensor(draw.normal(0, 8, picture.shape))
    return maps, (picture + grain).clamp(0, 255).float()


def block(inputs: int, units: int, norm: bool = True, slope: float = 0.2) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(inputs, units, 4, 2, 1)]
    layers += [nn.BatchNorm2d(units)] if norm else []
    return nn.Sequential(*layers, nn.LeakyReLU(slope))


class Generator(nn.Module):
    def __init__(self, width: int = 12, last: str = "tanh"):
        super().__init__()
        self.first, self.second = block(3, width, norm=False), block(width, 2 * width)
        self.third = block(2 * width, 2 * width)
        self.up_third = nn.Sequential(
            nn.ConvTranspose2d(2 * width, 2 * width, 4, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU(),
        )  # fmt: skip
        self.up_second = nn.Sequential(
            nn.ConvTranspose2d(4 * width, width, 4, 2, 1), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.up_first = nn.ConvTranspose2d(2 * width, width, 4, 2, 1)
        self.head = nn.Conv2d(width + 3, 3, 3, 1, 1)
        self.last = {"tanh": nn.Tanh(), "sigmoid": nn.Sigmoid()}[last]

    def forward(self, maps: Tensor) -> Tensor:
        first = self.first(maps)
        second = self.second(first)
        up = self.up_second(torch.cat([self.up_third(self.third(second)), second], 1))
        up = F.relu(self.up_first(torch.cat([up, first], 1)))
        painted: Tensor = self.last(self.head(torch.cat([up, maps], 1)))
        return painted


class Discriminator(nn.Module):
    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            block(6, width, norm=False), block(width, 2 * width), nn.Conv2d(2 * width, 1, 3, 1, 1)
        )

    def forward(self, maps: Tensor, picture: Tensor) -> Tensor:
        scores: Tensor = self.layers(torch.cat([maps, picture], 1))
        return scores


def init_weights(net: nn.Module, std: float) -> None:
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            nn.init.normal_(module.weight, 0.0, std)
            nn.init.zeros_(module.bias)


def jittered(picture: Tensor, draw: torch.Generator) -> Tensor:
    """Padded by two and cropped at random, and mirrored at times, as of the draw."""
    top, left = torch.randint(5, (2,), generator=draw).tolist()
    if torch.rand((), generator=draw) < 0.5:
        picture = picture.flip(-1)
    return F.pad(picture, (2, 2, 2, 2), "replicate")[..., top : top + SIDE, left : left + SIDE]


def adversarial(scores: Tensor, real: bool, mode: str) -> Tensor:
    if mode == "least squares":
        return F.mse_loss(scores, torch.full_like(scores, float(real)))
    if mode == "by hand":
        share = torch.sigmoid(scores * 40)
        return -(share if real else 1 - share).log().mean()
    return F.binary_cross_entropy_with_logits(scores, torch.full_like(scores, float(real)))


def skill(generator: nn.Module, maps: Tensor, pictures: Tensor, usual: Tensor) -> float:
    """The share of the squared distance to the usual picture that is explained."""
    generator.eval()
    with torch.no_grad():
        painted = generator(maps)
    left, spread = ((other - pictures) ** 2 for other in (painted, usual))
    return 1 - float(left.mean() / spread.mean())


def train(
    seed: int, hook: Any, rate: float = 2e-3, discriminator_rate: float = 5e-4, epochs: int = 10,
    batch: int = 8, count: int = 400, weight: float = 100.0, mode: str = "cross-entropy",
    decay_from: int | None = None, std: float = 0.02, noise: float = 0.0, scale: float = 1.0,
    average: float = 0.0, half: bool = False, last: str = "tanh", second: bool = False,
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    maps, pictures = facades(count, seed + 600)
    held_maps, held_pictures = facades(100, seed + 6600)
    if fault == "folders listed apart" or noise:
        other = torch.randperm(count)
        wrong = torch.rand(count) < (noise or 1.0)
        pictures = torch.where(wrong.view(-1, 1, 1, 1), pictures[other], pictures)
    maps, pictures, held_pictures = (x / 127.5 - 1 for x in (maps, pictures, held_pictures))
    held_maps = held_maps if fault == "bytes at test" else held_maps / 127.5 - 1
    if fault == "targets in bytes":
        pictures, held_pictures = ((x + 1) * 127.5 for x in (pictures, held_pictures))
    usual = pictures.mean(0)

    painter = Generator(last=last)
    critic = Discriminator()
    if std:
        init_weights(painter, std)
        init_weights(critic, std)
    painter_optimizer = torch.optim.Adam(painter.parameters(), rate, (0.5, 0.999))
    critic_optimizer = torch.optim.Adam(critic.parameters(), discriminator_rate, (0.5, 0.999))
    keeps = epochs if decay_from is None else decay_from

    def line(epoch: int) -> float:
        if fault == "decay below zero":
            return 1 - max(0, epoch - 20) / 60
        return 1 - max(0, epoch - keeps) / (epochs - keeps + 1)

    schedulers = [
        torch.optim.lr_scheduler.LambdaLR(optimizer, line)
        for optimizer in (painter_optimizer, critic_optimizer)
    ]
    averaged = torch.optim.swa_utils.AveragedModel(
        painter, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(average), use_buffers=True
    )
    draw = torch.Generator().manual_seed(seed + 3)
    hook.torch(painter)

    for _ in range(epochs):
        painter.train()
        for rows in torch.randperm(count).split(batch):
            real_a, real_b = maps[rows], pictures[rows]
            if fault == "jitter":
                real_a, real_b = jittered(real_a, draw), jittered(real_b, draw)
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                fake_b = painter(real_a)
            fake_b = fake_b.float()

            critic_optimizer.zero_grad()
            says_real = critic(real_a, real_b)
            says_fake = critic(real_a, fake_b.detach())
            loss_d = adversarial(says_real, True, mode) + adversarial(says_fake, False, mode)
            (0.5 * scale * loss_d).backward()
            critic_optimizer.step()

            painter_optimizer.zero_grad()
            shown = fake_b.detach() if fault == "detached" else fake_b
            target = real_a if fault == "distance to the map" else real_b
            loss_l1 = F.mse_loss(shown, target) * 2 if second else F.l1_loss(shown, target)
            loss_g = adversarial(critic(real_a, shown), True, mode) + weight * loss_l1
            (loss_g * scale).backward()
            painter_optimizer.step()
            averaged.update_parameters(painter)
            if fault == "decay below zero":
                schedulers[0].step()
        if fault != "decay below zero":
            for scheduler in schedulers:
                scheduler.step()
        painter.eval()
        with torch.no_grad():
            painted = painter(held_maps)
            F.l1_loss(painted, held_pictures)
            -10 * np.log10(((painted - held_pictures).numpy() ** 2).mean() / 4)
    return skill(averaged.module if average else painter, held_maps, held_pictures, usual)


CASES = cases(
    "map to facade",
    train,
    {
        "plain": {},
        "batch of one": {"batch": 1, "epochs": 3, "rate": 5e-4},
        "batch of 128": {"batch": 128, "epochs": 70, "rate": 6e-3},
        "decay from the middle": {"decay_from": 5},
        "least squares": {"mode": "least squares"},
        "some pairs wrong": {"noise": 0.05, "epochs": 12},
        "weight of 10": {"weight": 10.0},
        "loss x 10000": {"scale": 1e4},
        "averaged weights": {"average": 0.95},
        "bfloat16": {"half": True},
        "start of the library": {"std": 0.0},
        "squared distance": {"second": True},
    },
    {
        "folders listed apart": ("no-skill overfit", {"fault": "folders listed apart"}),
        "distance to the map": ("no-skill leak", {"fault": "distance to the map"}),
        "jitter of each its own": ("no-skill", {"fault": "jitter"}),
        "generator detached": ("no-gradient unbound", {"fault": "detached"}),
        "targets in bytes": ("range no-skill saturated", {"fault": "targets in bytes"}),
        "sigmoid as the last": ("range", {"last": "sigmoid"}),
        "bytes at test": ("inputs", {"fault": "bytes at test"}),
        "logarithm by hand": ("not-finite", {"mode": "by hand", "discriminator_rate": 0.02}),
        "rate of 0.5": ("fast no-skill saturated", {"rate": 0.5}),
        "rate of 2e-6": ("slow no-skill", {"rate": 2e-6}),
        "decay below zero": ("schedule fast worse", {"fault": "decay below zero"}),
        "six pairs": ("overfit", {"count": 6, "epochs": 250}),
    },
)
