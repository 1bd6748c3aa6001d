from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Role, Severity, Verdict
from tocsin.rules import Meta, Read, Reads, Rule, State, Step, Tensor, register, tensor_key
from tocsin.rules._series import TRAINING
from tocsin.rules._verdicts import (
    HEALTHY,
    UNDECIDED,
    measured,
    not_applicable,
    violation,
    worst_verdict,
)
from tocsin.rules._window import rounded
from tocsin.rules.layers._spread import LABELS, PREDICTIONS, rows, spread

_ROWS = 8  # fewer samples show no variation
_COLUMNS = 8  # fewer columns are not an embedding
_FIRST = 5  # first saves, whose largest variation is compared
_MOST = 8  # outputs that are followed
_HALF = 0.5  # of the starting deviation: less is a warning

SPREADS = Read(roles=(Role.SPREAD,), fields=("mean",))


@register
@dataclass(frozen=True)
class Collapse(Rule):
    """The outputs of the model have become nearly the same for all samples.

    Fires when the variation over the samples, as a share of the outputs' mean square, stays below
    the fraction ``share`` of its start, in five consecutive training saves in profile
    ``recommended``. The start is the largest of the first five saves. Judges embeddings, latent
    vectors and generated samples with at least eight columns, which no loss compares with labels;
    for others see NoSkill and ConstantOutput. The severity is ``warning`` if the standard deviation
    over the samples has also fallen below half of its start, since otherwise the outputs may only
    have a large mean.

    Parameters
    ----------
    share: largest fraction of the start that counts as collapsed.

    Example: a contrastive loss without negative pairs maps all images to one point.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 5, "resolve": 5}
    causes: ClassVar[str] = (
        "The loss has a trivial solution in which all outputs are equal: missing or swapped "
        "negatives, too strong a penalty on the size of embeddings, gradients through the target "
        "branch; or the network is dead."
    )
    advice: ClassVar[str] = (
        "Check which pairs are pulled together and which are pushed apart. Lower penalties on the "
        "outputs and the learning rate, and stop gradients at the targets (detach() in PyTorch, "
        "stop_gradient in Keras)."
    )

    share: Annotated[float, Meta(gt=0, lt=1)] = 0.1

    def reads(self) -> Reads:
        return Reads(
            {
                "spreads": SPREADS,
                "predictions": PREDICTIONS,
                "labels": LABELS,
                "skills": Read(roles=(Role.SKILL,), fields=("size",)),
            }
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if step.mode not in TRAINING:
            return state, not_applicable(Reason.NO_TENSOR, f"a step of mode {step.mode.name}")
        saved = {
            (each.worker, each.name.partition("/")[2]): each for each in step.tensors["spreads"]
        }
        labelled = {(label.worker, rows(label)) for label in step.tensors["labels"]}
        verdicts = []
        for output in step.tensors["predictions"]:
            found = saved.get((output.worker, output.name))
            # A hook that compares losses saves the spread of all outputs that none has compared.
            compared = step.tensors["skills"] or (output.worker, rows(output)) in labelled
            if found is None and compared:
                continue
            now = _varies(output, found) if _features(output) >= _COLUMNS else None
            key = tensor_key(output)
            if now is None or (key not in state and len(state) >= _MOST):
                continue
            first: list[Any] = state.get(key, [])
            if len(first) < _FIRST:
                state = {**state, key: [*first, [rounded(now[0]), rounded(now[1])]]}
                verdicts.append(UNDECIDED)
            else:
                verdicts.append(self._judged(output, first, now))
        if not verdicts:
            return state, not_applicable(Reason.NO_TENSOR, "no outputs without labels")
        return state, worst_verdict(verdicts)

    def _judged(self, tensor: Tensor, first: list[Any], now: tuple[float, float]) -> Verdict:
        share, deviation = (max(each[at] for each in first) for at in (0, 1))
        if now[0] > self.share * share:
            return measured(HEALTHY, now[0], self.share * share, "below")
        # Values around a large mean, such as temperatures, look like that while they are learned.
        severity = Severity.WARNING if now[1] <= _HALF * deviation else Severity.INFO
        detail = (
            f"the variance of {tensor.name} over the samples is {now[0]:.2g} of its mean square; "
            f"it started at {share:.2g}"
        )
        found = violation(Reason.CONSTANT, detail, tensor, spread=now[0], start=share)
        return measured(replace(found, severity=severity), now[0], self.share * share, "below")


def _features(tensor: Tensor) -> int:
    return math.prod(tensor.shape[1:]) if tensor.shape else 0


def _varies(output: Tensor, saved: Tensor | None) -> tuple[float, float] | None:
    """Return the variance over the samples as a share of the mean square, and its root as it is.

    Where the hook saved no share it is that of a table with a row for each sample. None if they are
    not known, or not finite: ExplodingTensor reports that.
    """
    if saved is None:
        known = spread(output) if rows(output) >= _ROWS else None
        return known and ((known[0] / known[1]) ** 2 if known[1] else 0.0, known[0])
    share, mean, variance = saved.summary.mean, output.summary.mean, output.summary.variance
    if share is None or mean is None or variance is None:
        return None
    square = share * (mean * mean + variance)
    return (share, math.sqrt(square)) if math.isfinite(square) and square >= 0 else None
