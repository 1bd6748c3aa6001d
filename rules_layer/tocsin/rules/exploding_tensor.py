"""ExplodingTensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tocsin.model import Reason, Role, Verdict
from tocsin.rules._registry import register
from tocsin.rules._rule import (
    HEALTHY,
    RECOMMENDED,
    SAGEMAKER,
    Read,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    not_applicable,
    violation,
)


@register
@dataclass(frozen=True)
class ExplodingTensor(Rule):
    """A tensor contains values that are not finite numbers.

    Fires when a selected tensor holds a NaN or, unless ``only_nan``, an infinity. Without a
    selection every captured tensor is watched, but for the trees of XGBoost, which hold NaN by
    design. Evidence: how many of each, and of how many.

    Parameters
    ----------
    collection_names, tensor_regex: which tensors to watch; the union, if both are given.
    only_nan: infinities are allowed (attention masks, for example, are filled with them).

    Example: a loss that is NaN at step 40 fires at step 40.
    """

    profiles: ClassVar[tuple[str, ...]] = (RECOMMENDED, SAGEMAKER)
    causes: ClassVar[str] = (
        "A learning rate that is too high lets weights and activations grow until they overflow; "
        "log(0), division by zero and half precision without loss scaling do it at once. From one "
        "NaN all others follow within a step or two."
    )
    advice: ClassVar[str] = (
        "Lower the learning rate, clip gradients, look for a division by zero or a logarithm of "
        "zero, and check the inputs of this step for NaN."
    )

    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()
    only_nan: bool = False

    def reads(self) -> Reads:
        read = Read(fields=("size", "nan", "posinf", "neginf"))
        return Reads({"tensors": read.explicitly(self.collection_names, self.tensor_regex)})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        known = [tensor for tensor in step.tensors["tensors"] if self._watches(tensor)]
        if not known:
            return state, not_applicable(Reason.NO_TENSOR, "no tensor whose values are known")
        for tensor in known:
            nan = tensor.summary.nan or 0
            infinite = (tensor.summary.posinf or 0) + (tensor.summary.neginf or 0)
            if nan or (infinite and not self.only_nan):
                return state, _found(tensor, nan, infinite)
        return state, HEALTHY

    def _watches(self, tensor: Tensor) -> bool:
        named = bool(self.collection_names or self.tensor_regex)
        return tensor.summary.nan is not None and (named or tensor.role is not Role.TREE)


def _found(tensor: Tensor, nan: int, infinite: int) -> Verdict:
    counted = [f"{nan} NaN"] * bool(nan) + [f"{infinite} infinite"] * bool(infinite)
    evidence = {"nan": nan, "infinite": infinite}
    if not nan:
        evidence = {"infinite": infinite, "nan": 0}
    values = "values"
    if size := tensor.summary.size:  # not known where only reductions were saved
        evidence["size"] = size
        values = f"{size} values"
    detail = f"{' and '.join(counted)} among the {values} of {tensor.name}"
    return violation(Reason.NOT_FINITE, detail, tensor, **evidence)
