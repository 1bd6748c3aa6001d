"""NonFiniteData."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tocsin.model import Reason, Role, Verdict
from tocsin.rules import (
    HEALTHY,
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

_FIELDS = ("size", "nan", "posinf", "neginf")


@register
@dataclass(frozen=True)
class NonFiniteData(Rule):
    """The data that is fed to the model contains values that are not finite numbers.

    Fires at the first saved step whose inputs or labels hold a NaN or an infinity, and so names
    the cause where ExplodingTensor names the effect. Two things are allowed: infinities in an
    input with ``mask`` in its name, and NaN in labels, for "unknown", if every loss captured in
    that step is finite.

    Parameters
    ----------
    tensor_regex: which tensors to watch, instead of those with role input or label.

    Example: one empty cell of a table, read as NaN, is among the inputs at step 30.
    """

    causes: ClassVar[str] = (
        "Missing values that were read as NaN, a division by a deviation of zero or a logarithm of "
        "zero in the preparation of the data, or a damaged file. One such value makes the loss "
        "NaN, and one update makes every weight NaN."
    )
    advice: ClassVar[str] = (
        "Look for the samples of this step; fill in or drop missing values, add a small number to "
        "denominators, and check the data once before training."
    )

    tensor_regex: tuple[str, ...] = ()

    def reads(self) -> Reads:
        data = Read((Role.INPUT, Role.LABEL), fields=_FIELDS)
        return Reads(
            {
                "data": data.explicitly((), self.tensor_regex),
                "losses": Read((Role.LOSS,), fields=_FIELDS),
            }
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        known = [tensor for tensor in step.tensors["data"] if tensor.summary.nan is not None]
        if not known:
            return state, not_applicable(Reason.NO_TENSOR, "no inputs or labels that are numbers")
        losses = [loss for loss in step.tensors["losses"] if loss.summary.nan is not None]
        copes = bool(losses) and not any(_nan(loss) or _infinite(loss) for loss in losses)
        for tensor in known:
            nan, infinite = _nan(tensor), _infinite(tensor)
            if tensor.role is Role.LABEL and copes:
                nan = 0
            if tensor.role is Role.INPUT and "mask" in tensor.name.lower():
                infinite = 0
            if nan or infinite:
                return state, _found(tensor, nan, infinite)
        return state, HEALTHY


def _nan(tensor: Tensor) -> int:
    return tensor.summary.nan or 0


def _infinite(tensor: Tensor) -> int:
    return (tensor.summary.posinf or 0) + (tensor.summary.neginf or 0)


def _found(tensor: Tensor, nan: int, infinite: int) -> Verdict:
    counted = [f"{nan} NaN"] * bool(nan) + [f"{infinite} infinite"] * bool(infinite)
    evidence = {"non_finite": nan + infinite, "nan": nan, "infinite": infinite}
    values = "values"
    if size := tensor.summary.size:  # not known where only reductions were saved
        evidence["size"] = size
        values = f"{size} values"
    detail = f"{' and '.join(counted)} among the {values} of {tensor.name}"
    return violation(Reason.NOT_FINITE, detail, tensor, **evidence)
