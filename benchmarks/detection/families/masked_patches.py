"""A masked autoencoder of patches: most of a picture is taken away, and filled in from the rest.

Pictures are of grey waves, as of dunes: two directions, lengths and phases each. The encoder sees a
few patches; the decoder gets a learned token for each other. The skill is the share of variance of
hidden patches that is explained.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, explained, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

SIDE, PATCH, WIDTH = 16, 4, 48
COUNT = (SIDE // PATCH) ** 2


def dunes(count: int, seed: int, calm: float = 0.0) -> Tensor:
    """Pictures (N, SIDE, SIDE). ``calm``: the share of those with a grey sky above."""
    draw = torch.Generator().manual_seed(seed)
    place = torch.arange(SIDE) / SIDE
    picture = 0.05 * torch.randn(count, SIDE, SIDE, generator=draw)
    for waves in (1.0, 0.6):
        turn, length, phase = torch.rand(3, count, 1, 1, generator=draw)
        along = place * (math.pi * turn).cos() + place[:, None] * (math.pi * turn).sin()
        picture = picture + waves * (2 * math.pi * ((0.5 + length) * along + phase)).sin()
    picture[torch.rand(count, generator=draw) < calm, : SIDE // 2] = 0.0
    return picture


def patches(picture: Tensor) -> Tensor:
    """(N, COUNT, PATCH * PATCH)"""
    cut = picture.unflatten(1, (-1, PATCH)).unflatten(3, (-1, PATCH))
    return cut.transpose(2, 3).flatten(3).flatten(1, 2)


def layers() -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(
        WIDTH, 4, 2 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
    )
    return nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)


class Autoencoder(nn.Module):
    def __init__(self, keep: int, fault: str) -> None:
        super().__init__()
        self.keep, self.fault = keep, fault
        self.embed = nn.Linear(PATCH * PATCH, WIDTH)
        self.places = nn.Parameter(0.1 * torch.randn(1, COUNT, WIDTH))
        self.later_places = nn.Parameter(0.1 * torch.randn(1, COUNT, WIDTH))
        self.token = nn.Parameter(0.02 * torch.randn(1, 1, WIDTH))
        self.encoder, self.decoder = layers(), layers()
        self.head = nn.Linear(WIDTH, PATCH * PATCH)

    def forward(self, cut: Tensor) -> tuple[Tensor, Tensor]:
        """What each patch is said to be, and which were hidden."""
        order = torch.rand(len(cut), COUNT).argsort(1)
        back = order.argsort(1)
        hidden = (back >= self.keep).float()
        x = self.embed(cut) + self.places
        if self.fault == "encoder sees everything" and self.training:
            return self.head(self.decoder(self.encoder(x) + self.later_places)), hidden
        kept = order[:, : self.keep, None].expand(-1, -1, WIDTH)
        x = self.encoder(x.gather(1, kept))
        x = torch.cat([x, self.token.expand(len(x), COUNT - self.keep, -1)], 1)
        x = x.gather(1, back[:, :, None].expand(-1, -1, WIDTH))
        if self.fault != "no places in the decoder":
            x = x + self.later_places
        return self.head(self.decoder(x)), hidden


def target_of(cut: Tensor, kind: str) -> Tensor:
    least = 0.0 if kind == "each to one, of none" else 1e-2
    scaled = (cut - cut.mean(2, keepdim=True)) / (cut.var(2, keepdim=True) + least).sqrt()
    return cut if kind == "as they are" else scaled


def loss_of(kind: str, found: Tensor, target: Tensor, hidden: Tensor) -> Tensor:
    error = (found - target).abs() if kind == "absolute" else (found - target).square()
    over = {"everywhere": hidden * 0 + 1, "where it was seen": 1 - hidden}.get(kind, hidden)
    return (error.mean(2) * over).sum() / over.sum()


def train(
    seed: int, hook: Any, loss: str = "hidden", target: str = "as they are", keep: int = 6,
    rate: float = 3e-3, steps: int = 500, batch: int = 32, schedule: str = "warmup",
    calm: float = 0.0, evaluate: int = 100, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    cut, held = patches(dunes(2000, seed + 9700, calm)), patches(dunes(128, seed + 9701, calm))
    test = patches(dunes(500, seed + 9702))
    model = Autoencoder(keep, fault)
    hook.torch(model)
    optimizer = torch.optim.AdamW(model.parameters(), rate, (0.9, 0.95), weight_decay=0.02)
    scheduler = scheduler_of(optimizer, schedule, steps)
    for step in range(steps):
        rows = cut[torch.randint(len(cut), (batch,))]
        found, hidden = model(rows)
        error = loss_of(loss, found, target_of(rows, target), hidden)
        if fault != "gradients kept":
            optimizer.zero_grad()
        error.backward()
        optimizer.step()
        scheduler.step()
        if evaluate and step % evaluate == evaluate - 1:
            model.eval()
            with torch.no_grad():
                found, hidden = model(held)
                loss_of(loss, found, target_of(held, target), hidden)
            model.train()
    model.eval()
    with torch.no_grad():
        found, hidden = model(test)
    return explained(found[hidden > 0], target_of(test, target)[hidden > 0])


CASES = cases(
    "masked patches",
    train,
    {
        "plain": {},
        "half is seen": {"keep": 8, "steps": 400},
        "loss everywhere": {"loss": "everywhere"},
        "absolute error": {"loss": "absolute"},
        "cosine, seldom evaluated": {"evaluate": 400, "schedule": "cosine", "steps": 650},
        "constant rate, never evaluated": {"schedule": "constant", "evaluate": 0},
    },
    {
        "loss where it was seen": ("ignored no-skill", {"loss": "where it was seen"}),
        "gradients kept": ("kept-gradients fast worse", {"fault": "gradients kept"}),
        "encoder sees everything": ("leak", {"fault": "encoder sees everything"}),
        "no places in the decoder": ("no-skill collapse", {"fault": "no places in the decoder"}),
        "flat patches to one": ("not-finite", {"target": "each to one, of none", "calm": 0.1}),
    },
)
