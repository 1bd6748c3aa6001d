from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from tocsin.model import Reason, Severity, Side, Verdict
from tocsin.rules import Meta, Read, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._verdicts import HEALTHY, measured, not_applicable, violation


@register
@dataclass(frozen=True)
class TensorVariance(Rule):
    """The values of a tensor vary too much or too little.

    Fires when the population variance of a selected tensor, over its finite elements, is above
    ``max_threshold`` or below ``min_threshold``; at least one of them must be set. Reports the
    tensor with the largest or smallest variance. A single number has variance 0.

    Only the user knows which variance is good, so the rule watches named tensors only.

    Parameters
    ----------
    collection_names, tensor_regex: which tensors to watch; the union of both parameters.
    max_threshold: largest variance, in squared units of the tensor; none: no bound.
    min_threshold: smallest variance, in squared units of the tensor; none: no bound.

    Example: activations whose variance is 40, where max_threshold is 10.
    """

    profiles: ClassVar[tuple[str, ...]] = ()
    severity: ClassVar[Severity] = Severity.INFO
    causes: ClassVar[str] = (
        "The initialisation, or a layer without normalisation, makes values larger or smaller "
        "from layer to layer; weights grow without decay; outputs have collapsed to one value."
    )
    advice: ClassVar[str] = (
        "Look at the layers before this one, at its initialisation and normalisation, and at "
        "weight decay."
    )

    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()
    max_threshold: Annotated[float, Meta(ge=0)] | None = None
    min_threshold: Annotated[float, Meta(ge=0)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = self.min_threshold, self.max_threshold
        if low is not None and high is not None and low > high:
            raise ValueError(f"min_threshold is {low}, but must be at most max_threshold, {high}")

    def reads(self) -> Reads:
        if not (self.collection_names or self.tensor_regex):
            return Reads({})
        read = Read(fields=("variance",))
        return Reads({"tensors": read.explicitly(self.collection_names, self.tensor_regex)})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if "tensors" not in step.tensors:
            return state, not_applicable(Reason.NO_TENSOR, "name collection_names or tensor_regex")
        if self.max_threshold is None and self.min_threshold is None:
            return state, not_applicable(Reason.NO_TENSOR, "set max_threshold or min_threshold")
        known = [
            (variance, tensor)
            for tensor in step.tensors["tensors"]
            if (variance := tensor.summary.variance) is not None
        ]
        if not known:
            return state, not_applicable(Reason.NO_TENSOR, "no tensor with a finite variance")
        largest = max(known, key=lambda pair: pair[0])
        smallest = min(known, key=lambda pair: pair[0])
        sides: tuple[tuple[Side, tuple[float, Tensor], Reason, float | None], ...] = (
            ("above", largest, Reason.ABOVE_THRESHOLD, self.max_threshold),
            ("below", smallest, Reason.BELOW_THRESHOLD, self.min_threshold),
        )
        for beyond, (variance, tensor), reason, bound in sides:
            if bound is not None and (variance > bound if beyond == "above" else variance < bound):
                detail = f"variance {variance:.3g} of {tensor.name} is {beyond} {bound:g}"
                found = violation(reason, detail, tensor, variance=variance, threshold=bound)
                return state, measured(found, variance, bound, beyond)
        if self.max_threshold is not None:
            return state, measured(HEALTHY, largest[0], self.max_threshold)
        return state, measured(HEALTHY, smallest[0], self.min_threshold or 0.0, "below")
