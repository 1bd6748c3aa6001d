from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tocsin.model import Reason, Severity, Verdict
from tocsin.rules import Meta, Read, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation


@register
@dataclass(frozen=True)
class UnchangedTensor(Rule):
    """A tensor no longer changes from save to save.

    Fires when a selected tensor is nearly equal to each of its values in the last ``num_steps``
    saves, including the current one: |now - then| <= ``atol`` + ``rtol`` |then| for every element,
    as in ``numpy.allclose``. Counts saves, not steps, and each mode by itself: with equal values at
    0, 1 and 2 it first fires at 2. A tensor that changes its shape has changed, and empty tensors
    are ignored. The rule watches named tensors only, since frozen layers, constants and losses that
    have converged do not change in a healthy run.

    Parameters
    ----------
    collection_names, tensor_regex: which tensors to watch; the union of both parameters.
    num_steps: number of saves that must be equal.
    rtol: relative tolerance, of the earlier value.
    atol: absolute tolerance, in units of the tensor.
    equal_nan: NaN is equal to NaN.

    Example: the loss is 0.69315 in three saves in a row.
    """

    profiles: ClassVar[tuple[str, ...]] = ()
    severity: ClassVar[Severity] = Severity.INFO
    causes: ClassVar[str] = (
        "The optimizer does not step, the tensor is not connected to the trained weights, or every"
        " step uses the same batch."
    )
    advice: ClassVar[str] = (
        "Check that the optimizer has these parameters, that its step() is called, that the "
        "learning rate is not zero, and that the input pipeline delivers new batches."
    )

    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()
    num_steps: Annotated[int, Meta(ge=2)] = 3
    rtol: Annotated[float, Meta(ge=0)] = 1e-5
    atol: Annotated[float, Meta(ge=0)] = 1e-8
    equal_nan: bool = False

    def reads(self) -> Reads:
        if not (self.collection_names or self.tensor_regex):
            return Reads({})
        read = Read(values=True, back=self.num_steps - 1)
        return Reads({"tensors": read.explicitly(self.collection_names, self.tensor_regex)})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if "tensors" not in step.tensors:
            return state, not_applicable(Reason.NO_TENSOR, "name collection_names or tensor_regex")
        known = [tensor for tensor in step.tensors["tensors"] if _has_value(tensor)]
        if not known:
            return state, not_applicable(Reason.NO_TENSOR, "no tensor whose values are known")
        long = [tensor for tensor in known if len(tensor.previous) >= self.num_steps - 1]
        most = 0
        for tensor in long:
            saves = self._unchanged(tensor)
            if saves == self.num_steps:
                detail = f"{tensor.name} has not changed in {saves} saves"
                found = violation(Reason.CONSTANT, detail, tensor, saves=saves)
                return state, measured(found, saves, self.num_steps)
            most = max(most, saves)
        return state, measured(HEALTHY, most, self.num_steps) if long else UNDECIDED

    def _unchanged(self, tensor: Tensor) -> int:
        """Return the number of saves, up to this one, in which the tensor is the same."""
        earlier = tensor.previous[: self.num_steps - 1]
        same = takewhile(lambda then: self._close(tensor.value, then.value), earlier)
        return 1 + sum(1 for _ in same)

    def _close(self, now: NDArray[Any] | None, then: NDArray[Any] | None) -> bool:
        if now is None or then is None or now.shape != then.shape:
            return False
        if now.dtype.kind not in "biufc" or then.dtype.kind not in "biufc":
            return now.dtype.kind == then.dtype.kind and bool((now == then).all())
        with np.errstate(all="ignore"):
            return np.allclose(now, then, self.rtol, self.atol, self.equal_nan)


def _has_value(tensor: Tensor) -> bool:
    return tensor.value is not None and tensor.value.size > 0
