"""Two tones out of their sum: masks over a spectrogram, trained permutation invariantly.

Two tones that swell and glide sound at once with a little noise. The loss is the negative ratio in
decibels of what is a tone's own to what is not, for the better of both orders. The skill is by how
much less of a sound is not its own than in the sum.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from benchmarks.detection.families.kit import begin, optimizer_of, scheduler_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

LENGTH, WINDOW, HOP = 256, 32, 16


def sounds(count: int, seed: int, silent: float = 0.0) -> tuple[Tensor, Tensor]:
    """Sums (N, LENGTH) and tones (N, 2, LENGTH)."""
    draw = torch.Generator().manual_seed(seed)
    low = 0.03 + 0.12 * torch.rand(count, 1, generator=draw)
    high = low + 0.12 + 0.15 * torch.rand(count, 1, generator=draw)
    pitch = torch.stack([low, high], 1)
    glide = 1 + 0.1 * torch.linspace(-1, 1, LENGTH) * torch.randn(count, 2, 1, generator=draw)
    phase = 6.3 * torch.rand(count, 2, 1, generator=draw)
    swell = 1 + 0.6 * (torch.linspace(0, 6, LENGTH) + 2 * phase).sin()
    loud = 0.6 + 0.8 * torch.rand(count, 2, 1, generator=draw)
    loud = loud * (torch.rand(count, 2, 1, generator=draw) >= silent)
    tones = loud * swell * ((2 * math.pi * pitch * glide).cumsum(2) + phase).sin()
    swapped = torch.rand(count, 1, 1, generator=draw) < 0.5
    tones = torch.where(swapped, tones.flip(1), tones)
    return tones.sum(1) + 0.05 * torch.randn(count, LENGTH, generator=draw), tones


def own_share(found: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """What of a sound is the wanted one, and what is not: their energies."""
    factor = (found * wanted).sum(-1, keepdim=True) / (wanted**2).sum(-1, keepdim=True)
    own = factor * wanted
    return (own**2).sum(-1), ((found - own) ** 2).sum(-1)


def decibels(found: Tensor, wanted: Tensor, small: float = 1e-6) -> Tensor:
    own, other = own_share(found, wanted)
    return 10 * ((own + small) / (other + small)).log10()


class Masks(nn.Module):
    def __init__(self, kind: str, gate: str) -> None:
        super().__init__()
        bins = WINDOW // 2 + 1
        self.kind, self.gate = kind, gate
        self.register_buffer("window", torch.hann_window(WINDOW))
        self.body: nn.Module = nn.GRU(bins, 32, batch_first=True)
        if kind != "recurrent":
            self.body = nn.Sequential(nn.Linear(bins, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.head = nn.Linear(32, 2 * bins)

    def forward(self, sums: Tensor) -> Tensor:
        waves = torch.stft(sums, WINDOW, HOP, window=self.window, return_complex=True)
        seen = (waves.abs() + 1e-3).log().transpose(1, 2)
        h = self.body(seen)
        scores = self.head(h[0] if self.kind == "recurrent" else h)
        scores = scores.unflatten(2, (2, -1)).permute(0, 2, 3, 1)
        if self.gate == "softmax":
            masks = scores.softmax(1)
        elif self.gate == "softmax over moments":
            masks = scores.softmax(3)
        else:
            masks = scores.sigmoid()
        parts = (masks * waves[:, None]).flatten(0, 1)
        back = torch.istft(parts, WINDOW, HOP, window=self.window, length=sums.shape[1])
        return back.unflatten(0, (len(sums), 2))


def loss_of(kind: str, found: Tensor, wanted: Tensor) -> Tensor:
    def score(of: Tensor) -> Tensor:
        if kind == "squared":
            return -10 * ((found - of) ** 2).mean(2)
        return decibels(found, of, 0.0 if kind == "nothing added" else 1e-6)

    straight, crossed = score(wanted).mean(1), score(wanted.flip(1)).mean(1)
    if kind == "in the order of the files":
        return -straight.mean()
    if kind == "worse of both orders":
        return -torch.minimum(straight, crossed).mean()
    if kind == "ratio minimised":
        return torch.maximum(straight, crossed).mean()
    return -torch.maximum(straight, crossed).mean()


def skill_of(found: Tensor, sums: Tensor, wanted: Tensor) -> float:
    def foreign(of: Tensor, order: Tensor) -> Tensor:
        own, other = own_share(of, order)
        return (other / (own + other).clamp(min=1e-12)).mean(1)

    left = torch.minimum(foreign(found, wanted), foreign(found, wanted.flip(1))).mean()
    return 1 - float(left / foreign(sums[:, None].expand_as(wanted), wanted).mean())


def train(
    seed: int, hook: Any, loss: str = "", kind: str = "", gate: str = "sigmoid",
    steps: int = 2000, batch: int = 8, rate: float = 2e-3, optimizer: str = "adam",
    schedule: str = "constant", count: int = 2000, clip: float = 5.0, evaluated: bool = True,
    silent: float = 0.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    (sums, tones), held, test = (
        sounds(n, seed + 39100 + at, silent * (at == 0)) for at, n in enumerate((count, 100, 400))
    )
    if fault == "tones of other sums":
        tones = tones[torch.randperm(count)]
    loader = DataLoader(TensorDataset(sums, tones), batch, shuffle=True, drop_last=True)
    model = Masks(kind, gate)
    hook.torch(model)
    updates = optimizer_of(optimizer, model.parameters(), rate)
    scheduler = scheduler_of(updates, schedule, steps)
    step = 0
    while step < steps:
        for heard, wanted in loader:
            if fault != "gradients kept":
                updates.zero_grad()
            loss_of(loss, model(heard), wanted).backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            updates.step()
            scheduler.step()
            step += 1
            if step == steps:
                break
        if evaluated:
            model.eval()
            with torch.no_grad():
                loss_of(loss, model(held[0]), held[1])
            model.train()
    model.eval()
    with torch.no_grad():
        return skill_of(model(test[0]), test[0], test[1])


CASES = cases(
    "separated tones",
    train,
    {
        "plain": {},
        "recurrent": {"kind": "recurrent"},
        "masks that add up to one": {"gate": "softmax"},
        "squared error": {"loss": "squared", "rate": 4e-3},
        "momentum, cosine": {"optimizer": "momentum", "schedule": "cosine", "rate": 1e-2},
        "batch of two": {"batch": 2, "steps": 3000},
        "warm-up, not evaluated": {"schedule": "warmup", "evaluated": False, "rate": 4e-3},
    },
    {
        "in the order of the files": (
            "no-skill collapse", {"loss": "in the order of the files"},
        ),
        "worse of both orders": ("no-skill collapse", {"loss": "worse of both orders"}),
        "ratio minimised": ("worse no-skill", {"loss": "ratio minimised"}),
        "silence without a small number": (
            "not-finite", {"loss": "nothing added", "silent": 0.02},
        ),
        "softmax over moments": ("softmax-axis no-skill", {"gate": "softmax over moments"}),
        "tones of other sums": ("no-skill", {"fault": "tones of other sums"}),
        "eight sounds": ("overfit", {"count": 8, "batch": 4}),
    },
)  # fmt: skip
