"""Updates: how far the weights moved between two saves, beside gradients and loss."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from tocsin.model import Role
from tocsin.rules._rule import Read, Reads, Step, Tensor
from tocsin.rules._series import LOSSES, TRAINING, points

READS = Reads(
    {
        "weights": Read(roles=(Role.WEIGHT,), fields=("l2", "update_l2"), back=1),
        "gradients": Read(roles=(Role.GRADIENT,), fields=("l2",)),
        "losses": LOSSES,
    }
)
"""Reads what an update follows from."""


@dataclass(frozen=True)
class Update:
    """The change of a worker's weights in ``steps`` steps. All norms are Euclidean.

    ``relative`` is the median over the weights of |Δw| / |w|, with the larger |w| of both saves.
    ``weight`` is the weight with that median.
    ``distance`` is |Δw| of all weights together.
    ``size`` is |w| of all weights together.
    ``gradient`` is |g| of all gradients together.
    """

    steps: int
    relative: float
    weight: Tensor
    distance: float
    size: float
    gradient: float

    def gain(self, loss: float, steps: float) -> float:
        """The part of a loss that one of ``steps`` such steps can take away, to first order.

        The bound is |g| |Δw| / steps: a product of vectors is at most that of their norms.
        """
        return self.gradient * (self.distance / steps) / abs(loss) if loss else math.inf


def missing(step: Step) -> str:
    """Names what a step lacks for judging updates; empty if it lacks nothing."""
    if step.mode not in TRAINING:
        return f"a step of mode {step.mode.name}"
    lacking = [name for name, found in step.tensors.items() if not found]
    return f"no {' and no '.join(lacking)}" if lacking else ""


def total_loss(step: Step) -> float | None:
    """The sum of a step's losses: None if none is known, NaN or infinite if one of them is."""
    losses = [point.value for point in points(step, step.tensors["losses"], "falls")]
    return sum(losses) if losses else None


def latest_update(step: Step, since: int | None) -> Update | None:
    """The update from the save at mode step ``since`` to this one; None if it is not known.

    It takes the first of several workers: they train the same weights, or each a part of them.
    """
    worker = next((tensor.worker for tensor in step.tensors["weights"]), None)
    weights = [tensor for tensor in step.tensors["weights"] if tensor.worker == worker]
    gradients = [tensor for tensor in step.tensors["gradients"] if tensor.worker == worker]
    moved = [
        (change / size, tensor.name, tensor)
        for tensor in weights
        if (change := tensor.summary.update_l2) is not None and (size := _size(tensor))
    ]
    if since is None or not moved:
        return None
    relative, _, weight = sorted(moved, key=lambda move: move[:2])[len(moved) // 2]
    return Update(
        steps=max(1, step.mode_step - since),
        relative=relative,
        weight=weight,
        distance=_norm(tensor.summary.update_l2 for tensor in weights),
        size=_norm(tensor.summary.l2 for tensor in weights),
        gradient=_norm(tensor.summary.l2 for tensor in gradients),
    )


def known(number: float | None) -> float | None:
    """A number as a state keeps it: with five digits, None if it is not finite."""
    return float(f"{number:.5g}") if number is not None and math.isfinite(number) else None


def typical(numbers: Iterable[float | None]) -> float:
    """The median of what ``known`` has kept; None counts as infinitely large."""
    return median(math.inf if number is None else number for number in numbers)


def _size(weight: Tensor) -> float:
    before = [earlier.summary.l2 or 0.0 for earlier in weight.previous]
    return max([weight.summary.l2 or 0.0, *before])


def _norm(parts: Iterable[float | None]) -> float:
    return math.hypot(*(part for part in parts if part is not None))
