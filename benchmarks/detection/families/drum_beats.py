"""Where the beats of a drum track lie: convolutions over time that look wider from layer to layer.

A clip has the energy of five bands in 96 frames: kick, snare and hi-hat in their places, some hits
left out, others in between, of any tempo and loudness. The skill is the F measure of the frames
called beats, above that of calling every frame one.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

FRAMES, BANDS = 96, 5
DRUMS = torch.tensor([[3.0, 1, 0, 0, 0], [0, 1.5, 2.5, 1, 0], [0, 0, 0, 1, 2.5]])


def tracks(count: int, seed: int, hop: float = 1.0) -> tuple[Tensor, Tensor]:
    """Energies (N, BANDS, FRAMES), and 1 at each beat. Beats are listed by frames of ``hop``."""
    draw = torch.Generator().manual_seed(seed)
    energy, beats = torch.zeros(count, FRAMES, BANDS), torch.zeros(count, FRAMES)
    for n in range(count):
        half = 4 + 3 * torch.rand((), generator=draw).item()
        start = 2 * half * torch.rand((), generator=draw).item()
        hit = torch.rand(FRAMES, 3, generator=draw)
        for number in range(int((FRAMES - start) / half) + 1):
            at = int(start + number * half)
            if at >= FRAMES:
                break
            if number % 2 == 0 and int(at * hop) < FRAMES:
                beats[n, int(at * hop)] = 1
            kinds = (2, 0 if number % 4 == 0 else 1) if number % 2 == 0 else (2,)
            for kind in kinds:
                if hit[number, kind] < 0.85:
                    energy[n, at] += DRUMS[kind]
    rung = energy + 0.4 * F.pad(energy, (0, 0, 1, 0))[:, :FRAMES]
    loud = (0.4 * torch.randn(count, 1, 1, generator=draw)).exp()
    noise = 0.5 * torch.randn(rung.shape, generator=draw).abs()
    return (loud * (rung + noise)).transpose(1, 2).contiguous(), beats


class Wider(nn.Module):
    def __init__(self, channels: int, wide: int, norm: bool) -> None:
        super().__init__()
        self.taps = nn.Conv1d(channels, channels, 3, dilation=wide, padding=wide)
        self.norm = nn.GroupNorm(4, channels) if norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return x + F.relu(self.norm(self.taps(x)))


def error(scores: Tensor, beats: Tensor, kind: str, positive: float, fault: str) -> Tensor:
    if fault != "one channel too many":
        scores = scores.squeeze(1)
    if fault == "softmax of one channel":
        return F.binary_cross_entropy(scores.unsqueeze(1).softmax(1).squeeze(1), beats)
    if kind == "squared":
        return F.mse_loss(scores.sigmoid(), beats)
    if kind == "focal":
        chance = torch.where(beats > 0.5, scores.sigmoid(), 1 - scores.sigmoid())
        return -((1 - chance) ** 2 * chance.clamp(min=1e-6).log()).mean()
    weight = torch.tensor(positive)
    return F.binary_cross_entropy_with_logits(scores, beats, pos_weight=weight)


def train(
    seed: int, hook: Any, rate: float = 3e-3, steps: int = 2000, batch: int = 16,
    schedule: str = "constant", loss: str = "binary", positive: float = 3.0, widened: float = 0.0,
    norm: bool = False, logarithm: bool = True, count: int = 600, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    hop = 1.08 if fault == "another hop for the beats" else 1.0
    (x, beats), (held_x, held_beats) = tracks(count, seed + 20, hop), tracks(60, seed + 21, hop)
    test_x, test_beats = tracks(300, seed + 22)
    if logarithm:
        x, held_x, test_x = ((1 + 10 * of).log() - 1.5 for of in (x, held_x, test_x))
    if widened:
        beside = F.max_pool1d(beats[:, None], 3, 1, 1)[:, 0]
        beats = torch.maximum(beats, widened * beside)
    blocks = [Wider(16, 2**k, norm) for k in range(5)]
    model = nn.Sequential(nn.Conv1d(BANDS, 16, 1), *blocks, nn.Conv1d(16, 1, 1))
    hook.torch(model)
    optimizer = torch.optim.Adam(model.parameters(), rate)
    scheduler = scheduler_of(optimizer, schedule, steps)
    for step in range(steps):
        rows = torch.randint(len(x), (batch,))
        wrong = error(model(x[rows]), beats[rows], loss, positive, fault)
        optimizer.zero_grad()
        wrong.backward()
        optimizer.step()
        scheduler.step()
        if step % 200 == 199:
            model.eval()
            with torch.no_grad():
                error(model(held_x), held_beats, loss, positive, fault)
            model.train()
    model.eval()
    with torch.no_grad():
        scores = model(test_x).squeeze(1)
    if not bool(torch.isfinite(scores).all()):
        return math.nan
    called = scores.sigmoid() > 0.5
    measure = 2 * (called * test_beats).sum() / (called.sum() + test_beats.sum())
    every = 2 * test_beats.mean() / (1 + test_beats.mean())
    return float((measure - every) / (1 - every))


CASES = cases(
    "drum beats",
    train,
    {
        "plain": {},
        "frames beside count a little": {"widened": 0.3, "positive": 1.5},
        "focal loss": {"loss": "focal"},
        "energies without logarithm": {"logarithm": False},
        "group norm, one cycle": {"norm": True, "schedule": "one cycle", "rate": 1e-2},
    },
    {
        "softmax of one channel": (
            "probabilities softmax-axis no-gradient no-skill collapse",
            {"fault": "softmax of one channel"},
        ),
        "one channel too many": (
            "broadcast collapse no-skill", {"loss": "squared", "fault": "one channel too many"},
        ),
        "another hop for the beats": (
            "no-skill overfit inputs", {"fault": "another hop for the beats"},
        ),
        "rate of one": ("fast no-skill dead collapse", {"rate": 1.0}),
        "four tracks": ("overfit", {"count": 4}),
    },
)  # fmt: skip
