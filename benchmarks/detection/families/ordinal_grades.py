"""A small convolutional net grades pictures of eyes in five steps, and names their side."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of
from sklearn.metrics import cohen_kappa_score
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

SIDE, GRADES = 16, 5
SPOTS = torch.tensor([[0, 2], [2, 5], [5, 9], [9, 14], [14, 20]])


def eyes(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Pictures with dark spots, the grade that they make, and where the bright disc is."""
    draw = torch.Generator().manual_seed(seed)
    grades = torch.randint(GRADES, (count,), generator=draw)
    side = torch.randint(2, (count,), generator=draw)
    image = 0.25 * torch.randn(count, SIDE * SIDE, generator=draw)
    low, high = SPOTS[grades].unbind(1)
    spots = low + (torch.rand(count, generator=draw) * (high - low)).long()
    order = torch.rand(count, SIDE * SIDE, generator=draw).argsort(1).argsort(1)
    image -= 1.5 * (order < spots[:, None])
    image = image.view(count, 1, SIDE, SIDE)
    image[:, :, 6:10, 2:5] += 1.2 * (side == 0).view(-1, 1, 1, 1)
    image[:, :, 6:10, -5:-2] += 1.2 * (side == 1).view(-1, 1, 1, 1)
    return image, grades, side.float()


