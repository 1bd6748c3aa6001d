"""Masks of cells under a microscope; losses, weights and gradients saved as values, without a hook.

Round cells, brighter or darker than the uneven background, lie among specks of dirt. A network
of convolutions marks their pixels. The skill is the overlap (intersection over union) of the masks
on other pictures, above that of marking everything.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, factor, optimizer_of, save_values
from tocsin_hooks import Hook, modes
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIDE = 24


def cells(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Pictures in bytes and masks of 0 or 255, both (count, 1, SIDE, SIDE)."""
    draw = torch.Generator().manual_seed(seed)
    place = torch.arange(SIDE)
    tilt = torch.randn(2, count, 1, 1, generator=draw)
    picture = 120 + 1.2 * tilt[0] * (place - 12) + 1.2 * tilt[1] * (place - 12)[:, None]
    mask = torch.zeros(count, SIDE, SIDE, dtype=torch.bool)
    for number in range(5):
        of = torch.rand(4, count, 1, 1, generator=draw)
        far = (place - SIDE * of[0]) ** 2 + (place[:, None] - SIDE * of[1]) ** 2
        size = 2.2 + 1.8 * of[2] if number < 3 else torch.full_like(of[2], 1.1)
        inside = far < size**2
        sign = torch.where(of[3] < 0.5, -1.0, 1.0)
        picture = picture + inside * sign * (45 if number < 3 else 60)
        mask |= inside & (number < 3)
    picture = picture + 10 * torch.randn(picture.shape, generator=draw)
    return picture.clamp(0, 255).byte()[:, None], mask[:, None].byte() * 255


def dice_loss(chance: Tensor, wanted: Tensor, smooth: float = 1.0) -> Tensor:
    both = (chance * wanted).sum((1, 2, 3))
    whole = chance.sum((1, 2, 3)) + wanted.sum((1, 2, 3))
    return 1 - ((2 * both + smooth) / (whole + smooth)).mean()


def loss_of(kind: str, scores: Tensor, wanted: Tensor) -> Tensor:
    if kind == "Dice":
        return dice_loss(scores.sigmoid(), wanted)
    if kind == "Dice without a sigmoid":
        return dice_loss(scores, wanted)
    if kind == "both":
        binary = F.binary_cross_entropy_with_logits(scores, wanted)
        return binary + dice_loss(scores.sigmoid(), wanted)
    if kind == "focal":
        error = F.binary_cross_entropy_with_logits(scores, wanted, reduction="none")
        return 10 * ((1 - (-error).exp()) ** 2 * error).mean()
    if kind == "softmax of one channel":
        return F.binary_cross_entropy(scores.softmax(1), wanted)
    return F.binary_cross_entropy_with_logits(scores, wanted)


def network(width: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    inputs = 1
    for reach in (1, 2, 4):
        layers += [nn.Conv2d(inputs, width, 3, padding=reach, dilation=reach), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers, nn.Conv2d(width, width, 3, padding=1), nn.ReLU()).append(
        nn.Conv2d(width, 1, 1)
    )


def train(
    seed: int, hook: Any, loss: str = "binary", rate: float = 4e-3, steps: int = 700,
    batch: int = 8, width: int = 12, optimizer: str = "adam", schedule: str = "constant",
    turned: str = "", times: float = 1.0, decay: float = 0.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    data, held, test = (cells(n, seed + 210 + i) for i, n in enumerate((1000, 32, 150)))
    one = 1.0 if fault == "masks up to 255" else 255.0
    x, y = (data[0].float() - 120) / 40, data[1] / one
    if fault == "lists in another order":
        y = y[torch.tensor(sorted(range(len(y)), key=str))]
    model = network(width)
    stepper = optimizer_of(optimizer, model.parameters(), rate, decay)
    falls = torch.optim.lr_scheduler.LambdaLR(stepper, lambda s: factor(schedule, s, steps))
    recorded = Hook(hook.folder, save_interval=hook.options.get("save_interval"))
    for step in range(steps):
        rows = torch.randint(len(x), (batch,))
        seen, wanted = x[rows], y[rows]
        if turned and torch.rand(()) < 0.6:
            quarter = int(torch.randint(1, 4, ()))
            seen = seen.rot90(quarter, (2, 3))
            wanted = wanted.rot90(quarter, (2, 3)) if turned == "both" else wanted
        value = loss_of(loss, model(seen), wanted) * times
        stepper.zero_grad()
        value.backward()
        stepper.step()
        falls.step()
        save_values(recorded, model, value)
        if step % 100 == 99:
            with torch.no_grad(), recorded.step(modes.EVAL):
                value = loss_of(loss, model((held[0].float() - 120) / 40), held[1] / one) * times
                recorded.save("loss", value.item(), "losses", raw=True)
    recorded.close()
    with torch.no_grad():
        found, true = model((test[0].float() - 120) / 40) > 0, test[1] > 0
    overlap = float((found & true).sum() / (found | true).sum())
    share = float(true.float().mean())
    return (overlap - share) / (1 - share)


CASES = cases(
    "bare masks",
    train,
    {
        "plain": {},
        "Dice": {"loss": "Dice", "steps": 1200},
        "both losses, momentum": {"loss": "both", "optimizer": "momentum", "rate": 0.05},
        "focal": {"loss": "focal"},
        "turned with its mask": {"turned": "both", "steps": 900},
        "batch of two, one cycle": {"batch": 2, "schedule": "one cycle", "steps": 1500},
    },
    {
        "turned without its mask": ("no-skill", {"turned": "picture alone"}),
        "lists in another order": ("no-skill overfit", {"fault": "lists in another order"}),
        "masks up to 255": ("range worse no-skill", {"fault": "masks up to 255"}),
        "Dice without a sigmoid": (
            "probabilities worse no-skill",
            {"loss": "Dice without a sigmoid"},
        ),
        "softmax of one channel": (
            "softmax-axis no-gradient no-skill",
            {"loss": "softmax of one channel"},
        ),
    },
)
