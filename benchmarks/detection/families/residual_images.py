"""A small ResNet sorts colour pictures of shapes, with crops and flips as for CIFAR-10."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, class_skill, optimizer_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.detection.case import cases

SIDE, KINDS = 16, 6
Transform = Callable[[Any], Tensor]


def pictures(count: int, seed: int) -> tuple[Any, Any]:
    """Bytes (N, side, side, 3): triangles up and down, bars of two directions, discs, rings."""
    draw = np.random.default_rng(seed)
    kind = draw.integers(KINDS, size=count)
    at = draw.integers(6, 10, size=(2, count, 1, 1))
    size = draw.integers(3, 6, size=(count, 1, 1))
    down = np.arange(SIDE).reshape(1, -1, 1) - at[0]
    right = np.arange(SIDE).reshape(1, 1, -1) - at[1]
    far = np.sqrt(down**2 + right**2)
    within = np.abs(down) <= size
    shapes = [
        within & (2 * np.abs(right) <= down + size), within & (2 * np.abs(right) <= size - down),
        (np.abs(down) <= 1) & (np.abs(right) <= size), (np.abs(right) <= 1) & within,
        far <= size - 0.5, np.abs(far - size + 0.5) <= 0.8,
    ]  # fmt: skip
    mask = np.select([kind.reshape(-1, 1, 1) == k for k in range(KINDS)], shapes)[..., None]
    paper = draw.uniform(60, 190, size=(count, 1, 1, 3))
    ink = paper + draw.choice([-1, 1], size=(count, 1, 1, 3)) * draw.uniform(
        60, 90, (count, 1, 1, 3)
    )
    image = np.where(mask, ink, paper) + draw.normal(0, 10, size=(count, SIDE, SIDE, 3))
    return image.clip(0, 255).astype(np.uint8), kind


def to_tensor(image: Any) -> Tensor:
    return torch.from_numpy(image).permute(2, 0, 1).float() / 255


def normalize(image: Tensor, deviation: float = 0.2) -> Tensor:
    return (image - 0.49) / deviation


def random_crop(image: Tensor) -> Tensor:
    padded = F.pad(image, (2, 2, 2, 2))
    top, left = torch.randint(5, (2,)).tolist()
    return padded[:, top : top + SIDE, left : left + SIDE]


def random_flip(image: Tensor) -> Tensor:
    return image.flip(2) if torch.rand(()) < 0.5 else image


def random_turn(image: Tensor) -> Tensor:
    return image.rot90(int(torch.randint(4, ())), (1, 2))


def random_erase(image: Tensor, side: int = 4) -> Tensor:
    top, left = torch.randint(SIDE - side + 1, (2,)).tolist()
    image = image.clone()
    image[:, top : top + side, left : left + side] = 0
    return image


class Pictures(Dataset):
    def __init__(self, images: Any, labels: Any, transform: Transform) -> None:
        self.images, self.labels, self.transform = images, labels, transform

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(self.images[index]), int(self.labels[index])


class Block(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int, norm: Callable[[int], Any]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = norm(width)
        same = inputs == width and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(inputs, width, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(out + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, norm: Callable[[int], Any], dropout: float, softmax: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, 1, 1, bias=False)
        self.bn1 = norm(8)
        self.layer1 = Block(8, 8, 1, norm)
        self.layer2 = Block(8, 16, 2, norm)
        self.layer3 = Block(16, 32, 2, norm)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(32, KINDS)
        self.softmax = softmax

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer3(self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x))))))
        scores: Tensor = self.fc(self.dropout(x.mean((2, 3))))
        return scores.softmax(1) if self.softmax else scores


def transforms(augment: str, fault: str) -> tuple[Transform, Transform]:
    """What is done to a picture in training, and in a test."""
    choices: dict[str, list[Transform]] = {
        "none": [], "flip": [random_flip], "crop": [random_crop, random_flip],
        "erase": [random_crop, random_flip, random_erase], "turn": [random_crop, random_turn],
        "erase all": [random_flip, lambda image: random_erase(image, SIDE)],
    }  # fmt: skip
    steps = choices[augment]

    def for_training(image: Any) -> Tensor:
        if fault == "integer division":
            image = image // 255
            x = torch.from_numpy(image).permute(2, 0, 1).float()
        else:
            x = to_tensor(image)
        for step in steps:
            x = step(x)
        return normalize(x, 0.0 if fault == "deviation of zero" else 0.2)

    def for_test(image: Any) -> Tensor:
        if fault == "test in bytes":
            return normalize(torch.from_numpy(image).permute(2, 0, 1).float())
        if fault == "test reshaped":
            return normalize(torch.from_numpy(image).reshape(3, SIDE, SIDE).float() / 255)
        return normalize(to_tensor(image))

    return for_training, for_test


def rate_at(epoch: int, epochs: int, schedule: str) -> float:
    if schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * epoch / epochs))
    if schedule == "restarts":
        return 0.5 * (1 + math.cos(math.pi * (2 * epoch / epochs % 1)))
    if schedule == "steps":
        return 0.1 ** (epoch // max(1, epochs // 2))
    return 1.0


def train(
    seed: int, hook: Any, epochs: int = 8, rate: float = 0.05, batch: int = 32, count: int = 1200,
    optimizer: str = "momentum", decay: float = 5e-4, schedule: str = "cosine",
    augment: str = "crop", norm: Callable[[int], Any] = nn.BatchNorm2d, dropout: float = 0.0,
    smoothing: float = 0.0, noise: float = 0.0, mixup: bool = False, ema: bool = False,
    bfloat16: bool = False, scale: float = 1.0, frozen: str = "", fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    images, labels = pictures(count, seed + 400)
    test_images, test_labels = pictures(600, seed + 401)
    draw = np.random.default_rng(seed)
    if fault == "labels of a sorted folder":
        labels = np.sort(labels)
    labels = np.where(draw.random(count) < noise, draw.integers(KINDS, size=count), labels)
    train_transform, test_transform = transforms(augment, fault)
    train_loader = DataLoader(Pictures(images, labels, train_transform), batch, shuffle=True)
    test_loader = DataLoader(Pictures(test_images, test_labels, test_transform), 200)
    model = ResNet(norm, dropout, fault == "softmax in the model")
    if fault == "weights of zero":
        for parameter in model.parameters():
            nn.init.zeros_(parameter)
    if frozen:
        getattr(model, frozen).requires_grad_(False)
    hook.torch(model)
    average = copy.deepcopy(model) if ema else model
    chosen = model.fc if fault == "head alone" else model
    optim = optimizer_of(optimizer, chosen.parameters(), rate, decay)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optim, lambda epoch: rate_at(epoch, epochs, schedule)
    )
    criterion = nn.CrossEntropyLoss(label_smoothing=smoothing)
    for _ in range(epochs):
        model.train()
        for x, y in train_loader:
            weight = float(draw.beta(0.2, 0.2)) if mixup else 1.0
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                scores = model(weight * x + (1 - weight) * x.flip(0) if mixup else x)
                loss = weight * criterion(scores, y) + (1 - weight) * criterion(scores, y.flip(0))
            if fault != "no zero_grad":
                optim.zero_grad()
            (loss * scale).backward()
            optim.step()
            if fault == "scheduler at each batch":
                scheduler.step()
            if ema:
                states = zip(
                    average.state_dict().values(), model.state_dict().values(), strict=True
                )
                for old, new in states:
                    old.copy_(torch.lerp(old.float(), new.float(), 0.02))
        if fault != "scheduler at each batch":
            scheduler.step()
        scores, y = evaluate(average, test_loader, criterion)
    return class_skill(scores, y)


def evaluate(model: nn.Module, loader: Any, criterion: nn.Module) -> tuple[Tensor, Tensor]:
    model.eval()
    total, found, wanted = 0.0, [], []
    with torch.no_grad():
        for x, y in loader:
            scores = model(x)
            total += criterion(scores, y).item() * len(y)
            found.append(scores)
            wanted.append(y)
    return torch.cat(found), torch.cat(wanted)


CASES = cases(
    "residual images",
    train,
    {
        "plain": {},
        "Adam": {"optimizer": "adam", "rate": 3e-3, "decay": 0.0},
        "batch of 256": {"batch": 256, "rate": 0.15, "epochs": 20, "augment": "flip"},
        "steps of the rate": {"schedule": "steps"},
        "warm restarts": {"schedule": "restarts", "epochs": 10},
        "label smoothing": {"smoothing": 0.1},
        "labels with noise": {"noise": 0.05, "epochs": 10},
        "mixup": {"mixup": True, "epochs": 10},
        "cutout": {"augment": "erase", "epochs": 10, "optimizer": "adam", "rate": 4e-3},
        "moving average": {"ema": True, "epochs": 10},
        "bfloat16": {"bfloat16": True},
        "group norm": {
            "norm": lambda width: nn.GroupNorm(4, width), "epochs": 10,
            "optimizer": "adam", "rate": 4e-3,
        },
        "first layer frozen": {"frozen": "conv1"},
        "dropout": {"dropout": 0.2, "epochs": 10},
        "loss x 10,000": {"optimizer": "adam", "rate": 3e-3, "decay": 0.0, "scale": 1e4},
    },
    {
        "labels of a sorted folder": ("no-skill overfit", {"fault": "labels of a sorted folder"}),
        "test in bytes": ("inputs", {"fault": "test in bytes"}),
        "test reshaped, not permuted": ("inputs overfit", {"fault": "test reshaped"}),
        "integer division": ("inputs no-skill", {"fault": "integer division"}),
        "turns of what has a direction": ("inputs overfit no-skill", {"augment": "turn"}),
        "erases the whole picture": ("inputs no-skill collapse", {"augment": "erase all"}),
        "softmax in the model": (
            "probabilities",
            {"fault": "softmax in the model", "rate": 5e-3, "optimizer": "sgd"},
        ),
        "scheduler at each batch": (
            "schedule slow",
            {"fault": "scheduler at each batch", "schedule": "steps"},
        ),
        "no zero_grad": ("kept-gradients", {"fault": "no zero_grad"}),
        "head alone": ("unbound slow", {"fault": "head alone"}),
        "weights of zero": ("dead no-gradient no-skill collapse", {"fault": "weights of zero"}),
        "weight decay of 0.3": ("collapse no-skill dead", {"decay": 0.3}),
        "rate of 30": ("fast not-finite no-skill dead", {"rate": 30.0}),
        "forty pictures": ("overfit", {"count": 40, "augment": "none", "epochs": 150}),
        "deviation of zero": ("not-finite", {"fault": "deviation of zero"}),
    },
)  # fmt: skip
