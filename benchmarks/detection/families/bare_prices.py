"""Prices of flats by a perceptron; losses, weights and gradients saved as values, without a hook.

The price follows area, rooms, age, floor, distance and district; a network learns it in units of
100,000. The skill is the share of the variance of held-out prices that is explained.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import (
    begin,
    dense,
    explained,
    factor,
    optimizer_of,
    save_values,
)
from tocsin_hooks import Hook, modes
from torch import Tensor, nn

from benchmarks.detection.case import cases

DISTRICTS, COLUMNS = 8, 16
AREA = 0


def flats(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Columns (N, 16), the last eight of which tell the district, and prices (N,)."""
    draw = torch.Generator().manual_seed(seed)
    share = torch.rand(count, 6, generator=draw)
    area = 25 + 120 * share[:, 0] ** 1.5
    rooms = (area / 28 + share[:, 1] * 1.5).floor().clamp(1, 6)
    age, floor = 110 * share[:, 2] ** 1.3, (9 * share[:, 3]).floor()
    lift = (share[:, 4] < 0.3 + 0.5 * (age < 40)).float()
    distance = 0.3 + 14 * share[:, 5] ** 2
    walk, sun = torch.randn(2, count, generator=draw)
    district = torch.randint(DISTRICTS, (count,), generator=draw)
    dear = torch.linspace(-0.45, 0.45, DISTRICTS)[district]
    metre = 5200 * torch.exp(dear - 0.055 * distance - 0.05 * walk)
    metre = metre * (1 - 0.005 * age + 0.00005 * age**2)
    metre = metre * torch.where(lift > 0, 1 + 0.012 * floor, 1 - 0.03 * floor)
    price = area * metre + 9000 * rooms + 6000 * sun
    price = price * torch.exp(0.05 * torch.randn(count, generator=draw))
    columns = torch.stack([area, rooms, age, floor, lift, distance, walk, sun], 1)
    return torch.cat([columns, F.one_hot(district, DISTRICTS).float()], 1), price


def loss_of(kind: str, found: Tensor, wanted: Tensor) -> Tensor:
    """Of outputs (N, 1) and prices (N,)."""
    if kind == "broadcast":
        return ((found - wanted) ** 2).mean()
    found = found.squeeze(1)
    if kind == "root":
        return F.mse_loss(found, wanted).sqrt()
    if kind == "absolute":
        return (found - wanted).abs().mean()
    if kind == "Huber":
        return F.huber_loss(found, wanted)
    if kind == "percent":
        return ((found - wanted) / wanted).abs().mean()
    if kind == "not squared":
        return (found - wanted).mean()
    if kind == "logarithms":
        return F.mse_loss(found.log(), wanted.log())
    return ((found - wanted) ** 2).mean()


def train(
    seed: int, hook: Any, rate: float = 3e-3, steps: int = 1200, batch: int = 32,
    optimizer: str = "adam", schedule: str = "constant", decay: float = 0.0, loss: str = "squares",
    unit: float = 1e5, times: float = 1.0, noise: float = 0.0, count: int = 3000,
    sizes: tuple[int, ...] = (48, 48), activation: type[nn.Module] = nn.ReLU, last: str = "",
    clip: float = 0.0, average: float = 0.0, frozen: str = "", fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    x, price = flats(count, seed + 5800)
    held_x, held_price = flats(500, seed + 5801)
    test_x, test_price = flats(1200, seed + 5802)
    middle, spread = x.mean(0), x.std(0) + 1e-6
    if fault == "columns not scaled":
        middle, spread = torch.zeros(COLUMNS), torch.ones(COLUMNS)
    if fault == "scaled over rows":
        x, held_x, test_x = (
            (part - part.mean(1, keepdim=True)) / part.std(1, keepdim=True)
            for part in (x, held_x, test_x)
        )
        middle, spread = torch.zeros(COLUMNS), torch.ones(COLUMNS)
    if fault == "square feet in evaluation":
        held_x, test_x = held_x.clone(), test_x.clone()
        held_x[:, AREA] *= 10.76
        test_x[:, AREA] *= 10.76
    x, held_x, test_x = ((part - middle) / spread for part in (x, held_x, test_x))
    if fault == "agreed price known":
        x = torch.cat([x, price[:, None] / unit], 1)
        held_x = torch.cat([held_x, held_price[:, None] / unit], 1)
        test_x = torch.cat([test_x, torch.zeros(len(test_x), 1)], 1)
    if fault == "not scaled in evaluation":
        held_x, test_x = held_x * spread + middle, test_x * spread + middle
    if fault == "tens of 16 bits":
        price = (price / 10).to(torch.int64).to(torch.int16).float() * 10
    if fault == "prices of other flats":
        price = price[torch.randperm(count)]
    if noise:
        price = torch.where(torch.rand(count) < noise, price[torch.randperm(count)], price)
    model = dense((x.shape[1], *sizes, 1), activation)
    if last:
        model.append({"sigmoid": nn.Sigmoid(), "relu": nn.ReLU(), "softmax": nn.Softmax(1)}[last])
    if fault == "biases below zero":
        nn.init.constant_(model[0].bias, -30.0)
    if fault == "start of N(0, 3)":
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=3.0)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not frozen or not name.startswith(frozen))
    trained = copy.deepcopy(model) if fault == "optimizer of a copy" else model
    chosen = [p for p in trained.parameters() if p.requires_grad]
    stepper = optimizer_of(optimizer, chosen, rate, decay)
    falls = torch.optim.lr_scheduler.LambdaLR(stepper, lambda s: factor(schedule, s, steps))
    mean = copy.deepcopy(model) if average else model
    recorded = Hook(hook.folder, save_interval=hook.options.get("save_interval"))
    order = torch.empty(0, dtype=torch.long)
    for step in range(steps):
        if len(order) < min(batch, count):
            order = torch.randperm(count)
        rows, order = order[:batch], order[batch:]
        one = loss_of(loss, model(x[rows]), price[rows] / unit) * times
        if fault != "gradients kept":
            stepper.zero_grad()
        one.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        stepper.step()
        falls.step()
        if average:
            for slow, fast in zip(mean.parameters(), model.parameters(), strict=True):
                slow.data.lerp_(fast.data, 1 - average)
        save_values(recorded, model, one)
        if step % 150 == 149:
            with torch.no_grad(), recorded.step(modes.EVAL):
                value = loss_of(loss, mean(held_x), held_price / unit) * times
                recorded.save("loss", value.item(), "losses", raw=True)
    recorded.close()
    with torch.no_grad():
        return explained(mean(test_x).squeeze(1) * unit, test_price)


