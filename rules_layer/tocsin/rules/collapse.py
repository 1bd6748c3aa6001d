from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import (
    HEALTHY,
    UNDECIDED,
    Meta,
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
from tocsin.rules._spread import LABELS, PREDICTIONS, columns, rows, spread
from tocsin.rules._window import rounded, worst_verdict

_ROWS = 8
_FIRST = 5  # saves at the start, whose median is compared
_MOST = 8


@register
@dataclass(frozen=True)
class Collapse(Rule):
    """The outputs of the model have become nearly the same for all samples.

    For embeddings, latents and generated samples, which have no labels of their own: predictions
    without a label for each sample. Takes their standard deviation over the samples, of all columns
    together, and compares it with its own start, the median of the first five saves. Fires in
    profile ``recommended`` when it is below the fraction ``share`` of that in five saves of
    training in a row. It has no unit. Where samples have labels, NoSkill and ConstantOutput judge.

    Parameters
    ----------
    share: of the standard deviation at the start.

    Example: a contrastive loss whose negatives are missing maps all images to one point.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 5, "resolve": 5}
    causes: ClassVar[str] = (
        "The loss has a trivial solution in which all outputs are equal: negatives are missing or "
        "swapped, a penalty on the size of embeddings is too strong, the branch without a gradient "
        "has one; or the network is dead."
    )
    advice: ClassVar[str] = (
        "Check which pairs are pulled together and which are pushed apart, lower penalties on the "
        "outputs and the learning rate, and see that targets are detached."
    )

    share: Annotated[float, Meta(gt=0, lt=1)] = 1e-3

    def reads(self) -> Reads:
        return Reads({"predictions": PREDICTIONS, "labels": LABELS})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if step.mode not in TRAINING:
            return state, not_applicable(Reason.NO_TENSOR, f"a step of mode {step.mode.name}")
        labelled = {(label.worker, rows(label)) for label in step.tensors["labels"]}
        verdicts = []
        for tensor in step.tensors["predictions"]:
            size = rows(tensor)
            known = spread(tensor) if size >= _ROWS and columns(tensor) > 1 else None
            if known is None or (tensor.worker, size) in labelled:
                continue
            key = tensor_key(tensor)
            if key not in state and len(state) >= _MOST:
                continue
            first: list[Any] = state.get(key, [])
            if len(first) < _FIRST:
                state = {**state, key: [*first, rounded(known[0])]}
                verdicts.append(UNDECIDED)
            else:
                verdicts.append(self._judged(tensor, median(first), known[0]))
        if not verdicts:
            return state, not_applicable(Reason.NO_TENSOR, "no outputs without labels")
        return state, worst_verdict(verdicts)

    def _judged(self, tensor: Tensor, start: float, now: float) -> Verdict:
        if now >= self.share * start:
            return HEALTHY
        detail = (
            f"{tensor.name} varies over the samples by {now:.3g}; at the start it was {start:.3g}"
        )
        return violation(Reason.CONSTANT, detail, tensor, spread=now, start=start)
