from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Role, Side, Verdict
from tocsin.rules import (
    PROFILES,
    Meta,
    Read,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    register,
    tensor_key,
)
from tocsin.rules._series import TRAINING
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation
from tocsin.rules.gradients._updates import base_name, gradient_norms
from tocsin.tensors import named

_Ratio = tuple[float, Tensor]

_TINY = 0.01  # of the median of all mean magnitudes, for weights that began as zeros
_NEAR = 100  # steps between saves in which healthy weights stay much the same


@register
@dataclass(frozen=True)
class WeightUpdateRatio(Rule):
    """Updates are too large or too small for the weights that they change.

    The ratio is mean |w − w before| / (mean |w| + ``epsilon``), from one save to the next; Amazon's
    documents name the rule and the epsilon but no formula. Fires when the ratio of a weight is
    above ``large_threshold`` or below ``small_threshold`` at a training step.

    ``lenient``, as in profile ``recommended``, needs five consecutive saves and makes exceptions
    for healthy runs:

    * A large ratio counts only if the saves are at most 100 steps apart.
    * A small ratio is per step, and counts after ``patience`` saves for a weight that changes and
      never had a larger one.
    * Weights without a gradient (averages), single numbers, biases, and weights that started at
      zero and are still tiny are ignored.

    Profile ``sagemaker`` keeps Amazon's documented defaults, which fire on every frozen weight.

    Parameters
    ----------
    num_steps: compares with a save at most this many steps before (Amazon: "a step >= s -
        num_steps", to be set to the save interval); none: no limit.
    large_threshold: largest healthy ratio.
    small_threshold: smallest healthy ratio; below ``large_threshold``.
    epsilon: added to mean |w|, in units of the weights.
    lenient: make the exceptions above.
    patience: number of saves before a small ratio counts, if ``lenient``.
    collection_names, tensor_regex: which tensors to watch instead of those with role weight.

    Example: a weight changes its sign at every step: its ratio is 2.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 5}
    sagemaker: ClassVar[Mapping[str, Any]] = {"large_threshold": 10.0, "lenient": False}
    profiles: ClassVar[tuple[str, ...]] = PROFILES
    causes: ClassVar[str] = (
        "The learning rate does not suit this layer: if it is too high, weights change "
        "erratically; if it is too low, or the gradient is tiny, weights keep their first values."
    )
    advice: ClassVar[str] = (
        "A step usually changes weights by about a thousandth of their size. Adapt the learning "
        "rate, or that of this layer; use warm-up, clip gradients, and check the initialisation."
    )

    num_steps: Annotated[int, Meta(ge=1)] | None = None
    large_threshold: Annotated[float, Meta(gt=0)] = 0.9
    small_threshold: Annotated[float, Meta(ge=0)] = 1e-8
    epsilon: Annotated[float, Meta(gt=0)] = 1e-9
    lenient: bool = True
    patience: Annotated[int, Meta(ge=1)] = 20
    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        small, large = self.small_threshold, self.large_threshold
        if small >= large:
            raise ValueError(
                f"small_threshold is {small}, but must be below large_threshold, {large}"
            )

    def reads(self) -> Reads:
        read = Read(roles=(Role.WEIGHT,), fields=("size", "l1", "update_l1"))
        gradients = Read(roles=(Role.GRADIENT,), fields=("l2",))
        weights = read.explicitly(self.collection_names, self.tensor_regex)
        return Reads({"weights": weights, "gradients": gradients}, needs=("weights",))

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if step.mode not in TRAINING:
            return state, not_applicable(Reason.NO_TENSOR, f"a step of mode {step.mode.name}")
        if not step.tensors["weights"]:
            return state, not_applicable(Reason.NO_TENSOR, "no weight")
        since = state.get("at")
        steps = max(1, step.mode_step - since) if since is not None else None
        state = {**state, "at": step.mode_step}
        if since is None and self.lenient:
            state["zeros"] = sorted(tensor_key(w) for w in step.tensors["weights"] if _mean(w) == 0)
        if steps is None or (self.num_steps is not None and steps > self.num_steps):
            return state, UNDECIDED
        known = [
            (ratio, tensor)
            for tensor in _grown(self._trained(step), state.get("zeros", ()))
            if (ratio := self._ratio(tensor)) is not None
        ]
        if not known:
            return state, UNDECIDED
        ratio, tensor = max(known, key=lambda pair: pair[0])
        if ratio > self.large_threshold and not (self.lenient and steps > _NEAR):
            return state, self._found("above", ratio, self.large_threshold, tensor)
        healthy = measured(HEALTHY, ratio, self.large_threshold)
        if self.lenient:
            state, known = self._never_good(state, known, steps)
        ratio, tensor = min(known, key=lambda pair: pair[0], default=(math.inf, tensor))
        if ratio < self.small_threshold:
            return state, self._found("below", ratio, self.small_threshold, tensor)
        return state, healthy

    def _trained(self, step: Step) -> Sequence[Tensor]:
        """The weights to judge: if ``lenient``, those with a gradient, where any has one, no biases
        and no single numbers."""
        weights = step.tensors["weights"]
        if self.collection_names or self.tensor_regex or not self.lenient:
            return weights
        known = gradient_norms(step)
        weights = tuple(
            w
            for w in weights
            if (named(w.name) or (None,))[0] is not Role.BIAS and w.summary.size != 1
        )
        return [w for w in weights if not known or (w.worker, base_name(w.name)) in known]

    def _ratio(self, tensor: Tensor) -> float | None:
        summary = tensor.summary
        if summary.update_l1 is None or summary.l1 is None or not summary.size:
            return None
        return summary.update_l1 / (summary.l1 + self.epsilon * summary.size)

    def _never_good(
        self, state: State, known: list[_Ratio], steps: int
    ) -> tuple[State, list[_Ratio]]:
        """Return the ratios per step of weights that change but never had a large enough ratio."""
        good, saves = set(state.get("good", ())), state.get("saves", 0) + 1
        small = []
        for ratio, tensor in known:
            if (key := tensor_key(tensor)) in good:
                continue
            if ratio / steps >= self.small_threshold:
                good.add(key)
            elif ratio and saves >= self.patience:
                small.append((ratio / steps, tensor))
        return {**state, "good": sorted(good), "saves": saves}, small

    def _found(self, side: Side, ratio: float, bound: float, tensor: Tensor) -> Verdict:
        reason = Reason.CHANGED_TOO_MUCH if side == "above" else Reason.CHANGED_TOO_LITTLE
        per_step = " per step" if side == "below" and self.lenient else ""
        detail = f"update/weight ratio {ratio:.3g}{per_step} of {tensor.name} is {side} {bound:g}"
        found = violation(reason, detail, tensor, ratio=ratio, threshold=bound)
        return measured(found, ratio, bound, side)


def _mean(tensor: Tensor) -> float | None:
    """The mean magnitude of a weight; None if it is not known."""
    l1, size = tensor.summary.l1, tensor.summary.size
    return None if l1 is None or not size else l1 / size


def _grown(weights: Sequence[Tensor], zeros: Container[str]) -> list[Tensor]:
    """The weights without those that began as ``zeros``, by their keys, and are still tiny."""
    usual = median([mean for weight in weights if (mean := _mean(weight)) is not None] or [0.0])
    return [
        weight
        for weight in weights
        if tensor_key(weight) not in zeros or (_mean(weight) or 0.0) >= _TINY * usual
    ]
