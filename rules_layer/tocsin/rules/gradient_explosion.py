"""GradientExplosion."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Any, ClassVar

from tocsin.model import Reason, Role, Verdict
from tocsin.rules._registry import register
from tocsin.rules._rule import (
    HEALTHY,
    UNDECIDED,
    Read,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    not_applicable,
    violation,
)

_FIRST = 5  # saves whose median is the run's own measure


@register
@dataclass(frozen=True)
class GradientExplosion(Rule):
    """Gradients have grown far beyond what they were at the start.

    The norm of all gradients of a worker together is set against the median of the run's first
    five saves (those without any gradient left out). Fires when the largest worker's is at least
    ``ratio`` times that and above ``least``, or above ``threshold`` in any case. In profile
    ``recommended`` it takes three saves in a row: one odd batch is no explosion. The start is the
    measure because healthy gradients are largest there; the floor is there because a network
    that leaves a plateau starts from next to nothing. Gradients that are not finite are
    ExplodingTensor's.

    Parameters
    ----------
    ratio: how many times the norm at the start, above 1.
    least: norm below which no growth counts, 0 or more.
    threshold: norm that is too large from the first save on, above 0.
    collection_names, tensor_regex: which tensors to watch instead of those with role gradient.

    Example: a norm of about 2 that becomes 300, 4000 and 50000.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 3}
    causes: ClassVar[str] = (
        "Each layer, or each step of a recurrence, multiplies the gradient by weights that have "
        "become too large; or a learning rate that is too high has thrown the weights to where "
        "the loss is steep."
    )
    advice: ClassVar[str] = (
        "Clip gradients by their norm, lower the learning rate or warm it up, and use "
        "normalisation layers or gated recurrent units."
    )

    ratio: float = 100.0
    least: float = 10.0
    threshold: float = 1e8
    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 < self.ratio < math.inf:
            raise ValueError(f"ratio is {self.ratio}, but must be a number above 1")
        if not 0 <= self.least < math.inf:
            raise ValueError(f"least is {self.least}, but must be a number from 0 on")
        if not 0 < self.threshold < math.inf:
            raise ValueError(f"threshold is {self.threshold}, but must be a number above 0")

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
    """The norm of one worker's gradients together, and the one with the largest share."""
    parts = [(tensor.summary.l2, tensor) for tensor in tensors if tensor.summary.l2 is not None]
    if not parts:
        return None
    _, largest = max(parts, key=lambda part: part[0])
    return math.hypot(*(part for part, _ in parts)), largest
