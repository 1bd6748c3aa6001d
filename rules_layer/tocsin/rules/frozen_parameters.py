"""FrozenParameters."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar

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
    tensor_key,
    violation,
)
from tocsin.rules._series import TRAINING

_SLIGHT = 1e-3  # of the largest gradient: an update by less may be lost in rounding
_ENDING = re.compile(r"(?::\d+)?$|[._]?[Gg]rad(?::\d+)?$")

_Driven = tuple[float, Tensor]
"""The norm of a gradient, and the weight that it should move."""


@register
@dataclass(frozen=True)
class FrozenParameters(Rule):
    """A weight gets gradients but has never changed: it is not being trained.

    A weight has changed if its update since the last save is not zero or, where updates were not
    captured, if its fingerprint is different. Fires when a weight with two dimensions or more has
    never changed in ``patience`` saves in which its gradient was not zero (nor less than a
    thousandth of the largest: rounding may lose such updates) and other weights or biases changed.
    Also fires when nothing ever changed in that many saves and in ``accumulation`` steps: the
    optimiser does not step.

    Weights that are frozen on purpose get no gradient and are not judged, nor are weights that
    changed once. A gradient belongs to the weight whose name it ends in (``gradient/NAME``,
    ``NAME.grad``, ``gradients/NAMEGrad``). Weights with one dimension, mostly scales, may be too
    near to 1 for small updates of half precision, and are not judged.

    Parameters
    ----------
    patience: saves without a change.
    accumulation: steps in which gradients may be accumulated before the weights change.

    Example: the optimiser was built before a new head was put on the model.
    """

    causes: ClassVar[str] = (
        "The parameter was never given to the optimiser, or was replaced after the optimiser was "
        "built; the optimiser's step is never called; or rounding loses the updates."
    )
    advice: ClassVar[str] = (
        "Compare the optimiser's parameters with the model's, and build it after the model is "
        "complete. If this layer is frozen on purpose, switch off its gradient "
        "(requires_grad=False, trainable=False): that saves time as well."
    )

    patience: Annotated[int, Meta(ge=1)] = 10
    accumulation: Annotated[int, Meta(ge=0)] = 64

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
        """Weights change: judges those that never did."""
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
        """No weight has changed at this save: judges whether any ever did."""
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
    """For each weight that has never changed, by its key, the saves in which it should have.

    Weights that came later than the first save are left out.
    """
    if "counts" not in state:
        return {tensor_key(weight): 0 for weight, changed in judged if not changed}
    counts = dict(state["counts"])
    for weight, changed in judged if counts else ():
        if changed:
            counts.pop(tensor_key(weight), None)
    return counts


def _changed(weight: Tensor) -> bool | None:
    """Whether a weight differs from its last save; None if that is not known."""
    if weight.summary.update_l2 is not None:
        return weight.summary.update_l2 > 0
    now = weight.summary.fingerprint
    before = weight.previous[0].summary.fingerprint if weight.previous else None
    return None if now is None or before is None else now != before


def _is_judged(weight: Tensor) -> bool:
    return weight.role is not Role.BIAS and (weight.shape is None or len(weight.shape) > 1)


def _gradients(step: Step) -> Mapping[tuple[str, str], float]:
    """The norm of each weight's gradient, by worker and name."""
    names = {_base(weight.name) for weight in step.tensors["weights"]}
    norms = {}
    for tensor in step.tensors["gradients"]:
        name = _weight_of(_base(tensor.name), names)
        if name is not None and tensor.summary.l2 is not None:
            norms[tensor.worker, name] = tensor.summary.l2
    return norms


@lru_cache(maxsize=1 << 14)
def _base(name: str) -> str:
    """The name of a weight or gradient without a framework's suffix."""
    return _ENDING.sub("", name, count=1)


def _weight_of(gradient: str, names: Container[str]) -> str | None:
    """The weight whose name this gradient's name is, or ends in after a slash."""
    while gradient not in names:
        _, slash, gradient = gradient.partition("/")
        if not slash:
            return None
    return gradient
