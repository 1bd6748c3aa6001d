"""FrozenParameters."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

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
    tensor_key,
    violation,
)
from tocsin.rules._updates import TRAINING

_SLIGHT = 1e-3  # of the largest gradient: an update by less may be lost in rounding
_ENDING = re.compile(r"(?::\d+)?$|[._]?[Gg]rad(?::\d+)?$")

_Driven = tuple[float, Tensor]
"""A weight that should move, behind the norm of its gradient."""


@register
@dataclass(frozen=True)
class FrozenParameters(Rule):
    """A weight gets gradients but has never changed: it is not being trained.

    A weight has changed when its update since the save before is not zero, or, where that was not
    captured, its fingerprint is another. Fires when one
    of two dimensions or more has not since its first save, though in ``patience`` of them its own
    gradient was not zero (nor less than a thousandth of the largest: such updates may be lost in
    rounding) and other weights or biases changed. Fires also when none of them ever changed in
    that many saves, and in ``accumulation`` steps: the optimiser does not step.

    What is frozen on purpose gets no gradient, and is left alone; so is what has changed once.
    A gradient belongs to the weight whose name it ends in (``gradient/NAME``, ``NAME.grad``,
    ``gradients/NAMEGrad``). Weights of one dimension, mostly scales, may be too near to 1 for
    small updates of half precision, and are not judged.

    Parameters
    ----------
    patience: saves without a change, at least 1.
    accumulation: steps in which gradients may be gathered before the weights change, 0 or more.

    Example: the optimiser was built before a new head was put on the model.
    """

    causes: ClassVar[str] = (
        "The parameter was never given to the optimiser, or was replaced after the optimiser was "
        "built; the optimiser's step is never called; or the updates are lost in rounding."
    )
    advice: ClassVar[str] = (
        "Compare the optimiser's parameters with the model's, and build it after the model is "
        "complete. If this layer is frozen on purpose, switch off its gradient "
        "(requires_grad=False, trainable=False): that saves time as well."
    )

    patience: int = 10
    accumulation: int = 64

    def __post_init__(self) -> None:
        if self.patience < 1:
            raise ValueError(f"patience is {self.patience}, but must be at least 1")
        if self.accumulation < 0:
            raise ValueError(f"accumulation is {self.accumulation}, but must be 0 or more")

    def reads(self) -> Reads:
        weights = Read(roles=(Role.WEIGHT, Role.BIAS), fields=("update_l2",), back=1)
        return Reads(
            {"weights": weights, "gradients": Read(roles=(Role.GRADIENT,), fields=("l2",))}
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if step.mode not in TRAINING:
            return state, not_applicable(Reason.NO_TENSOR, f"a step of mode {step.mode.name}")
        gradients = _gradients(step)
        if not gradients:
            return state, not_applicable(Reason.NO_TENSOR, "no gradient that belongs to a weight")
        known = [
            (weight, changed)
            for weight in step.tensors["weights"]
            if (changed := _changed(weight)) is not None
        ]
        judged = [(weight, changed) for weight, changed in known if _is_judged(weight)]
        slight = max(gradients.values()) * _SLIGHT
        still = [
            (norm, weight)
            for weight, changed in judged
            if not changed
            and (norm := gradients.get((weight.worker, _base(weight.name)), 0.0)) > slight
        ]
        if any(changed for _, changed in known):
            return self._some(_counts(state, judged), still) if judged else (state, UNDECIDED)
        return self._none(state, step, still) if still else (state, UNDECIDED)

    def _some(self, counts: dict[str, int], still: list[_Driven]) -> tuple[State, Verdict]:
        """Weights change: has each of them ever?"""
        stuck = []
        for norm, weight in still if counts else ():
            if (key := tensor_key(weight)) in counts:
                counts[key] += 1
                if counts[key] >= self.patience:
                    stuck.append((norm, weight, counts[key]))
        if not stuck:
            return {"counts": counts}, HEALTHY
        norm, weight, count = max(stuck, key=lambda item: item[0])
        others = f" ({len(stuck) - 1} more like it)" if len(stuck) > 1 else ""
        detail = (
            f"{weight.name} has not changed in {count} saves{others}, though its gradient's norm "
            f"is {norm:.3g} and other weights change"
        )
        evidence = {"saves": count, "gradient": norm, "weights": len(stuck)}
        found = violation(Reason.CHANGED_TOO_LITTLE, detail, weight, **evidence)
        return {"counts": counts}, found

    def _none(self, state: State, step: Step, driven: list[_Driven]) -> tuple[State, Verdict]:
        """No weight has changed: has any ever?"""
        if "counts" in state:
            return state, UNDECIDED
        still, since = state.get("still", 0) + 1, state.get("since", step.mode_step)
        state = {"still": still, "since": since}
        if still < self.patience or step.mode_step - since < self.accumulation:
            return state, UNDECIDED
        norm, weight = max(driven, key=lambda item: item[0])
        detail = (
            f"no weight has changed in {still} saves, though the norm of the gradient of "
            f"{weight.name} is {norm:.3g}"
        )
        evidence = {"saves": still, "gradient": norm, "weights": len(driven)}
        return state, violation(Reason.CHANGED_TOO_LITTLE, detail, weight, **evidence)


def _counts(state: State, judged: list[tuple[Tensor, bool]]) -> dict[str, int]:
    """In how many saves a weight that has never changed should have, by its key. Whatever has
    changed, or came only later, is left out.
    """
    if "counts" not in state:
        return {tensor_key(weight): 0 for weight, changed in judged if not changed}
    counts = dict(state["counts"])
    for weight, changed in judged if counts else ():
        if changed:
            counts.pop(tensor_key(weight), None)
    return counts


def _changed(weight: Tensor) -> bool | None:
    """Whether it is another than at the save before; None if that is not known."""
    if weight.summary.update_l2 is not None:
        return weight.summary.update_l2 > 0
    now = weight.summary.fingerprint
    before = weight.previous[0].summary.fingerprint if weight.previous else None
    return None if now is None or before is None else now != before


def _is_judged(weight: Tensor) -> bool:
    return weight.role is not Role.BIAS and (weight.shape is None or len(weight.shape) > 1)


def _gradients(step: Step) -> Mapping[tuple[str, str], float]:
    """The norm of the gradient of each weight that has one, by worker and name."""
    names = {_base(weight.name) for weight in step.tensors["weights"]}
    norms = {}
    for tensor in step.tensors["gradients"]:
        name = _weight_of(_base(tensor.name), names)
        if name is not None and tensor.summary.l2 is not None:
            norms[tensor.worker, name] = tensor.summary.l2
    return norms


@lru_cache(maxsize=1 << 14)
def _base(name: str) -> str:
    """A weight's or gradient's name without what a framework adds behind it."""
    return _ENDING.sub("", name, count=1)


def _weight_of(gradient: str, names: Container[str]) -> str | None:
    """The weight whose name this gradient's ends in, behind a slash or as a whole."""
    while gradient not in names:
        _, slash, gradient = gradient.partition("/")
        if not slash:
            return None
    return gradient
