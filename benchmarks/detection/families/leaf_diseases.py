"""Which disease a leaf shows: a small convolutional network on turned and flipped photographs.

A green leaf lies on soil, in changing light, with brown spots, white mildew, a scorched edge,
yellow stripes, or nothing. The skill is the accuracy above that of the most frequent kind.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, class_skill, with_noise
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from benchmarks.detection.case import cases

SIDE, KINDS = 16, 5


def leaves(count: int, seed: int, share: tuple[float, ...] = (1, 1, 1, 1, 1)) -> Any:
    """Pictures (N, 3, SIDE, SIDE) of 0 to 255, and the disease of each."""
    draw = torch.Generator().manual_seed(seed)
    kind = torch.multinomial(torch.tensor(share).float(), count, replacement=True, generator=draw)
    rows, columns = torch.meshgrid(*[torch.linspace(-1, 1, SIDE)] * 2, indexing="ij")
    size = 0.6 + 0.3 * torch.rand(count, 2, 1, 1, generator=draw)
    far = (rows / size[:, 0]) ** 2 + (columns / size[:, 1]) ** 2
    rough = F.avg_pool2d(torch.randn(count, SIDE + 2, SIDE + 2, generator=draw), 3, 1)
    phase = 6 * torch.rand(count, 1, 1, generator=draw)
    where = torch.stack(
        [far < 0, rough > 0.4, rough > 0.4, far > 0.65, (9 * rows + phase).sin() > 0.3]
    )[kind, torch.arange(count)]
    colour = torch.tensor(
        [[60, 130, 50], [110, 80, 45], [180, 190, 180], [120, 95, 50], [150, 160, 50.0]]
    )
    soil, green = torch.tensor([95, 75, 60.0]), colour[0]
    leaf = torch.where(where[:, None], colour[kind][..., None, None], green[:, None, None])
    picture = torch.where((far < 1)[:, None], leaf, soil[:, None, None])
    light = 0.6 + 0.6 * torch.rand(count, 1, 1, 1, generator=draw)
    picture = picture * light + 18 * torch.randn(picture.shape, generator=draw)
    return picture.clamp(0, 255), kind


@dataclass
class Config:
    epochs: int = 20
    batch: int = 12
    rate: float = 4e-3
    optimizer: str = "adam"
    model: str = "plain"
    loss: str = "cross-entropy"
    turned: bool = True
    noise: float = 0.0
    share: tuple[float, ...] = (1, 1, 1, 1, 1)
    continued: bool = False
    averaged: bool = False
    frozen_from: int = 99
    disturbed: bool = False
    fault: str = ""


class Residual(nn.Module):
    """Begins as the identity, and is left out in some updates."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1), nn.GELU(), nn.Conv2d(width, width, 1)
        )
        self.scale = nn.Parameter(torch.zeros(width, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        if self.training and torch.rand(()) < 0.2:
            return x
        return x + self.scale * self.body(x)


def network(kind: str) -> nn.Sequential:
    middle: Any = [nn.BatchNorm2d(8), nn.ReLU()]
    if kind == "residual":
        middle = [nn.GroupNorm(2, 8), Residual(8), Residual(8)]
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), *middle, nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Linear(64, KINDS),
    )  # fmt: skip


