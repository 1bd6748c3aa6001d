"""A loop: how a training is carried out, and what loops have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.detection import kit
from benchmarks.detection.run_hook import RunHook
from benchmarks.detection.task import Training

GRADIENTS = frozenset(["samples", "model", "loss", "optimizer", "settings"])
"""The parts of a training that a loop of gradients has, whoever wrote it."""


@dataclass(frozen=True)
class Loop:
    """``train`` carries out a training with a hook, and returns its skill on held-out samples.

    ``needs`` are traits that a task must have, ``without`` those that it must not have; ``parts``
    are what a change may change.
    """

    train: Callable[[Training, RunHook], float]
    needs: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset(["adversarial", "episodes"])
    parts: frozenset[str] = GRADIENTS

    def fits(self, traits: frozenset[str]) -> bool:
        return self.needs <= traits and not self.without & traits


def optimizer_of(t: Training, model: nn.Module) -> Any:
    """Return the optimizer of those parameters that require gradients."""
    chosen = [p for p in t.parameters(model) if p.requires_grad]
    return kit.optimizer_of(t.optimizer, chosen, t.rate, t.weight_decay)


def batches(
    t: Training, steps: int | None = None, size: int | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield so many batches, epoch after epoch, shuffled again for each."""
    x, y = t.samples.x, t.samples.y
    draw = torch.Generator().manual_seed(t.seed + 2)
    left = t.steps if steps is None else steps
    size = min(size or t.batch, len(x))
    while left > 0:
        order = torch.randperm(len(x), generator=draw) if t.shuffled else torch.arange(len(x))
        for rows in order.split(size)[: len(x) // size]:
            if left == 0:
                return
            yield x[rows], y[rows]
            left -= 1


def evaluate(t: Training, model: nn.Module) -> float:
    """Return the mean loss of (at most 256) held-out samples, in the mode that the model is in."""
    losses = []
    with torch.no_grad():
        for begin in range(0, min(256, len(t.samples.held_x)), 128):
            x = t.samples.held_x[begin : begin + 128]
            losses.append(t.loss(model(x), t.samples.held_y[begin : begin + 128]).item())
    return sum(losses) / len(losses)


def skill_of(t: Training, model: nn.Module) -> float:
    """Return the skill of a model in eval mode, on all held-out samples."""
    model.eval()
    return predict(t, model)


def predict(t: Training, model: nn.Module) -> float:
    """Return the skill of a model in the mode that it is in."""
    with torch.no_grad():
        outputs = model(t.samples.held_x)
    return t.skill(outputs, t.samples.held_y)
