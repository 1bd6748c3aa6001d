"""The next character of the project's license, by a small decoder-only transformer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from benchmarks.detection.task import Samples, Task

TEXT = Path(__file__).resolve().parents[3] / "LICENSE"
WINDOW, WIDTH, LETTERS = 24, 32, 80


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(LETTERS, WIDTH), nn.Embedding(WINDOW, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, LETTERS)
        self.causal = True

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x) + self.places(torch.arange(x.shape[1]))
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1]) if self.causal else None
        scores: Tensor = self.head(self.layers(tokens, mask=mask))
        return scores


def samples(seed: int) -> Samples:
    letters = np.array(list(" ".join(TEXT.read_text("utf-8").split())))
    codes = torch.from_numpy(np.unique(letters, return_inverse=True)[1]).long()
    windows = codes.unfold(0, WINDOW + 1, 5)
    order = torch.randperm(len(windows), generator=torch.Generator().manual_seed(seed))
    windows = windows[order]
    held = windows[1800:]
    return Samples(windows[:1800, :-1], windows[:1800, 1:], held[:, :-1], held[:, 1:])


def criterion(scores: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), y.flatten())


def skill(scores: Tensor, y: Tensor) -> float:
    """Return how much of the entropy of single characters is gone; half of it counts as all."""
    shares = torch.bincount(y.flatten(), minlength=LETTERS) / y.numel()
    entropy = -(shares * shares.clamp(min=1e-9).log()).sum()
    return 2 * (1 - (criterion(scores, y) / entropy).item())


TASK = Task(
    frozenset(["tokens", "causal", "attention"]),
    samples,
    Decoder,
    criterion,
    skill,
    {"steps": 500, "rate": 4e-3, "schedule": "warmup", "optimizer": "adamw"},
)
