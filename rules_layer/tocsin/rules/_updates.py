"""Compares updates, the change of the weights between two saves, with gradients and loss."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tocsin.model import Role
from tocsin.rules._rule import Read, Reads, Step, Tensor
from tocsin.rules._series import LOSSES, TRAINING, points

UPDATE_READS = Reads(
    {
        "weights": Read(roles=(Role.WEIGHT,), fields=("l2", "update_l2"), back=1),
        "gradients": Read(roles=(Role.GRADIENT,), fields=("l2",)),
        "losses": LOSSES,
    }
)
"""Reads weights, gradients and losses, for rules on updates."""


@dataclass(frozen=True)
class Update:
    """The change of a worker's weights in ``steps`` steps. All norms are Euclidean.

    ``steps``: the number of steps between the two saves.
    ``relative``: the median over the weights of |Δw| / |w|, with the larger |w| of both saves.
    ``weight``: the weight with that median.
    ``distance``: |Δw| of all weights together.
    ``size``: |w| of all weights together.
    ``gradient``: |g| of all gradients together.
    """

    steps: int
    relative: float
    weight: Tensor
    distance: float
    size: float
    gradient: float

    def gain(self, loss: float, steps: float) -> float:
        """Returns the largest share of a loss that one of ``steps`` steps can remove.

        To first order, a step lowers the loss by at most |g| |Δw| / steps.
        """
        return self.gradient * (self.distance / steps) / abs(loss) if loss else math.inf


def missing_inputs(step: Step) -> str:
    """Says which inputs are missing at a step; empty if none is."""
    if step.mode not in TRAINING:
        return f"a step of mode {step.mode.name}"
    lacking = [name for name, found in step.tensors.items() if not found]
    return f"no {' and no '.join(lacking)}" if lacking else ""


def total_loss(step: Step) -> float | None:
    """Returns the sum of a step's losses, None if none is known. It may be NaN or infinite."""
    losses = [point.value for point in points(step, step.tensors["losses"], "falls")]
    return sum(losses) if losses else None


def latest_update(step: Step, since: int | None) -> Update | None:
    """Returns the update since the save at mode step ``since``, or None if it is not known.

    Looks at the first worker only: workers train the same weights, or each a part of them.
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


def _size(weight: Tensor) -> float:
    before = [earlier.summary.l2 or 0.0 for earlier in weight.previous]
    return max([weight.summary.l2 or 0.0, *before])


def _norm(parts: Iterable[float | None]) -> float:
    return math.hypot(*(part for part in parts if part is not None))
