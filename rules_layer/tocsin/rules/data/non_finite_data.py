from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tocsin.model import Reason, Role, Severity, Verdict
from tocsin.rules import Read, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._verdicts import HEALTHY, measured, not_applicable
from tocsin.rules.data._non_finite import COUNTS, infinities, is_finite, not_finite


@register
@dataclass(frozen=True)
class NonFiniteData(Rule):
    """The data that is fed to the model contains NaN or infinite values.

    Fires at the first saved step whose inputs or labels contain NaN or an infinity. Allowed are
    infinities in an input with ``mask`` in its name; and, while every loss captured in that step is
    finite, -infinity in inputs (an attention mask) and NaN in labels ("unknown"). Where no loss is
    captured, as in generation, -infinity is allowed beside zeros only. It reports the cause;
    ExplodingTensor reports the effect.

    Parameters
    ----------
    tensor_regex: which tensors to watch, instead of those with role input or label.

    Example: one empty cell of a table, read as NaN, is among the inputs at step 30.
    """

    severity: ClassVar[Severity] = Severity.CRITICAL
    causes: ClassVar[str] = (
        "Missing values were read as NaN, preprocessing divides by a standard deviation of zero or"
        " takes the logarithm of zero, or a file is damaged. One such value makes the loss NaN, "
        "and one update makes every weight NaN."
    )
    advice: ClassVar[str] = (
        "Find the samples of this step. Fill in or drop missing values, add a small number to "
        "denominators, and check the data once before training."
    )

    tensor_regex: tuple[str, ...] = ()

    def reads(self) -> Reads:
        data = Read((Role.INPUT, Role.LABEL), fields=(*COUNTS, "zeros"))
        return Reads(
            {
                "data": data.explicitly((), self.tensor_regex),
                "losses": Read((Role.LOSS,), fields=COUNTS),
            },
            needs=("data",),
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        known = [tensor for tensor in step.tensors["data"] if tensor.summary.nan is not None]
        if not known:
            return state, not_applicable(Reason.NO_TENSOR, "no inputs or labels that are numbers")
        losses = [loss for loss in step.tensors["losses"] if loss.summary.nan is not None]
        finite = bool(losses) and all(map(is_finite, losses))
        for tensor in known:
            nan, infinite = tensor.summary.nan or 0, infinities(tensor)
            if tensor.role is Role.LABEL and finite:
                nan = 0
            if tensor.role is Role.INPUT:
                masks = not losses and _is_mask(tensor)
                infinite = tensor.summary.posinf or 0 if finite or masks else infinite
                infinite = 0 if "mask" in tensor.name.lower() else infinite
            if nan or infinite:
                counts = {"non_finite": nan + infinite, "nan": nan, "infinite": infinite}
                return state, not_finite(tensor, counts)
        return state, measured(HEALTHY, 0, 0)


def _is_mask(tensor: Tensor) -> bool:
    """Return whether it is added to scores of attention: 0 keeps them, and -infinity hides them."""
    found = tensor.summary
    zeros, hidden = found.zeros or 0, found.neginf or 0
    return zeros > 0 and zeros + hidden == found.size
