from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Role, Severity, Verdict
from tocsin.rules import PROFILES, Meta, Read, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._advice import SMALLER_ETA
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable
from tocsin.rules.data._non_finite import COUNTS, is_finite, not_finite
from tocsin.rules.gradients._origin import ORIGIN_READS, origin, with_losses

_WITH_NAN = (Role.TREE, Role.SKILL, Role.INTERVAL)
"""They contain NaN by design, for what is unknown, or for a step that the script left out."""


@register
@dataclass(frozen=True)
class ExplodingTensor(Rule):
    """A tensor contains NaN or infinite values.

    Fires when a selected tensor contains NaN or, unless ``only_nan``, an infinity; without a
    selection, any captured tensor except XGBoost's trees, comparisons of losses and summaries of
    save intervals, which may contain NaN in a healthy run. Names the loss if it is not finite, and
    otherwise the first tensor in capture order. Names the cause of a training loss that is not
    finite: the learning rate if the loss had risen to ten times its smallest value, or the loss
    itself if weights, inputs and outputs are finite. ``lenient``, as in profile ``recommended``,
    makes exceptions if nothing is selected: gradients count only after ``patience`` consecutive
    saves while the loss is finite, since loss scaling in half precision overflows on purpose.
    Negative infinities in masks and in the input of a softmax are ignored then. NonFiniteData
    judges inputs and labels.

    Parameters
    ----------
    collection_names, tensor_regex: which tensors to watch; the union of both parameters.
    only_nan: allow infinities, as in attention masks.
    lenient: make the exceptions above.
    patience: consecutive saves before non-finite gradients count, if ``lenient``.

    Example: a loss that is NaN at step 40 fires at step 40.
    """

    profiles: ClassVar[tuple[str, ...]] = PROFILES
    sagemaker: ClassVar[Mapping[str, Any]] = {"lenient": False}
    severity: ClassVar[Severity] = Severity.CRITICAL
    causes: ClassVar[str] = (
        "The learning rate is too high, so weights and activations grow until they overflow; or "
        "log(0), a division by zero or half precision without loss scaling overflows at once. One "
        "NaN reaches all tensors within a step or two."
    )
    advice: ClassVar[str] = (
        "Lower the learning rate, clip gradients, look for a division by zero or a logarithm of "
        "zero, and check the inputs of this step for NaN."
    )
    advice_for_trees: ClassVar[str] = SMALLER_ETA

    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()
    only_nan: bool = False
    lenient: bool = True
    patience: Annotated[int, Meta(ge=1)] = 3

    def reads(self) -> Reads:
        read = Read(fields=COUNTS)
        tensors = read.explicitly(self.collection_names, self.tensor_regex)
        return Reads({"tensors": tensors, **ORIGIN_READS}, needs=("tensors",))

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
        lost.sort(key=lambda each: each[0].role is not Role.LOSS)  # it says most to a reader
        from_where = origin(state, step) if lost and lost[0][0].role is Role.LOSS else ""
        state = with_losses(state, step)
        if not self._makes_exceptions:
            return state, _report(*lost[0], from_where) if lost else measured(HEALTHY, 0, 0)
        if any(tensor.role is Role.GRADIENT for tensor in known):
            overflown = any(tensor.role is Role.GRADIENT for tensor, *_ in lost)
            saves = min(state.get("saves", 0) + 1, self.patience) if overflown else 0
            state = {**state, "saves": saves}
        if state.get("saves", 0) < self.patience and _loss_is_finite(known):
            certain = [each for each in lost if each[0].role is not Role.GRADIENT]
            if lost and not certain:
                return state, UNDECIDED
            lost = certain
        return state, _report(*lost[0], from_where) if lost else measured(HEALTHY, 0, 0)

    @property
    def _makes_exceptions(self) -> bool:
        return self.lenient and not (self.collection_names or self.tensor_regex)

    def _watches(self, tensor: Tensor) -> bool:
        if tensor.summary.nan is None:
            return False
        if self._makes_exceptions:
            return tensor.role not in (*_WITH_NAN, Role.INPUT, Role.LABEL)
        return bool(self.collection_names or self.tensor_regex) or tensor.role not in _WITH_NAN

    def _counts(self, tensor: Tensor) -> tuple[int, int]:
        """Return the number of NaN, and of infinities that are not a mask."""
        summary = tensor.summary
        masked = self._makes_exceptions and _may_be_masked(tensor)
        below = 0 if masked else summary.neginf or 0
        return summary.nan or 0, (summary.posinf or 0) + below


def _loss_is_finite(tensors: Iterable[Tensor]) -> bool:
    """Return whether there is a loss, and every loss is finite."""
    losses = [tensor for tensor in tensors if tensor.role is Role.LOSS]
    return bool(losses) and all(map(is_finite, losses))


def _may_be_masked(tensor: Tensor) -> bool:
    into = tensor.role is Role.ACTIVATION_INPUT and "softmax" in (tensor.kind or "")
    return into or "mask" in tensor.name.lower()


def _report(tensor: Tensor, nan: int, infinite: int, from_where: str) -> Verdict:
    counts = {"nan": nan, "infinite": infinite} if nan else {"infinite": infinite, "nan": 0}
    return not_finite(tensor, counts, from_where)
