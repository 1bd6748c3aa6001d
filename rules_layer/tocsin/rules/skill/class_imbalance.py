from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from tocsin.model import WEIGHTED, Mode, Reason, Role, Severity, Verdict
from tocsin.rules import PROFILES, Meta, Read, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation
from tocsin.rules.skill._chance import poisson_bound, wilson_bound
from tocsin.rules.skill._classes import MOST_CLASSES, are_judged, count_labels, worker_batches

_MOST_LABELS = 20  # times ``samples``; then all counts are halved, so old ones count less
_MISSED = 50  # labels of a class without a right prediction
_LEAST_STEPS = 300  # before that it may still be learned

Counts = Mapping[str, Sequence[int]]
"""For each class the number of labels, of labels with a prediction, of wrong predictions, and of
these since the last right one."""


@register
@dataclass(frozen=True)
class ClassImbalance(Rule):
    """Some classes are far more frequent in the training data than others, or are never learned.

    Fires after ``samples`` labels of training steps when the most frequent class has more than
    ``threshold_imbalance`` times the labels of the rarest, or when more than the share
    ``threshold_misprediction`` of a class is predicted wrongly. Profile ``recommended`` does not
    judge mispredictions, and the difference must exceed chance by ``sigmas`` standard deviations
    (Poisson score intervals for counts, Wilson's for shares).
    An imbalance is a warning where the model does not predict the rarest class: none of its last 50
    labels, after 300 training steps. It is not reported where the loss has weights.
    The rule judges only labels that are classes: no real numbers, masks or tokens, no label that
    the loss ignores (``ignore_index``), and no negative labels beside two or more other classes.
    Steps of EVAL and PREDICT are ignored, since validation data is often sorted by class.
    Amazon's text divides the smallest count by the largest. That ratio is at most 1, so a threshold
    of 10 could never fire.

    Parameters
    ----------
    threshold_imbalance: ratio of the most frequent class to the rarest.
    threshold_misprediction: largest share of a class's samples with a wrong prediction; none: not
        judged.
    samples: smallest number of labels for a verdict.
    argmax: predictions are rows of probabilities, and the largest counts. Has no effect: rows are
        recognised.
    labels_regex, predictions_regex: which tensors are labels and predictions, instead of those with
        that role.
    sigmas: a difference of fewer standard deviations may be due to chance.
    most_classes: labels with more classes are not judged, since characters, words and places differ
        in frequency by nature.

    Example: 990 labels of class 0 and 10 of class 1.
    """

    profiles: ClassVar[tuple[str, ...]] = PROFILES
    options: ClassVar[Mapping[str, Any]] = {"for_steps": 3}
    sagemaker: ClassVar[Mapping[str, Any]] = {
        "threshold_misprediction": 0.7,
        "samples": 500,
        "labels_regex": ".*labels",
        "predictions_regex": ".*predictions",
        "sigmas": 0.0,
        "most_classes": MOST_CLASSES,
    }
    severity: ClassVar[Severity] = Severity.INFO
    causes: ClassVar[str] = (
        "The data has few samples of some classes, or the loader draws them rarely. The model "
        "then does well on average if it ignores them."
    )
    advice: ClassVar[str] = (
        "Weight the loss by class, draw rare classes more often, collect more of them, and judge "
        "by a metric per class instead of accuracy."
    )

    threshold_imbalance: Annotated[float, Meta(ge=1, extra={"infinite": True})] = 10.0
    threshold_misprediction: Annotated[float, Meta(ge=0, le=1)] | None = None
    samples: Annotated[int, Meta(ge=1)] = 200
    argmax: bool = False
    labels_regex: str | None = None
    predictions_regex: str | None = None
    sigmas: Annotated[float, Meta(ge=0)] = 3.0
    most_classes: Annotated[int, Meta(ge=2, le=MOST_CLASSES)] = 20

    def reads(self) -> Reads:
        return Reads(
            {
                "labels": _read(Role.LABEL, self.labels_regex),
                "predictions": _read(Role.PREDICTION, self.predictions_regex),
            }
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if step.mode in (Mode.EVAL, Mode.PREDICT):
            return state, not_applicable(Reason.NO_TENSOR, f"a step of mode {step.mode.name}")
        tensor = None
        counts = {of: [*each, 0][:4] for of, each in state.get("counts", {}).items()}
        read = step.tensors
        for batch in worker_batches(read["labels"], read["predictions"]):
            few = len(counts) <= self.most_classes
            if few and count_labels(counts, batch.values, batch.predicted):
                tensor = tensor or batch.labels
        if len(counts) > self.most_classes:
            kept = dict(list(counts.items())[: self.most_classes + 1])  # still too many
            many = f"more than {self.most_classes} classes"
            return {"counts": kept}, not_applicable(Reason.NO_TENSOR, many)
        if tensor is None:
            return state, not_applicable(Reason.NO_TENSOR, "no labels that are classes")
        judged = _judged(counts)
        total = sum(labels for labels, *_ in judged.values())
        after = {"counts": counts}
        if total > _MOST_LABELS * self.samples:
            after = {"counts": {of: _halved(*each) for of, each in counts.items()}}
        if total < self.samples:
            return after, UNDECIDED
        sizes = self._imbalance(judged, tensor)
        if not sizes.violation:
            return after, self._mispredicted(judged, tensor, sizes)
        if WEIGHTED in (tensor.kind or "").split():
            return after, not_applicable(Reason.NO_TENSOR, "the loss weights classes or samples")
        return after, _rarest_missed(judged, sizes) if step.mode_step >= _LEAST_STEPS else sizes

    def _imbalance(self, counts: Counts, tensor: Tensor) -> Verdict:
        sizes = {of: known for of, (known, *_) in counts.items()}
        rare, often = min(sizes, key=lambda of: sizes[of]), max(sizes, key=lambda of: sizes[of])
        most, least = sizes[often], sizes[rare]
        surely = poisson_bound(most, -self.sigmas) / poisson_bound(least, self.sigmas)
        if surely <= self.threshold_imbalance:
            return measured(HEALTHY, surely, self.threshold_imbalance)
        detail = (
            f"{most} labels of {tensor.name} are of class {often}, but {least} of class {rare}: "
            f"more than {self.threshold_imbalance:g} times as many"
        )
        evidence = {"ratio": most / least, "most": most, "least": least}
        found = violation(Reason.IMBALANCED, detail, tensor, **evidence)
        return measured(found, surely, self.threshold_imbalance, name="least_ratio")

    def _mispredicted(self, counts: Counts, tensor: Tensor, healthy: Verdict) -> Verdict:
        threshold = self.threshold_misprediction
        shares = {
            of: wilson_bound(wrong, n, self.sigmas) for of, (_, n, wrong, _) in counts.items() if n
        }
        if threshold is None or not shares:
            return healthy
        worst = max(shares, key=lambda of: shares[of])
        if shares[worst] <= threshold:
            return healthy
        _, judged, wrong, _ = counts[worst]
        detail = f"{wrong} of {judged} samples of class {worst} are predicted wrongly"
        evidence = {"mispredicted": wrong / judged, "samples": judged}
        found = violation(Reason.ABOVE_THRESHOLD, detail, tensor, **evidence)
        return measured(found, shares[worst], threshold, name="least_mispredicted")


def _rarest_missed(counts: Counts, found: Verdict) -> Verdict:
    """Make an imbalance a warning if the rarest class is not predicted."""
    rare = min(counts, key=lambda of: counts[of][0])
    missed = counts[rare][-1]
    if missed < _MISSED:
        return found
    detail = f"{found.detail}, and none of the last {missed} labels of class {rare} was predicted"
    return replace(found, detail=detail, severity=Severity.WARNING)


def _halved(known: int, judged: int, wrong: int, missed: int) -> list[int]:
    return [(known + 1) // 2, (judged + 1) // 2, (wrong + 1) // 2, missed]


def _judged(counts: Counts) -> Counts:
    """The counts of labels that are classes."""
    of = list(counts)
    kept = are_judged(np.array(of, np.int64))
    return {each: counts[each] for each, is_class in zip(of, kept, strict=True) if is_class}


def _read(role: Role, regex: str | None) -> Read:
    return Read(roles=(role,), values=True).explicitly((), () if regex is None else (regex,))
