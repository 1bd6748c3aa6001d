"""Classes of scanned shapes from clouds of points, by a PointNet or an edge convolution (DGCNN).

A scan has 48 points in millimetres somewhere in a room, in no order. It is moved to the origin
and scaled to the unit ball; training turns it about the upright axis and jitters it. The skill is
the mean recall of nine classes on shapes never seen, above chance.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import balanced_skill, begin, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

SHAPES = ("ball", "box", "cylinder", "cone", "ring", "cup", "table", "chair", "lamp")
CLASSES, POINTS = len(SHAPES), 48


def around(radius: Tensor, height: Tensor, turn: Tensor) -> Tensor:
    return torch.stack([radius * turn.cos(), radius * turn.sin(), height], -1)


def cuboid(where: Tensor, low: tuple[float, ...], high: tuple[float, ...]) -> Tensor:
    """Points within, from ``where`` in the unit cube."""
    return torch.tensor(low) + where * (torch.tensor(high) - torch.tensor(low))


def shape(name: str, count: int, draw: torch.Generator) -> Tensor:
    """(count, POINTS, 3), upright along the last axis."""
    where = torch.rand(count, POINTS, 3, generator=draw)
    turn, height, share = 2 * torch.pi * where[..., 0], where[..., 1], where[..., 2]
    part = torch.rand(count, POINTS, 1, generator=draw)
    legs = torch.stack([where[..., 0].round(), where[..., 2].round(), height], -1)
    legs = cuboid(legs, (-0.8, -0.8, 0.0), (0.8, 0.8, 1.0))
    seat = cuboid(where, (-1.0, -1.0, 1.0), (1.0, 1.0, 1.1))
    one = torch.ones_like(height)
    if name == "ball":
        return F.normalize(torch.randn(count, POINTS, 3, generator=draw), dim=-1)
    if name == "box":
        axis = F.one_hot((3 * part[..., 0]).long(), 3)
        return torch.where(axis == 1, where.round(), where) * 2 - 1
    if name in ("cylinder", "cup"):
        cap = around(share.sqrt(), height.round() * (name == "cylinder"), turn)
        return torch.where(part < 0.3, cap, around(one, height, turn)) * torch.tensor([1, 1, 1.8])
    if name == "cone":
        side = around(1 - height, 1.8 * height, turn)
        return torch.where(part < 0.3, around(share.sqrt(), 0 * one, turn), side)
    if name == "ring":
        tube = 2 * torch.pi * share
        return around(1 + 0.3 * tube.cos(), 0.3 * tube.sin(), turn)
    if name == "table":
        return torch.where(part < 0.5, seat, legs)
    if name == "chair":
        back = cuboid(where, (-1.0, 0.9, 1.0), (1.0, 1.0, 2.2))
        return torch.where(part < 0.35, seat, torch.where(part < 0.65, back, legs))
    shade = around(1 - 0.5 * height, 1.4 + 0.6 * height, turn)
    pole = around(0.05 * one, 1.5 * height, turn)
    foot = around(0.6 * share.sqrt(), 0 * one, turn)
    return torch.where(part < 0.5, shade, torch.where(part < 0.75, pole, foot))


def scans(count: int, seed: int, share: list[float] | None = None) -> tuple[Tensor, Tensor]:
    """Clouds in millimetres and their classes."""
    draw = torch.Generator().manual_seed(seed)
    chances = torch.tensor(share or [1.0] * CLASSES)
    y = torch.multinomial(chances, count, replacement=True, generator=draw)
    clouds = torch.empty(count, POINTS, 3)
    for number, name in enumerate(SHAPES):
        clouds[y == number] = shape(name, int((y == number).sum()), draw)
    clouds = clouds * (0.7 + 0.6 * torch.rand(count, 1, 3, generator=draw))
    clouds = turned(clouds, draw) + 0.04 * torch.randn(clouds.shape, generator=draw)
    size = 200 + 400 * torch.rand(count, 1, 1, generator=draw)
    room = 3000 * (2 * torch.rand(count, 1, 3, generator=draw) - 1)
    return clouds * size + room, y


def turned(clouds: Tensor, draw: torch.Generator | None = None) -> Tensor:
    """Each by an angle of its own about the upright axis."""
    angle = 2 * torch.pi * torch.rand(len(clouds), 1, generator=draw)
    x, y, z = clouds.unbind(-1)
    return torch.stack([angle.cos() * x - angle.sin() * y, angle.sin() * x + angle.cos() * y, z], 2)


def normalised(clouds: Tensor) -> Tensor:
    clouds = clouds - clouds.mean(1, keepdim=True)
    return clouds / clouds.norm(dim=-1).amax(1)[:, None, None]


class Turner(nn.Module):
    """A matrix for each cloud (T-Net), the identity at first."""

    def __init__(self) -> None:
        super().__init__()
        self.points = nn.Sequential(nn.Conv1d(3, 24, 1), nn.ReLU(), nn.Conv1d(24, 32, 1))
        self.matrix = nn.Linear(32, 9)
        nn.init.zeros_(self.matrix.weight)
        self.matrix.bias.data.copy_(torch.eye(3).flatten())

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.matrix(F.relu(self.points(x).amax(2)))
        return out.view(-1, 3, 3)


class PointNet(nn.Module):
    def __init__(self, kind: str, norm: str, pooling: str, dropout: float, fault: str) -> None:
        super().__init__()
        self.kind, self.pooling, self.fault = kind, pooling, fault
        self.turner = Turner() if kind == "turned" else None
        self.matrix = torch.eye(3)[None]
        layers: list[nn.Module] = []
        for inputs, units in ((6 if kind == "edges" else 3, 32), (32, 48), (48, 64)):
            layers.append(nn.Conv1d(inputs, units, 1))
            if norm != "none":
                layers.append(nn.BatchNorm1d(units) if norm == "batch" else nn.GroupNorm(4, units))
            layers.append(nn.ReLU())
        self.points = nn.Sequential(*layers)
        pooled = POINTS if pooling == "channels" else 64
        self.head = nn.Sequential(
            nn.Linear(pooled, 48), nn.ReLU(), nn.Dropout(dropout), nn.Linear(48, CLASSES)
        )

    def forward(self, clouds: Tensor) -> Tensor:
        x = clouds.transpose(1, 2)
        if self.fault == "reshaped":
            x = clouds.reshape(len(clouds), 3, -1)
        if self.turner is not None:
            self.matrix = self.turner(x)
            x = self.matrix @ x
        if self.kind == "edges":
            near = torch.cdist(clouds, clouds).topk(5, largest=False).indices[..., 1:]
            rows = torch.arange(len(clouds))[:, None, None]
            edges = clouds[rows, near] - clouds[:, :, None]
            both = torch.cat([edges, clouds[:, :, None].expand_as(edges)], -1)
            h = self.points(both.flatten(1, 2).transpose(1, 2))
        else:
            h = self.points(x)
        if self.fault == "places of the highest":
            h = h.argmax(2, keepdim=True).float()
        out: Tensor = self.head(h.amax(1 if self.pooling == "channels" else 2))
        return out


def loss_of(kind: str, scores: Tensor, y: Tensor, weights: Tensor | None) -> Tensor:
    if kind in ("likelihood", "softmax over the batch"):
        return F.nll_loss(F.log_softmax(scores, 1 if kind == "likelihood" else 0), y)
    return F.cross_entropy(scores, y, weights, label_smoothing=0.2 if kind == "smoothed" else 0.0)


def train(
    seed: int, hook: Any, kind: str = "plain", loss: str = "cross-entropy", rate: float = 2e-3,
    epochs: int = 6, batch: int = 16, optimizer: str = "adamw", schedule: str = "constant",
    norm: str = "batch", pooling: str = "max", dropout: float = 0.0, decay: float = 0.0,
    jitter: float = 0.02, noise: float = 0.0, times: float = 1.0,
    count: int = 1600, accumulate: int = 1, average: float = 0.0, bfloat16: bool = False,
    evaluated: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    rare = [1.0] + [0.004] * 8 if fault == "rare shapes" else None
    share = [3.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5] if fault == "weights" else rare
    clouds, y = scans(count, seed + 6200, share)
    held, held_y = scans(200, seed + 6201)
    test, test_y = scans(800, seed + 6202)
    if fault == "the same objects held out":
        clouds, y = (part.repeat(66, *[1] * (part.dim() - 1)) for part in (clouds, y))
        held, held_y = clouds[:200], y[:200]
    if fault == "empty scans":
        clouds[::40] = 0.0
    if fault != "millimetres":
        clouds, held, test = normalised(clouds), normalised(held), normalised(test)
    if fault == "lying when evaluated":
        held, test = held.roll(1, 2), test.roll(1, 2)
    if fault == "files in another order":
        y = y[torch.tensor(sorted(range(len(y)), key=str))]
    if fault == "shape after shape":
        clouds, y = clouds[y.argsort()], y.sort().values
    if noise:
        y = torch.where(torch.rand(len(y)) < noise, torch.randint(CLASSES, (len(y),)), y)

    model = PointNet(kind, norm, pooling, dropout, fault)
    hook.torch(model)
    chosen = list(model.parameters())
    if fault == "only what has one axis":
        chosen = [p for p in chosen if p.dim() == 1]
    updates: Any = torch.optim.AdamW(chosen, rate, weight_decay=decay)
    if optimizer == "nadam":
        updates = torch.optim.NAdam(chosen, rate)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(clouds, y), batch * accumulate,
        shuffle=fault != "shape after shape", drop_last=len(y) > batch * accumulate,
    )  # fmt: skip
    scheduler = scheduler_of(updates, schedule, epochs * len(loader))
    if schedule == "steps":
        between = 5 if fault == "steps of updates" else len(loader)
        scheduler = torch.optim.lr_scheduler.StepLR(updates, between, 0.7)
    weights = len(y) / CLASSES / torch.bincount(y).clamp(min=1) if fault == "weights" else None
    averaged = copy.deepcopy(model)
    for epoch in range(epochs):
        model.train()
        if fault == "statistics fade":
            for part in model.modules():
                if isinstance(part, nn.BatchNorm1d):
                    part.momentum = 1e-3 * 0.5**epoch
        for rows, wanted in loader:
            if jitter:
                rows = turned(rows) + jitter * torch.randn_like(rows)
            updates.zero_grad()
            for each, right in zip(rows.split(batch), wanted.split(batch), strict=True):
                with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                    error = loss_of(loss, model(each), right, weights)
                if kind == "turned":
                    off = torch.eye(3) - model.matrix @ model.matrix.mT
                    weight = -0.5 if fault == "regulariser subtracted" else 0.01
                    error = error + weight * (off**2).sum((1, 2)).mean()
                (error * times / accumulate).backward()
            updates.step()
            scheduler.step()
            if average:
                for slow, fast in zip(averaged.parameters(), model.parameters(), strict=True):
                    slow.data.lerp_(fast.data, 1 - average)
        if evaluated:
            model.eval()
            with torch.no_grad():
                loss_of(loss, model(held), held_y, None)
    if average:
        model.load_state_dict(dict(averaged.named_parameters()), strict=False)
    model.eval()
    with torch.no_grad():
        return balanced_skill(model(test), test_y)


CASES = cases(
    "point clouds",
    train,
    {
        "plain": {},
        "turned by a network": {"kind": "turned"},
        "edge convolution": {"kind": "edges", "rate": 3e-3, "epochs": 9},
        "NAdam, cosine": {"optimizer": "nadam", "rate": 4e-3, "schedule": "cosine"},
        "rate falls by steps": {"schedule": "steps", "rate": 4e-3},
        "restarts": {"schedule": "restarts", "rate": 4e-3},
        "warm-up, decay": {"schedule": "warmup", "decay": 0.1},
        "batch of four": {"batch": 4, "epochs": 5, "rate": 1.5e-3, "norm": "group"},
        "batch of 64": {"batch": 64, "epochs": 16, "rate": 4e-3},
        "log-likelihood, no evaluation": {"loss": "likelihood", "evaluated": False},
        "smoothed labels": {"loss": "smoothed"},
        "labels with noise": {"noise": 0.1, "epochs": 9},
        "weighted classes": {"fault": "weights", "epochs": 8},
        "loss x 10000": {"times": 1e4},
        "accumulated": {"batch": 8, "accumulate": 4, "epochs": 8, "norm": "group", "rate": 4e-3},
        "average of weights": {"average": 0.98},
        "bfloat16, dropout": {"bfloat16": True, "dropout": 0.2, "epochs": 8},
    },
    {
        "coordinates reshaped": ("inputs no-skill slow overfit", {"fault": "reshaped"}),
        "pooled over the channels": ("no-skill slow overfit", {"pooling": "channels"}),
        "places of the highest": (
            "no-gradient unbound no-skill slow inputs", {"fault": "places of the highest"},
        ),
        "millimetres": ("inputs no-skill fast dead", {"fault": "millimetres", "norm": "none"}),
        "lying when evaluated": ("inputs overfit", {"fault": "lying when evaluated"}),
        "jitter of a metre": ("inputs no-skill slow", {"jitter": 1.0}),
        "files in another order": ("no-skill overfit", {"fault": "files in another order"}),
        "shape after shape": ("order", {"fault": "shape after shape"}),
        "rare shapes": ("imbalance collapse", {"fault": "rare shapes"}),
        "the same objects held out": (
            "leak overfit", {"fault": "the same objects held out", "count": 24, "jitter": 0.0},
        ),
        "few shapes": ("overfit", {"count": 20, "epochs": 200, "jitter": 0.0}),
        "empty scans": ("not-finite", {"fault": "empty scans"}),
        "statistics fade": ("mode overfit", {"fault": "statistics fade"}),
        "softmax over the batch": (
            "softmax-axis probabilities no-skill", {"loss": "softmax over the batch"},
        ),
        "regulariser subtracted": (
            "worse not-finite no-skill fast", {"kind": "turned", "fault": "regulariser subtracted"},
        ),
        "only what has one axis": ("unbound", {"fault": "only what has one axis"}),
        "steps of updates": ("schedule slow", {"schedule": "steps", "fault": "steps of updates"}),
        "rate x 1000": ("fast no-skill dead saturated worse", {"rate": 2.0, "norm": "none"}),
    },
)  # fmt: skip