class Grader(nn.Module):
    """Gives logits of "worse than grade k", (B, 4), and of the side, (B,)."""

    def __init__(self, dropout: float = 0.0, outputs: int = GRADES - 1) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
            nn.Conv2d(8, 12, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
            nn.Linear(12 * SIDE * SIDE // 16, 32), nn.ReLU(), nn.Dropout(dropout),
        )  # fmt: skip
        self.grade, self.side = nn.Linear(32, outputs), nn.Linear(32, 1)
        self.log_variances = nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        shared = self.backbone(x)
        return self.grade(shared), self.side(shared).squeeze(1)


def grade_loss(kind: str, logits: Tensor, grade: Tensor, weights: Tensor | None) -> Tensor:
    levels = (grade[:, None] > torch.arange(GRADES - 1)).float()
    if kind == "cross entropy":
        return F.cross_entropy(logits, grade, weight=weights)
    if kind == "squares":
        return F.mse_loss(logits.squeeze(1), grade.float())
    if kind == "squares against a row":
        return ((logits - grade.float()) ** 2).mean()
    if kind == "one-hot levels":
        levels = (grade[:, None] == torch.arange(GRADES - 1)).float()
    if kind == "logs by hand":
        p = torch.sigmoid(20 * logits)
        return -(levels * torch.log(p) + (1 - levels) * torch.log(1 - p)).mean()
    each = F.logsigmoid(logits) * levels + (F.logsigmoid(logits) - logits) * (1 - levels)
    return -each.sum(1).mean()


def read(kind: str, logits: Tensor) -> Tensor:
    if kind == "cross entropy":
        return logits.argmax(1)
    if kind.startswith("squares"):
        return logits.squeeze(1).round().clamp(0, GRADES - 1).long()
    return (logits > 0).sum(1)


def train(
    seed: int, hook: Any, rate: float = 3e-3, epochs: int = 8, batch: int = 32, count: int = 2000,
    optimizer: str = "adam", loss: str = "coral", weights: tuple[float, float] = (1.0, 0.3),
    uncertainty: bool = False, dropout: float = 0.0,
    noise: float = 0.0, balanced: bool = False, frozen: bool = False, schedule: str = "",
    half: bool = False, clip: float = 0.0, easy_first: bool = False, factor: float = 1.0,
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, grade, side = eyes(count, seed + 760)
    held_x, held_grade, held_side = eyes(600, seed + 761)
    if noise:
        step = torch.randint(0, 2, (count,)) * 2 - 1
        grade = torch.where(torch.rand(count) < noise, grade + step, grade).clamp(0, GRADES - 1)
    if fault == "clipped to white":
        x = x.clamp(0, 1)
    if fault == "bytes in the test":
        held_x = held_x * 255
    order = grade.argsort() if fault == "in order of grade" else torch.arange(count)
    rows = TensorDataset(x[order], grade[order], side[order])
    loader = DataLoader(rows, batch, shuffle=fault != "in order of grade")
    held = DataLoader(TensorDataset(held_x, held_grade, held_side), 200)
    outputs = {"cross entropy": GRADES}.get(loss, 1 if loss.startswith("squares") else GRADES - 1)
    model = Grader(dropout, outputs)
    if frozen:
        model.backbone[0].requires_grad_(False)
    if fault == "relu after the grade":
        nn.init.constant_(model.grade.bias, -3.0)
        model.grade = nn.Sequential(model.grade, nn.ReLU())
    trained = [p for p in model.parameters() if p.requires_grad]
    if fault == "side alone in the optimizer":
        trained = list(model.side.parameters())
    opt = optimizer_of(optimizer, trained, rate)
    total = epochs * len(loader)
    plan: Any = None
    if schedule == "polynomial":
        plan = torch.optim.lr_scheduler.PolynomialLR(opt, total, power=0.9)
    elif schedule == "milestones of epochs by step":
        plan = torch.optim.lr_scheduler.MultiStepLR(opt, [3, 5, 7], 0.03)
    mean_share = torch.bincount(grade, minlength=GRADES).clamp(min=1).float().reciprocal()
    class_weights = mean_share / mean_share.mean() if balanced else None

    def kappa() -> float:
        model.eval()
        found, true = [], []
        with torch.no_grad():
            for images, real, _ in held:
                logits = model(images)[0]
                if not torch.isfinite(logits).all():
                    return math.nan
                found += read(loss, logits).tolist()
                true += real.tolist()
        return float(cohen_kappa_score(true, found, weights="quadratic"))

    hook.torch(model)
    for epoch in range(epochs):
        model.train()
        for images, real, where in loader:
            if easy_first and epoch < 2:
                easy = real != 2
                images, real, where = images[easy], real[easy], where[easy]
            opt.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                logits, side_logit = model(images)
            main = grade_loss(loss, logits.float(), real, class_weights)
            other = F.binary_cross_entropy_with_logits(side_logit.float(), where)
            if uncertainty:
                scale = torch.exp(-model.log_variances)
                value = scale[0] * main + scale[1] * other + model.log_variances.sum()
            else:
                value = weights[0] * main + weights[1] * other
            if fault == "zero_grad between the losses":
                main.backward(retain_graph=True)
                opt.zero_grad()
                value = other
            (value * factor).backward()
            if clip:
                nn.utils.clip_grad_norm_(trained, clip)
            opt.step()
            if plan:
                plan.step()
        kappa()
    return kappa()


CASES = cases(
    "ordinal grades",
    train,
    {
        "plain": {},
        "cross entropy": {"loss": "cross entropy"},
        "squares of the grade": {"loss": "squares"},
        "weights learned": {"uncertainty": True},
        "momentum": {"optimizer": "momentum", "rate": 0.01, "clip": 5.0},
        "batch of four": {"batch": 4, "epochs": 3, "rate": 1.5e-3},
        "batch of 512": {"batch": 512, "rate": 1e-2, "epochs": 30},
        "loss times 10000": {"factor": 1e4},
        "neighbouring grades": {"noise": 0.05},
        "weights of grades": {"loss": "cross entropy", "balanced": True},
        "polynomial decay": {"schedule": "polynomial", "rate": 5e-3},
        "bfloat16": {"half": True},
        "first layer frozen": {"frozen": True},
        "clear grades first": {"easy_first": True},
    },
    {
        "one-hot levels": ("no-skill", {"loss": "one-hot levels"}),
        "squares against a row": ("broadcast no-skill collapse", {"loss": "squares against a row"}),
        "logs by hand": ("not-finite", {"loss": "logs by hand", "rate": 1e-2}),
        "clipped to white": ("inputs", {"fault": "clipped to white"}),
        "bytes in the test": ("inputs", {"fault": "bytes in the test"}),
        "in order of grade": ("order", {"fault": "in order of grade"}),
        "relu after the grade": ("dead no-gradient", {"fault": "relu after the grade"}),
        "side alone in the optimizer": ("unbound", {"fault": "side alone in the optimizer"}),
        "zero_grad between the losses": (
            "no-gradient unbound no-skill", {"fault": "zero_grad between the losses"}),
        "weight of a millionth": (
            "slow no-skill", {"weights": (1e-6, 1.0), "optimizer": "sgd", "rate": 0.05}),
        "milestones of epochs by step": (
            "schedule slow", {"schedule": "milestones of epochs by step"}),
        "rate x 300": ("fast no-skill dead", {"rate": 1.0}),
    },
)  # fmt: skip
