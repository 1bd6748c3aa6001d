"""ExplodingTensor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Role, Verdict
from tocsin.rules import (
    HEALTHY,
    PROFILES,
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


@register
@dataclass(frozen=True)
class ExplodingTensor(Rule):
    """A tensor contains values that are not finite numbers.

    Fires when a selected tensor holds a NaN or, unless ``only_nan``, an infinity. Without a
    selection it watches every captured tensor except the trees of XGBoost, which hold NaN by
    design. Evidence: how many of each, and of how many.

    ``lenient``, as in profile ``recommended``, makes exceptions for healthy runs if nothing is
    selected. While the loss is finite, gradients count after ``patience`` saves in a row: loss
    scaling of half precision overflows on purpose, mostly in the first steps, and skips the update.
    A negative infinity is a mask in the input of a softmax, and in a tensor named so. Inputs and
    labels are left to NonFiniteData.

    Parameters
    ----------
    collection_names, tensor_regex: which tensors to watch; the union, if both are given.
    only_nan: infinities are allowed (attention masks, for example, are filled with them).
    lenient: make the exceptions above.
    patience: saves in a row before gradients that are not finite count, if ``lenient``.

    Example: a loss that is NaN at step 40 fires at step 40.
    """

    profiles: ClassVar[tuple[str, ...]] = PROFILES
    sagemaker: ClassVar[Mapping[str, Any]] = {"lenient": False}
    inhibits: ClassVar[tuple[str, ...]] = (  # with NaN, no loss means anything
        "LossDiverging",
        "LossNotDecreasing",
        "LossOscillating",
        "LossSpike",
        "LossTooGoodTooSoon",
        "NoBetterThanGuessing",
        "Overfit",
        "Overtraining",
        "Underfitting",
    )
    causes: ClassVar[str] = (
        "A learning rate that is too high lets weights and activations grow until they overflow; "
        "log(0), division by zero and half precision without loss scaling overflow at once. One "
        "NaN spreads to all tensors within a step or two."
    )
    advice: ClassVar[str] = (
        "Lower the learning rate, clip gradients, look for a division by zero or a logarithm of "
        "zero, and check the inputs of this step for NaN."
    )

    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()
    only_nan: bool = False
    lenient: bool = True
    patience: Annotated[int, Meta(ge=1)] = 3

    def reads(self) -> Reads:
        read = Read(fields=("size", "nan", "posinf", "neginf"))
        return Reads({"tensors": read.explicitly(self.collection_names, self.tensor_regex)})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        known = [tensor for tensor in step.tensors["tensors"] if self._watches(tensor)]
        if not known:
            return state, not_applicable(Reason.NO_TENSOR, "no tensor whose values are known")
        lost = [
            (tensor, nan, infinite)
            for tensor in known
            for nan, infinite in [self._counts(tensor)]
            if nan or (infinite and not self.only_nan)
        ]
        if not self._makes_exceptions:
            return state, _found(*lost[0]) if lost else HEALTHY
        if any(tensor.role is Role.GRADIENT for tensor in known):
            overflown = any(tensor.role is Role.GRADIENT for tensor, *_ in lost)
            saves = min(state.get("saves", 0) + 1, self.patience) if overflown else 0
            state = {"saves": saves} if saves else {}
        if state.get("saves", 0) < self.patience and _loss_is_finite(known):
            certain = [each for each in lost if each[0].role is not Role.GRADIENT]
            if lost and not certain:
                return state, UNDECIDED
            lost = certain
        return state, _found(*lost[0]) if lost else HEALTHY

    @property
    def _makes_exceptions(self) -> bool:
        return self.lenient and not (self.collection_names or self.tensor_regex)

    def _watches(self, tensor: Tensor) -> bool:
        if tensor.summary.nan is None:
            return False
        if self._makes_exceptions:
            return tensor.role not in (Role.TREE, Role.INPUT, Role.LABEL)
        return bool(self.collection_names or self.tensor_regex) or tensor.role is not Role.TREE

    def _counts(self, tensor: Tensor) -> tuple[int, int]:
        """The numbers of NaN, and of infinities that are not a mask."""
        summary = tensor.summary
        masked = self._makes_exceptions and _may_be_masked(tensor)
        below = 0 if masked else summary.neginf or 0
        return summary.nan or 0, (summary.posinf or 0) + below


def _loss_is_finite(tensors: Iterable[Tensor]) -> bool:
    """Whether there is a loss, and every loss is finite."""
    losses = [tensor.summary for tensor in tensors if tensor.role is Role.LOSS]
    return bool(losses) and not any(each.nan or each.posinf or each.neginf for each in losses)


def _may_be_masked(tensor: Tensor) -> bool:
    into = tensor.role is Role.ACTIVATION_INPUT and "softmax" in (tensor.kind or "")
    return into or "mask" in tensor.name.lower()


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