CASES = cases(
    "bare prices",
    train,
    {
        "plain": {},
        "momentum and one cycle": {
            "optimizer": "momentum",
            "rate": 2e-2,
            "schedule": "one cycle",
        },
        "batch of four": {"batch": 4, "rate": 1e-3, "steps": 2400},
        "batch of 1000": {"batch": 1000, "rate": 1e-2, "steps": 400},
        "loss x 10000": {"times": 1e4},
        "in millions": {"unit": 1e6},
        "in thousands": {"unit": 1e3, "rate": 2e-2, "steps": 2000},
        "absolute error": {"loss": "absolute"},
        "Huber": {"loss": "Huber"},
        "root of squares": {"loss": "root"},
        "percent": {"loss": "percent", "steps": 2000},
        "wrong prices": {"noise": 0.03},
        "tanh": {"activation": nn.Tanh},
        "three layers": {"sizes": (64, 32, 16)},
        "first layer fixed": {"frozen": "0.", "sizes": (128, 64)},
        "restarts": {"schedule": "restarts", "rate": 5e-3},
        "average of weights": {"average": 0.99},
        "clipped": {"clip": 0.1},
        "AdamW": {"optimizer": "adamw", "decay": 0.1},
    },
    {
        "prices of other flats": ("no-skill overfit", {"fault": "prices of other flats"}),
        "loss broadcast": ("broadcast no-skill collapse", {"loss": "broadcast"}),
        "difference not squared": ("worse no-skill fast", {"loss": "not squared"}),
        "logarithm of outputs": ("not-finite", {"loss": "logarithms"}),
        "sigmoid at the end": ("range saturated no-skill", {"last": "sigmoid"}),
        "softmax of one output": (
            "softmax-axis range no-gradient no-skill collapse",
            {"last": "softmax"},
        ),
        "euros as they are": ("range slow no-skill inputs", {"unit": 1.0, "rate": 1e-3}),
        "euros by descent": ("fast not-finite worse", {"unit": 1.0, "optimizer": "sgd"}),
        "columns not scaled": (
            "inputs fast worse no-skill",
            {"fault": "columns not scaled", "optimizer": "momentum", "rate": 2e-2},
        ),
        "not scaled in evaluation": ("inputs overfit", {"fault": "not scaled in evaluation"}),
        "square feet in evaluation": ("inputs overfit", {"fault": "square feet in evaluation"}),
        "agreed price known": ("leak", {"fault": "agreed price known"}),
        "tens of 16 bits": ("range no-skill", {"fault": "tens of 16 bits"}),
        "fifteen flats": ("overfit", {"count": 15}),
        "biases below zero": (
            "dead no-gradient no-skill",
            {"fault": "biases below zero", "rate": 1e-3},
        ),
        "start of N(0, 3)": ("fast worse slow", {"fault": "start of N(0, 3)", "rate": 1e-4}),
        "ten sigmoids": (
            "saturated no-gradient no-skill collapse",
            {"activation": nn.Sigmoid, "sizes": (48,) * 10, "steps": 800},
        ),
        "gradients kept": (
            "kept-gradients fast worse not-finite",
            {"fault": "gradients kept", "optimizer": "momentum", "rate": 2e-2},
        ),
        "optimizer of a copy": ("unbound no-skill", {"fault": "optimizer of a copy"}),
        "rate falls at once": (
            "schedule slow no-skill",
            {"schedule": "ends early", "optimizer": "sgd", "rate": 5e-3},
        ),
        "rate x 1000": ("fast dead no-skill worse", {"rate": 3.0}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
    },
)