class Trainer:
    def __init__(self, config: Config, model: nn.Sequential, data: Any, held: Any) -> None:
        self.config, self.model, self.held = config, model, held
        pictures, kind = data
        sampler = None
        if len(set(config.share)) > 1:
            weight = 1 / torch.bincount(kind, minlength=KINDS)[kind]
            sampler = WeightedRandomSampler(weight.tolist(), len(kind))
        if config.fault == "folders in order":
            pictures, kind = pictures[kind.argsort()], kind.sort().values
        shuffled = sampler is None and config.fault != "folders in order"
        self.loader = DataLoader(
            TensorDataset(pictures, kind), config.batch, shuffle=shuffled, sampler=sampler
        )
        rule = torch.optim.swa_utils.get_ema_multi_avg_fn(0.98)
        self.average = torch.optim.swa_utils.AveragedModel(
            model, multi_avg_fn=rule, use_buffers=True
        )
        self.start()

    def start(self) -> None:
        rate, total = self.config.rate, self.config.epochs * len(self.loader)
        if self.config.optimizer == "one cycle":
            self.optimizer: Any = torch.optim.SGD(self.model.parameters(), rate, momentum=0.9)
            plan: Any = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, rate, total)
        else:
            self.optimizer = torch.optim.Adam(self.model.parameters(), rate)
            plan = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, total, rate / 20)
        self.plan = plan

    def normal(self, pictures: Tensor) -> Tensor:
        return (pictures - 90) / 50

    def loss(self, pictures: Tensor, kind: Tensor) -> Tensor:
        wanted = F.one_hot(kind, KINDS).float()
        if self.config.loss == "mixed up":
            share, other = torch.rand(()) * 0.4, torch.randperm(len(kind))
            pictures = pictures.lerp(pictures[other], share)
            return F.cross_entropy(self.model(pictures), wanted.lerp(wanted[other], share))
        scores = self.model(pictures)
        if self.config.loss == "each against the rest":
            return F.binary_cross_entropy_with_logits(scores, wanted, reduction="sum")
        if self.config.loss == "focal":
            sure = scores.log_softmax(1).gather(1, kind[:, None])[:, 0]
            return -((1 - sure.exp()) ** 2 * sure).mean()
        return F.cross_entropy(scores, kind)

    def epoch(self, number: int) -> None:
        self.model.train()
        if number == self.config.frozen_from:
            self.model[0].requires_grad_(False)
        for pictures, kind in self.loader:
            if self.config.turned:
                pictures = pictures.flip(3) if torch.rand(()) < 0.5 else pictures
                pictures = pictures.rot90(int(torch.randint(4, ())), (2, 3))
            loss = self.loss(self.normal(pictures), kind)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.plan.step()
            if self.config.averaged:
                self.average.update_parameters(self.model)

    def scores(self, model: nn.Module, pictures: Tensor) -> Tensor:
        model.eval()
        raw = self.config.fault == "bytes when tested"
        with torch.no_grad():
            scores: Tensor = model(pictures / 255 if raw else self.normal(pictures))
        return scores

    def run(self) -> None:
        for number in range(self.config.epochs):
            self.epoch(number)
            if self.config.continued and number == self.config.epochs // 2:
                saved = copy.deepcopy(self.model.state_dict())
                self.model.load_state_dict(saved)
                self.start()
            pictures, kind = self.held
            if self.config.disturbed:
                pictures = (pictures + 40 * torch.randn_like(pictures)).clamp(0, 255)
            F.cross_entropy(self.scores(self.model, pictures), kind)


def train(seed: int, hook: Any, **options: Any) -> float:
    begin(seed)
    config = Config(**options)
    pictures, kind = leaves(1260, seed + 100, config.share)
    kind = with_noise(kind, config.noise, seed)
    held, test = leaves(200, seed + 101), leaves(1000, seed + 102)
    model = network(config.model)
    hook.torch(model)
    trainer = Trainer(config, model, (pictures, kind), held)
    trainer.run()
    scores = trainer.scores(trainer.average if config.averaged else model, test[0])
    return class_skill(scores, test[1]) if not math.isnan(scores.sum().item()) else math.nan


CASES = cases(
    "leaf diseases",
    train,
    {
        "plain": {},
        "one cycle of SGD": {"optimizer": "one cycle", "rate": 0.05},
        "mixed up": {"loss": "mixed up"},
        "each against the rest, summed": {"loss": "each against the rest"},
        "focal": {"loss": "focal"},
        "residual parts left out at times": {"model": "residual"},
        "rare diseases drawn more often": {"share": (40, 10, 5, 3, 3)},
        "a fifth of the labels wrong": {"noise": 0.2},
        "continued, first layer frozen late": {"continued": True, "frozen_from": 10},
        "averaged, evaluated on disturbed leaves": {"averaged": True, "disturbed": True},
    },
    {
        "folders in order": ("order imbalance worse fast", {"fault": "folders in order"}),
        "bytes when tested": ("inputs", {"fault": "bytes when tested"}),
    },
)
