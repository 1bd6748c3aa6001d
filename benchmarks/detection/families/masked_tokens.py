"""Masked words are guessed, as BERT is pre-trained, in sentences of a made-up grammar."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, optimizer_of, scheduler_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

PAD, MASK, FIRST, KINDS, EACH, WIDTH = 0, 1, 2, 4, 4, 32
WORDS = FIRST + KINDS * EACH
IGNORED = -100


def sentences(count: int, seed: int) -> Tensor:
    """(count, 12): kinds of words follow each other by turns, and a word decides the second next.

    The last ones of many are padding.
    """
    draw = np.random.default_rng(seed)
    partner = np.random.default_rng(5).permuted(np.tile(np.arange(EACH), (KINDS, 1)), axis=1)
    kind = draw.integers(KINDS, size=count)
    words, word = np.zeros((count, 12), dtype=np.int64), draw.integers(EACH, size=count)
    for at in range(0, 12, 2):
        word = partner[kind, word] if at % 4 else draw.integers(EACH, size=count)
        again = partner[(kind + 1) % KINDS, word]
        words[:, at] = FIRST + EACH * kind + word
        words[:, at + 1] = FIRST + EACH * ((kind + 1) % KINDS) + again
        kind = (kind + 2) % KINDS
    length = draw.choice([8, 10, 12], size=count)
    return torch.from_numpy(np.where(np.arange(12) < length[:, None], words, PAD))


def masked(words: Tensor, share: float, fault: str = "") -> tuple[Tensor, Tensor]:
    """Inputs and labels: of the chosen words 80 % are masked, 10 % replaced, 10 % left."""
    inputs, labels = words.clone(), words.clone()
    chosen = (torch.rand(words.shape) < share) & (words != PAD)
    how = torch.rand(words.shape)
    if fault != "never masked":
        inputs[chosen & (how < 0.8)] = MASK
        other = torch.randint(FIRST, WORDS, words.shape)
        inputs = torch.where(chosen & (how > 0.9), other, inputs)
    if fault == "labels after masking":
        labels = inputs.clone()
    if fault == "the others are asked":
        labels[chosen] = IGNORED
    elif fault == "no word is asked":
        labels[:] = IGNORED
    else:
        labels[~chosen] = IGNORED
    return inputs, labels


class Guesser(nn.Module):
    def __init__(self, dropout: float, before: bool, mask_turned: bool = False) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH, padding_idx=PAD)
        self.places = nn.Parameter(0.3 * torch.randn(12, WIDTH))
        nn.init.normal_(self.words.weight, std=0.3)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 2, 64, dropout, F.gelu, batch_first=True, norm_first=before
        )
        self.body = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH))
        self.bias = nn.Parameter(torch.zeros(WORDS))
        self.mask_turned = mask_turned

    def forward(self, words: Tensor) -> Tensor:
        hidden = words != PAD if self.mask_turned else words == PAD
        x = self.body(self.words(words) + self.places, src_key_padding_mask=hidden)
        return F.linear(self.head(x), self.words.weight, self.bias)


def skill(model: nn.Module, held: Tensor) -> float:
    """The share of masked words that are guessed, above chance."""
    torch.manual_seed(98)
    model.eval()
    chosen = (torch.rand(held.shape) < 0.12) & (held != PAD)
    with torch.no_grad():
        found = model(held.masked_fill(chosen, MASK))[..., FIRST:].argmax(2) + FIRST
    right = (found == held)[chosen].double().mean().item()
    return float((right - 1 / EACH / KINDS) / (1 - 1 / EACH / KINDS))


def train(
    seed: int, hook: Any, steps: int = 1000, rate: float = 8e-3, batch: int = 24,
    share: float = 0.3, schedule: str = "warmup", decay: float = 0.01, dropout: float = 0.0,
    before: bool = True, weights: bool = False, smoothing: float = 0.0, accumulate: int = 1,
    static: bool = False, evaluate_every: int = 100, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    words, held = sentences(6000, seed + 320), sentences(800, seed + 321)
    if fault == "few sentences":
        words = words[:10]
    if fault == "bags of words":
        words = words.flatten()[torch.randperm(words.numel())].view_as(words)
        words = words.sort(1, descending=True).values
    model = Guesser(dropout, before, mask_turned=fault == "padding alone seen")
    optimizer = optimizer_of("adamw", model.parameters(), rate, decay)
    scheduler = scheduler_of(optimizer, schedule, steps)
    rarity = torch.linspace(0.5, 1.5, WORDS) if weights else None
    criterion = nn.CrossEntropyLoss(rarity, ignore_index=IGNORED, label_smoothing=smoothing)
    fixed = masked(words, share)
    hook.torch(model)
    for step in range(steps):
        for _ in range(accumulate):
            rows = torch.randint(len(words), (min(batch, len(words)),))
            whole = masked(words[rows], share, fault)
            inputs, labels = (part[rows] for part in fixed) if static else whole
            loss = criterion(model(inputs).view(-1, WORDS), labels.view(-1)) / accumulate
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
        if evaluate_every and step % evaluate_every == evaluate_every - 1:
            model.eval()
            with torch.inference_mode():
                inputs, labels = masked(held[:128], share, fault)
                criterion(model(inputs).view(-1, WORDS), labels.view(-1))
            model.train()
    return skill(model, held)


CASES = cases(
    "masked tokens",
    train,
    {
        "plain": {},
        "half of the words": {"share": 0.5},
        "norms last, dropout": {"before": False, "dropout": 0.05, "rate": 6e-3, "steps": 1500},
        "masks drawn once": {"static": True},
        "batch of eight": {"batch": 8, "steps": 1600, "rate": 6e-3},
        "accumulation, no evaluation": {"batch": 12, "accumulate": 2, "evaluate_every": 0},
        "label smoothing": {"smoothing": 0.1, "steps": 1200},
        "words weighted": {"weights": True, "schedule": "cosine"},
    },
    {
        "never masked": ("leak", {"fault": "never masked"}),
        "labels after masking": ("leak collapse no-skill", {"fault": "labels after masking"}),
        "the others are asked": ("leak", {"fault": "the others are asked"}),
        "no word is asked": ("ignored no-gradient not-finite", {"fault": "no word is asked"}),
        "bags of words": ("no-skill", {"fault": "bags of words"}),
        "few sentences": ("overfit", {"fault": "few sentences"}),
        "padding alone seen": ("no-skill not-finite", {"fault": "padding alone seen"}),
        "rate x 300": ("fast no-skill dead", {"rate": 0.9}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
        "decay forgets": ("no-skill collapse worse", {"decay": 100.0}),
    },
)
