"""Long sequences put into classes by gated linear attention, or a diagonal state space.

Of 64 signs most say nothing. Two keys lie in each sequence, far apart; behind each stands a value,
and a question at the end names one of the two keys. Its value is the class. The skill is the
accuracy, above chance.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, class_skill, scheduler_of, with_noise
from torch import Tensor, nn

from benchmarks.detection.case import cases

LENGTH, KEYS, VALUES, NOISE = 48, 4, 4, 8
SIGNS = KEYS + KEYS * VALUES + NOISE


def sequences(count: int, seed: int, length: int = LENGTH) -> dict[str, Tensor]:
    """Signs (N, length): noise, pairs of a key and its value as one sign, the key asked for."""
    draw = torch.Generator().manual_seed(seed)
    signs = KEYS + KEYS * VALUES + torch.randint(NOISE, (count, length), generator=draw)
    keys = torch.rand(count, KEYS, generator=draw).argsort(1)[:, :2]
    values = torch.randint(VALUES, (count, 2), generator=draw)
    places = torch.rand(count, length - 1, generator=draw).argsort(1)[:, :2]
    signs.scatter_(1, places, KEYS + keys * VALUES + values)
    signs[:, -1] = keys[:, 0]
    return {"signs": signs, "label": values[:, 0]}


class GatedAttention(nn.Module):
    """Sums of keys and values that fade by a gate of each position, all positions at once."""

    def __init__(self, width: int, gate: float, later: bool) -> None:
        super().__init__()
        self.mix = nn.Linear(width, 3 * width, bias=False)
        self.gate = nn.Linear(width, 1)
        nn.init.constant_(self.gate.bias, gate)
        self.out = nn.Linear(width, width)
        self.later = later

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.mix(x).chunk(3, -1)
        kept = F.logsigmoid(self.gate(x)).cumsum(1)
        past = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        if self.later:
            past = past.t()
        fade = (kept - kept.transpose(1, 2)).masked_fill(~past, -1e4).clamp(max=0).exp()
        out: Tensor = self.out((query @ key.transpose(1, 2) * fade / x.shape[-1] ** 0.5) @ value)
        return out


class StateSpace(nn.Module):
    """Each channel convolved with a sum of fading exponentials, times a gate."""

    def __init__(self, width: int, states: int = 8) -> None:
        super().__init__()
        self.rate = nn.Parameter(torch.linspace(-5, 0, states).repeat(width, 1))
        self.weight = nn.Parameter(torch.randn(width, states) / states)
        self.enter, self.out = nn.Linear(width, 2 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        value, gate = self.enter(x).chunk(2, -1)
        time = torch.arange(x.shape[1])
        kernel = (self.weight[..., None] * (-self.rate.exp()[..., None] * time).exp()).sum(1)
        lag = (time[:, None] - time).clamp(min=0)
        taps = kernel[:, lag] * (time[:, None] >= time)
        mixed = torch.einsum("dts,nsd->ntd", taps, value)
        out: Tensor = self.out(mixed * F.silu(gate))
        return out


class Classifier(nn.Module):
    def __init__(self, kind: str, gate: float, fault: str) -> None:
        super().__init__()
        width = 32
        self.signs = nn.Embedding(SIGNS, width)
        attention = GatedAttention(width, gate, later=fault == "looks ahead alone")
        self.layer = StateSpace(width) if kind == "states" else attention
        self.norm = nn.LayerNorm(width)
        self.head = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, VALUES))
        self.fault = fault

    def forward(self, signs: Tensor) -> Tensor:
        h = self.signs(signs)
        h = h + self.layer(self.norm(h))
        out: Tensor = self.head(h[:, 0 if self.fault == "first position for the last" else -1])
        return out


def train(
    seed: int, hook: Any, kind: str = "attention", gate: float = 4.0,
    rate: float = 2e-3, steps: int = 2000, batch: int = 16, schedule: str = "warmup",
    noise: float = 0.0, decay: float = 0.0, lessons: bool = False, count: int = 8000,
    times: float = 1.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    data, held = sequences(count, seed + 400), sequences(400, seed + 401)
    test = sequences(1500, seed + 402)
    if noise:
        data["label"] = with_noise(data["label"], noise, seed)
    if fault == "the end is cut off":
        data, held, test = ({**d, "signs": d["signs"][:, :40]} for d in (data, held, test))
    model = Classifier(kind, gate, fault)
    hook.torch(model)
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=decay)
    scheduler = scheduler_of(optimizer, schedule, steps)
    easy = sequences(2000, seed + 403, 12)
    for step in range(steps):
        source = easy if lessons and step < steps // 4 else data
        rows = torch.randint(len(source["label"]), (batch,))
        loss = F.cross_entropy(model(source["signs"][rows]), source["label"][rows]) * times
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % 250 == 249:
            model.eval()
            with torch.no_grad():
                F.cross_entropy(model(held["signs"]), held["label"])
            model.train()
    model.eval()
    with torch.no_grad():
        return class_skill(model(test["signs"]), test["label"])


CASES = cases(
    "gated long sequences",
    train,
    {
        "plain": {},
        "diagonal state space": {"kind": "states", "rate": 4e-3},
        "short sequences first": {"lessons": True},
        "one label in ten wrong": {"noise": 0.13},
        "decay of 0.1, constant rate": {"decay": 0.1, "schedule": "constant", "rate": 1e-3},
        "loss x 10000": {"times": 1e4},
    },
    {
        "the end is cut off": ("no-skill overfit", {"fault": "the end is cut off"}),
        "first position for the last": (
            "no-skill overfit", {"fault": "first position for the last"},
        ),
        "looks ahead alone": ("no-skill overfit", {"fault": "looks ahead alone"}),
        "gates begin shut": ("no-skill slow overfit", {"gate": -6.0}),
        "thirty sequences": ("overfit", {"count": 30}),
    },
)  # fmt: skip
