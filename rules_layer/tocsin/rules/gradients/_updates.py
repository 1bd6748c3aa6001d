"""Compares updates, the change of the weights between two saves, with gradients and loss."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean
from typing import Any

from tocsin.model import Role
from tocsin.rules._kinds import with_level, without_level
from tocsin.rules._rule import Read, Reads, State, Step, Tensor
from tocsin.rules._series import LOSSES, TRAINING, points
from tocsin.rules._window import rounded

_ENDING = re.compile(r"(?::\d+)?$|[._]?[Gg]rad(?::\d+)?$")

_FARTHEST = 1000.0  # largest factor of a suggested learning rate

OBJECTIVES = Read(roles=(Role.OBJECTIVE,), fields=LOSSES.fields)
"""Reads what gradients were computed of, where that is a multiple of the losses."""

UPDATE_READS = Reads(
    {
        "weights": Read(roles=(Role.WEIGHT,), fields=("l2", "update_l2"), back=1),
        "gradients": Read(roles=(Role.GRADIENT,), fields=("l2",)),
        "losses": LOSSES,
        "objectives": OBJECTIVES,
    }
)
"""Reads weights, gradients and losses, for rules on updates."""

RATE_READS = Reads(
    {**UPDATE_READS.tensors, "rates": Read(roles=(Role.LEARNING_RATE,), fields=("mean",))},
    needs=("weights",),
)
"""Reads the learning rate, too, for rules that say which one to try."""


@dataclass(frozen=True)
class Update:
    """The change of a worker's weights in ``steps`` steps. All norms are Euclidean.

    The sums are over the weights, each with its own gradient, so they have no unit of a layer.

    ``steps``: the number of steps between the two saves.
    ``relative``: the median over the weights of |Δw| / |w|, with the larger |w| of both saves.
    ``weight``: the weight with that median.
    ``effect``: the sum of |g| |Δw|.
    ``reach``: the sum of |g| |w|.
    ``pace``: the geometric mean of |Δw| / |g|; None if nothing changed.
    """

    steps: int
    relative: float
    weight: Tensor
    effect: float
    reach: float
    pace: float | None

    def gain(self, loss: float, steps: float) -> float:
        """Return the largest share of a loss that one of ``steps`` steps can remove.

        To first order, a step lowers the loss by at most the sum of |g| |Δw| / steps.
        """
        return self.effect / steps / abs(loss) if loss else math.inf


def missing_inputs(step: Step, *, level: bool = False) -> str:
    """Says which inputs are missing at a step; empty if none is. ``level``: for a rule that asks
    whether a loss has fallen, a loss must have a level."""
    if step.mode not in TRAINING:
        return f"a step of mode {step.mode.name}"
    needed = (name for name in UPDATE_READS.tensors if name != "objectives")
    lacking = [name for name in needed if not step.tensors.get(name)]
    if lacking or not level:
        return f"no {' and no '.join(lacking)}" if lacking else ""
    losses, kinds = with_level(step.tensors["losses"], named=False)
    return "" if losses else without_level(kinds)


def rate_to_try(step: Step, removed: float) -> str:
    """Return the largest learning rate of a step and the one to try; empty if none is known.

    ``removed``: how many times the loss the rate removes, to first order, in a step if it is too
    large, in all steps if it is too small. The one to try would remove it once, and is at most a
    thousand times as large or small.
    """
    rates = [t.summary.mean for t in step.tensors.get("rates", ()) if t.summary.mean]
    if not rates or not 0 < removed < math.inf:
        return ""
    now, by = max(rates), min(max(removed, 1 / _FARTHEST), _FARTHEST)
    return f"; the learning rate is {now:.3g}: try {float(f'{now / by:.0e}'):g}"


def total_loss(step: Step) -> float | None:
    """Return the sum of the losses that a step's gradients were computed of, None if none is known.
    It may be NaN or infinite.
    """
    tensors = step.tensors.get("objectives") or step.tensors["losses"]
    losses = [point.value for point in points(step, tensors, "falls")]
    return sum(losses) if losses else None


def latest_update(step: Step, since: int | None) -> Update | None:
    """Return the update since the save at mode step ``since``, or None if it is not known.

    Looks at the first worker only: workers train the same weights, or each a part of them. Weights
    without a gradient are not trained: an average of others changes in another way.
    """
    if since is None:
        return None
    worker = next((tensor.worker for tensor in step.tensors["weights"]), None)
    weights = [tensor for tensor in step.tensors["weights"] if tensor.worker == worker]
    norms = gradient_norms(step)
    weights = [t for t in weights if (t.worker, base_name(t.name)) in norms] or weights
    moved = [
        (change / size, tensor.name, tensor)
        for tensor in weights
        if (change := tensor.summary.update_l2) is not None and (size := _size(tensor))
    ]
    if not moved:
        return None
    relative, _, weight = sorted(moved, key=lambda move: move[:2])[len(moved) // 2]
    found = layers(step, weights, norms)
    paces = [math.log(change / gradient) for gradient, change, _ in found if change and gradient]
    return Update(
        steps=max(1, step.mode_step - since),
        relative=relative,
        weight=weight,
        effect=sum(gradient * change for gradient, change, _ in found),
        reach=sum(gradient * size for gradient, _, size in found),
        pace=math.exp(fmean(paces)) if paces else None,
    )


def followed(
    state: State, step: Step, digits: int = 6
) -> tuple[dict[str, Any], Update | None, float | None]:
    """Return the state with the step of this save, the update since the last one, and the loss.

    The update is None where it is not known, the loss where it is not finite.
    """
    update, loss = latest_update(step, state.get("at")), rounded(total_loss(step), digits)
    return {**state, "at": step.mode_step}, update, loss


def layers(
    step: Step, weights: Sequence[Tensor], norms: Mapping[tuple[str, str], float]
) -> list[tuple[float, float, float]]:
    """Return |g|, |Δw| and |w| of each weight; of all together if names do not match.

    norms: of the step, by ``gradient_norms``.
    """
    if not weights:
        return []
    found = [
        (norm, weight.summary.update_l2 or 0.0, weight.summary.l2 or 0.0)
        for weight in weights
        if (norm := norms.get((weight.worker, base_name(weight.name)))) is not None
    ]
    if found:
        return found
    worker = weights[0].worker
    gradient = _norm(t.summary.l2 for t in step.tensors["gradients"] if t.worker == worker)
    return [
        (
            gradient,
            _norm(weight.summary.update_l2 for weight in weights),
            _norm(weight.summary.l2 for weight in weights),
        )
    ]


def _size(weight: Tensor) -> float:
    before = [earlier.summary.l2 or 0.0 for earlier in weight.previous]
    return max([weight.summary.l2 or 0.0, *before])


def _norm(parts: Iterable[float | None]) -> float:
    return math.hypot(*(part for part in parts if part is not None))


def total_norm(step: Step, read: str) -> float:
    """Return the norm of all gradients or weights of a worker together, as clipping measures it."""
    worker = next((tensor.worker for tensor in step.tensors[read]), None)
    return _norm(t.summary.l2 for t in step.tensors[read] if t.worker == worker)


def gradient_norms(step: Step) -> Mapping[tuple[str, str], float]:
    """Return the norm of each weight's gradient, by worker and name; the largest of the saves that
    a rule reads."""
    gradients = step.tensors["gradients"]
    names = _weights_of(
        tuple([each.name for each in gradients]),
        tuple([each.name for each in step.tensors["weights"]]),
    )
    norms = {}
    for tensor, name in zip(gradients, names, strict=True):
        norm = tensor.summary.l2
        if name is not None and norm is not None:
            for earlier in tensor.previous:
                norm = max(norm, earlier.summary.l2 or 0.0)
            norms[tensor.worker, name] = norm
    return norms


@lru_cache(maxsize=4)  # several rules ask, and the next step has the same
def _weights_of(gradients: tuple[str, ...], weights: tuple[str, ...]) -> tuple[str | None, ...]:
    """Return the weight of each gradient, by their names."""
    names = {base_name(weight) for weight in weights}
    return tuple([weight_of(base_name(gradient), names) for gradient in gradients])


@lru_cache(maxsize=1 << 14)
def base_name(name: str) -> str:
    """Return the name of a weight or gradient without a framework's suffix."""
    return _ENDING.sub("", name, count=1)


def weight_of(gradient: str, names: Container[str]) -> str | None:
    """Return the weight whose name is this gradient's name, or its end after a slash."""
    while gradient not in names:
        _, slash, gradient = gradient.partition("/")
        if not slash:
            return None
    return gradient
