"""Ages from small pictures of faces, by distributions of labels as in DLDL.

With the years lines in the skin deepen, hair turns grey and the face grows narrower. The label is
a bell over bins of two years around the age, the loss the divergence from it. The skill is the
share of the variance of ages that the expected age explains.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, explained, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIDE, BINS = 12, 40
YEARS = 2.0 * torch.arange(BINS) + 1


def faces(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Pictures (N, 1, SIDE, SIDE) of bytes, and ages in years."""
    draw = torch.Generator().manual_seed(seed)
    age = 2 + 76 * torch.rand(count, generator=draw)
    share = (age / 80).view(-1, 1, 1)
    light = 100 + 50 * torch.rand(count, 1, 1, generator=draw)
    place = torch.linspace(-1, 1, SIDE)
    across, down = place.expand(SIDE, -1), place[:, None].expand(-1, SIDE)
    round_face = ((across**2 / (0.9 - 0.4 * share)) + down**2 < 0.9).float()
    phase = 6 * torch.rand(count, 1, 1, generator=draw)
    lines = 50 * share * (14 * down + phase).sin() * (down < 0.4)
    hair = (-80 + 170 * share**2) * (down < -0.6)
    pixels = light * (0.5 + 0.5 * round_face) + lines * round_face + hair
    pixels = pixels + 10 * torch.randn(count, SIDE, SIDE, generator=draw)
    return pixels.clamp(0, 255)[:, None].byte(), age


def bells(age: Tensor, width: float) -> Tensor:
    return (-((YEARS - age[:, None]) ** 2) / (2 * width**2)).softmax(1)


def network(dropout: float, norm: bool) -> nn.Sequential:
    def normed(channels: int) -> nn.Module:
        return nn.BatchNorm2d(channels) if norm else nn.Identity()

    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), normed(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), normed(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Dropout(dropout), nn.Linear(16 * 9, 48), nn.ReLU(), nn.Linear(48, BINS),
    )  # fmt: skip


def loss_of(kind: str, scores: Tensor, wanted: Tensor, age: Tensor) -> Tensor:
    divergence = nn.KLDivLoss(reduction="batchmean")
    if kind == "no softmax":
        return divergence(scores, wanted)
    if kind == "cross-entropy":
        return F.cross_entropy(scores, wanted)
    error = divergence(scores.log_softmax(1), wanted)
    if kind == "with the expected age":
        error = error + 0.05 * F.l1_loss(scores.softmax(1) @ YEARS, age)
    return error


def train(
    seed: int, hook: Any, loss: str = "", steps: int = 2200, batch: int = 16, count: int = 3000,
    rate: float = 1e-3, optimizer: str = "adam", schedule: str = "constant", width: float = 3.0,
    dropout: float = 0.0, norm: bool = True, noise: float = 0.0, times: float = 1.0,
    evaluated: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    (pictures, age), (held, held_age), (test, test_age) = (
        faces(n, seed + 33100 + at) for at, n in enumerate((count, 300, 1000))
    )
    draw = torch.Generator().manual_seed(seed + 1)
    said = age + noise * torch.randn(count, generator=draw)
    if fault == "names in another order":  # face_10 before face_2
        said = said[torch.tensor(sorted(range(count), key=str))]
    if fault == "sorted by age":
        order = said.argsort()
        pictures, said = pictures[order], said[order]
    wanted, held_wanted = bells(said, width), bells(held_age, width)
    x, held_x, test_x = ((of.float() - 120) / 50 for of in (pictures, held, test))
    if fault == "shares in evaluation":
        held_x, test_x = held.float() / 255, test.float() / 255
    model = network(dropout, norm)
    hook.torch(model)
    updates = optimizer_of(optimizer, model.parameters(), rate, 1e-4)
    scheduler = scheduler_of(updates, schedule, steps)
    for step in range(steps):
        rows = torch.randint(count, (batch,), generator=draw)
        if fault == "sorted by age":
            rows = torch.arange(step * batch, (step + 1) * batch) % count
        scores = model(x[rows])
        error = loss_of(loss, scores, wanted[rows], said[rows]) * times
        updates.zero_grad()
        error.backward()
        updates.step()
        scheduler.step()
        if evaluated and step % 200 == 199:
            model.eval()
            with torch.no_grad():
                loss_of(loss, model(held_x), held_wanted, held_age)
            model.train()
    model.eval()
    with torch.no_grad():
        return explained(model(test_x).softmax(1) @ YEARS, test_age)


CASES = cases(
    "pictured ages",
    train,
    {
        "plain": {},
        "momentum, cosine": {"optimizer": "momentum", "rate": 2e-2, "schedule": "cosine"},
        "wide bells": {"width": 8.0},
        "with the expected age": {"loss": "with the expected age"},
        "ages guessed by people": {"noise": 4.0},
        "divergence x 10000": {"times": 1e4},
        "batch of four, warm-up": {"batch": 4, "schedule": "warmup", "steps": 3000},
        "no norms, not evaluated": {"norm": False, "evaluated": False},
    },
    {
        "no softmax": ("probabilities worse no-skill", {"loss": "no softmax"}),
        "names in another order": ("no-skill overfit", {"fault": "names in another order"}),
        "sorted by age": ("order", {"fault": "sorted by age"}),
        "shares in evaluation": ("inputs overfit", {"fault": "shares in evaluation"}),
        "eight faces": ("overfit", {"count": 8}),
        "rate x 1000": ("fast no-skill dead", {"rate": 1.0}),
    },
)
