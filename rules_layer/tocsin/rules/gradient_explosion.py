"""GradientExplosion."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Role, Verdict
from tocsin.rules import (
    HEALTHY,
    UNDECIDED,
    Meta,
    Read,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    not_applicable,
    register,
    violation,
)

_FIRST = 5  # saves whose median is the run's own measure


@register
@dataclass(frozen=True)
class GradientExplosion(Rule):
    """Gradients have grown far beyond what they were at the start.

    Compares the norm of all gradients of a worker with its median over the run's first five saves
    (saves with a norm of 0 left out). Fires when the norm of any worker is at least ``ratio`` times
    that and above ``least``, or above ``threshold`` in any case. Profile ``recommended`` fires at
    three saves in a row: one odd batch is not an explosion. The start is the reference because
    healthy gradients are largest there; ``least`` is there because a network that leaves a plateau
    starts with tiny gradients. Gradients that are not finite are left to ExplodingTensor.

    Parameters
    ----------
    ratio: how many times the norm at the start is too large.
    least: norm below which no growth counts.
    threshold: norm that is too large from the first save on.
    collection_names, tensor_regex: which tensors to watch instead of those with role gradient.

    Example: a norm of about 2 that becomes 300, 4000 and 50000.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 3}
    inhibits: ClassVar[tuple[str, ...]] = ("LossTooGoodTooSoon", "Overfit", "Overtraining")
    causes: ClassVar[str] = (
        "Each layer, or each step of a recurrence, multiplies the gradient by weights that have "
        "become too large; or a learning rate that is too high has moved the weights to where the "
        "loss is steep."
    )
    advice: ClassVar[str] = (
        "Clip gradients by their norm, lower the learning rate or warm it up, and use "
        "normalisation layers or gated recurrent units."
    )

    ratio: Annotated[float, Meta(gt=1)] = 100.0
    least: Annotated[float, Meta(ge=0)] = 10.0
    threshold: Annotated[float, Meta(gt=0)] = 1e8
    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()

    def reads(self) -> Reads:
        read = Read(roles=(Role.GRADIENT,), fields=("l2",))
        return Reads({"gradients": read.explicitly(self.collection_names, self.tensor_regex)})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        norms = [
            _norm(list(tensors))
            for _, tensors in groupby(step.tensors["gradients"], lambda tensor: tensor.worker)
        ]
        worst = max((found for found in norms if found), default=None, key=lambda found: found[0])
        if worst is None:
            return state, not_applicable(Reason.NO_TENSOR, "no gradient with a finite norm")
        norm, tensor = worst
        first = state.get("first", [])
        start = median(first) if len(first) == _FIRST else None
        if start is None and 0 < norm < math.inf:
            state = {"first": [*first, float(f"{norm:.5g}")]}
        limit = self.threshold
        if start is not None:
            limit = min(limit, max(self.least, start * self.ratio))
        if norm < limit:
            return state, UNDECIDED if start is None else HEALTHY
        before = "" if start is None else f"; at the start it was {start:.3g}"
        detail = (
            f"the gradients' norm is {norm:.3g}, the limit {limit:.3g}{before};"
            f" the largest one is {tensor.name}"
        )
        evidence = {"norm": norm, "limit": limit, **({} if start is None else {"start": start})}
        return state, violation(Reason.ABOVE_THRESHOLD, detail, tensor, **evidence)


def _norm(tensors: list[Tensor]) -> tuple[float, Tensor] | None:
    """The norm of one worker's gradients together, and the gradient with the largest share."""
    parts = [(tensor.summary.l2, tensor) for tensor in tensors if tensor.summary.l2 is not None]
    if not parts:
        return None
    _, largest = max(parts, key=lambda part: part[0])
    return math.hypot(*(part for part, _ in parts)), largest
