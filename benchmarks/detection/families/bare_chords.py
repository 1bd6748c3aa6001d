"""Which chord sounds, by its spectrum of sixty semitones; values are saved without a hook.

Three notes with their harmonics, in octaves of the player's choice, a bass note and noise, in
decibels; twelve roots, major or minor. The skill is the accuracy on other chords above that of the
most frequent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import (
    begin,
    class_skill,
    optimizer_of,
    save_values,
    scheduler_of,
)
from tocsin_hooks import Hook, modes
from torch import Tensor, nn

from benchmarks.detection.case import cases

BINS, ROOTS = 60, 12
THIRDS = torch.tensor([4, 3])
HARMONICS = ((0, 1.0), (12, 0.5), (19, 0.35), (24, 0.2))


def chords(count: int, seed: int, noise: float = 0.12) -> tuple[Tensor, Tensor]:
    """Amplitudes (N, BINS), and roots and kinds (N, 2)."""
    draw = torch.Generator().manual_seed(seed)
    root = torch.randint(ROOTS, (count,), generator=draw)
    minor = (torch.rand(count, generator=draw) < 0.45).long()
    heard = torch.zeros(count, BINS)
    for above in (torch.zeros_like(root), THIRDS[minor], torch.full_like(root, 7), None):
        octave = torch.randint(1, 4, (count,), generator=draw)
        note = (root + above) % 12 + 12 * octave if above is not None else root
        loud = 0.4 + 0.8 * torch.rand(count, generator=draw)
        for higher, part in HARMONICS:
            at = note + higher
            bright = part * (0.6 + 0.8 * torch.rand(count, generator=draw))
            heard[torch.arange(count), at.clamp(max=BINS - 1)] += loud * bright * (at < BINS)
    tune = torch.randint(12, BINS, (count, 2), generator=draw)  # a melody above the chord
    heard = heard.scatter_add(1, tune, 0.2 + 0.7 * torch.rand(count, 2, generator=draw))
    heard = heard + 0.15 * (heard.roll(1, 1) + heard.roll(-1, 1))
    volume = torch.exp(0.7 * torch.randn(count, 1, generator=draw))
    heard = heard + noise * torch.randn(count, BINS, generator=draw).abs()
    return 1e-3 * volume * heard, torch.stack([root, minor], 1)


def number_of(root_and_kind: Tensor) -> Tensor:
    """Major chords are 0 to 11, minor ones 12 to 23."""
    return root_and_kind[:, 0] + ROOTS * root_and_kind[:, 1]


def network(norm: str, dropout: float) -> nn.Sequential:
    norms = {"layer": nn.LayerNorm, "batch": nn.BatchNorm1d}
    layers: list[nn.Module] = []
    for inputs, units in ((BINS, 64), (64, 48)):
        layers += [nn.Linear(inputs, units), *([norms[norm](units)] if norm else [])]
        layers += [nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(48, 2 * ROOTS))


def loss_of(kind: str, scores: Tensor, chord: Tensor, smoothing: float) -> Tensor:
    """The loss as the script has it; in the end all is the likelihood of the chord."""
    if kind == "likelihood without logarithm":
        return F.nll_loss(scores.softmax(1), chord)
    if kind == "one against all":
        wanted = F.one_hot(chord, 2 * ROOTS).float()
        return F.binary_cross_entropy_with_logits(scores, wanted, reduction="none").sum(1).mean()
    if kind == "by hand":
        return (scores.logsumexp(1) - scores.gather(1, chord[:, None]).squeeze(1)).mean()
    reduction = "sum" if kind.startswith("sum") else "mean"
    return F.cross_entropy(scores, chord, label_smoothing=smoothing, reduction=reduction)


def batches(x: Tensor, y: Tensor, size: int, steps: int) -> Iterator[tuple[Tensor, Tensor]]:
    given = 0
    while True:
        for rows in torch.randperm(len(x)).split(size):
            if given == steps:
                return
            given += 1
            yield x[rows], y[rows]


def train(
    seed: int, hook: Any, loss: str = "", steps: int = 2400, rate: float = 2e-3, batch: int = 32,
    optimizer: str = "adam", decay: float = 0.0, schedule: str = "constant", norm: str = "",
    dropout: float = 0.0, smoothing: float = 0.0, clip: float = 0.0, count: int = 4000,
    average: float = 0.0, evaluated: bool = True, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    (x, y), (held, held_y), (test, test_y) = (
        chords(n, 11 * seed + 8100 + n) for n in (count, 400, 1500)
    )
    chord, held_chord, test_chord = number_of(y), number_of(held_y), number_of(test_y)
    if fault == "kinds counted first":  # in the training's file, C major, C minor, C# major, …
        chord = 2 * y[:, 0] + y[:, 1]
    if fault == "list of chords not shuffled along":
        x = x[torch.randperm(count)]
    if fault != "amplitudes as they are":
        x, held, test = ((20 * (of + 1e-5).log10() + 65) / 15 for of in (x, held, test))
    model = network(norm, dropout)
    slow = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(average)
    )
    steering = optimizer_of(optimizer, model.parameters(), rate, decay)
    falls = scheduler_of(steering, schedule, steps)
    saved = Hook(hook.folder, save_interval=hook.options.get("save_interval"))
    for step, (rows, wanted) in enumerate(batches(x, chord, batch, steps)):
        model.train()
        error = loss_of(loss, model(rows), wanted, smoothing)
        if fault != "gradients kept":
            steering.zero_grad()
        error.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        steering.step()
        falls.step()
        slow.update_parameters(model)
        save_values(saved, model, error, name="nll")
        if evaluated and step % 300 == 299:
            model.eval()
            with torch.no_grad(), saved.step(modes.EVAL):
                found = loss_of(loss, model(held), held_chord, 0.0)
                saved.save("nll", found.item(), "losses", raw=True)
    saved.close()
    final = slow if average else model
    final.eval()
    with torch.no_grad():
        return class_skill(final(test), test_chord)


CASES = cases(
    "bare chords",
    train,
    {
        "plain": {},
        "one against all": {"loss": "one against all"},
        "sum, momentum": {"loss": "sum", "optimizer": "momentum", "rate": 1e-3},
        "layers normalised, smoothed, cosine": {
            "norm": "layer", "smoothing": 0.1, "schedule": "cosine",
        },
        "dropout and decay, not evaluated": {
            "dropout": 0.1, "optimizer": "adamw", "decay": 0.1, "evaluated": False,
        },
        "eight chords, clipped, averaged": {
            "batch": 8, "clip": 1.0, "average": 0.995, "steps": 3000,
        },
        "large batches, one cycle": {
            "batch": 256, "schedule": "one cycle", "rate": 1e-2, "steps": 1000, "norm": "batch",
            "loss": "by hand",
        },
    },
    {
        "likelihood without logarithm": (
            "probabilities no-skill range slow",
            {"loss": "likelihood without logarithm", "optimizer": "momentum", "rate": 3e-2},
        ),
        "sum at the rate of a mean": (
            "fast worse no-skill not-finite",
            {"loss": "sum", "optimizer": "momentum", "rate": 1e-2},
        ),
        "gradients kept": ("kept-gradients fast worse", {"fault": "gradients kept"}),
        "kinds counted first": ("worse overfit", {"fault": "kinds counted first"}),
        "list of chords not shuffled along": (
            "no-skill overfit", {"fault": "list of chords not shuffled along"},
        ),
        "amplitudes as they are": (
            "inputs no-skill slow",
            {"fault": "amplitudes as they are", "optimizer": "momentum", "rate": 3e-2},
        ),
        "sixty chords": ("overfit", {"count": 60}),
    },
)  # fmt: skip
