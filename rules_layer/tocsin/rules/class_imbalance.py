"""ClassImbalance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tocsin.model import Mode, Reason, Role, Verdict
from tocsin.rules._chance import count_at, least_share
from tocsin.rules._classes import MOST_CLASSES, count, of_workers
from tocsin.rules._registry import register
from tocsin.rules._rule import (
    HEALTHY,
    RECOMMENDED,
    SAGEMAKER,
    UNDECIDED,
    Read,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    not_applicable,
    violation,
)

_MOST_LABELS = 20  # times ``samples``; then all counts are halved, so that old ones fade

Counts = Mapping[str, Sequence[int]]  # of a class: labels, of these judged, mispredicted


@register
@dataclass(frozen=True)
class ClassImbalance(Rule):
    """Some classes are far more frequent in the training data than others, or are never learned.

    Counts the labels of the saved steps of all workers. Once there are ``samples`` of them it
    fires when the most frequent class has more than ``threshold_imbalance`` times as many as the
    rarest (Amazon's text says smallest to largest, which could never exceed 10), or when of some
    class more than the share ``threshold_misprediction`` is predicted wrongly. Classes that
    never occurred do not count. Steps of EVAL and PREDICT are left out: validation data is often
    sorted by class, and saved in part.

    Profile ``recommended`` demands that chance does not explain the counts (Poisson score
    intervals for these, Wilson's for the shares, of ``sigmas`` deviations), and does not judge
    mispredictions: at the start of a training all classes are predicted wrongly. Labels that are
    no classes (real numbers, masks, tokens, more than 100 different ones) are not judged, and
    -100, which PyTorch's losses ignore, is none.

    Parameters
    ----------
    threshold_imbalance: most frequent to rarest class, a ratio of at least 1.
    threshold_misprediction: share of a class, 0 to 1; none: not judged.
    samples: how many labels are needed, at least 1.
    argmax: predictions are rows of probabilities, of which the largest counts. Rows are
        recognised as such, so it need not be set.
    labels_regex, predictions_regex: tensors of that name, instead of those with that role.
    sigmas: how many standard deviations chance may explain, at least 0.
    most_classes: of more than so many, 2 to 100, nothing is said: characters, words and places are
        by nature as unequal as that.

    Example: 990 labels of class 0 and 10 of class 1.
    """

    profiles: ClassVar[tuple[str, ...]] = (RECOMMENDED, SAGEMAKER)
    options: ClassVar[Mapping[str, Any]] = {"for_steps": 3}
    sagemaker: ClassVar[Mapping[str, Any]] = {
        "threshold_misprediction": 0.7,
        "samples": 500,
        "labels_regex": ".*labels",
        "predictions_regex": ".*predictions",
        "sigmas": 0.0,
        "most_classes": MOST_CLASSES,
    }
    causes: ClassVar[str] = (
        "The data holds few samples of some classes, or the loader draws them rarely. A model "
        "then does well on average by ignoring them."
    )
    advice: ClassVar[str] = (
        "Weight the loss by class, draw rare classes more often, collect more of them, and judge "
        "by a metric per class instead of accuracy."
    )

    threshold_imbalance: float = 10.0
    threshold_misprediction: float | None = None
    samples: int = 200
    argmax: bool = False
    labels_regex: str | None = None
    predictions_regex: str | None = None
    sigmas: float = 3.0
    most_classes: int = 20

    def __post_init__(self) -> None:
        if not self.threshold_imbalance >= 1:
            raise ValueError(
                f"threshold_imbalance is {self.threshold_imbalance}, but must be at least 1"
            )
        share = self.threshold_misprediction
        if share is not None and not 0 <= share <= 1:
            raise ValueError(f"threshold_misprediction is {share}, but must be from 0 to 1")
        if self.samples < 1:
            raise ValueError(f"samples is {self.samples}, but must be at least 1")
        if not 2 <= self.most_classes <= MOST_CLASSES:
            must = f"must be from 2 to {MOST_CLASSES}"
            raise ValueError(f"most_classes is {self.most_classes}, but {must}")
        if not 0 <= self.sigmas < math.inf:
            raise ValueError(f"sigmas is {self.sigmas}, but must be at least 0")

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
        counts = dict(state.get("counts", {}))
        read = step.tensors
        for found, labels, predictions in of_workers(read["labels"], read["predictions"]):
            if len(counts) <= self.most_classes and count(counts, labels, predictions):
                tensor = tensor or found
        if len(counts) > self.most_classes:
            few = dict(list(counts.items())[: self.most_classes + 1])  # remembered as too many
            many = f"more than {self.most_classes} classes"
            return {"counts": few}, not_applicable(Reason.NO_TENSOR, many)
        if tensor is None:
            return state, not_applicable(Reason.NO_TENSOR, "no labels that are classes")
        total = sum(labels for labels, _, _ in counts.values())
        after = {"counts": counts}
        if total > _MOST_LABELS * self.samples:
            after = {"counts": {of: [(n + 1) // 2 for n in c] for of, c in counts.items()}}
        if total < self.samples:
            return after, UNDECIDED
        return after, self._imbalance(counts, tensor) or self._mispredicted(counts, tensor)

    def _imbalance(self, counts: Counts, tensor: Tensor) -> Verdict | None:
        sizes = {of: known for of, (known, _, _) in counts.items()}
        rare, often = min(sizes, key=lambda of: sizes[of]), max(sizes, key=lambda of: sizes[of])
        most, least = sizes[often], sizes[rare]
        surely = count_at(most, -self.sigmas) / count_at(least, self.sigmas)
        if surely <= self.threshold_imbalance:
            return None
        detail = (
            f"{most} labels of {tensor.name} are of class {often}, but {least} of class {rare}: "
            f"more than {self.threshold_imbalance:g} times as many"
        )
        evidence = {"ratio": most / least, "most": most, "least": least}
        return violation(Reason.IMBALANCED, detail, tensor, **evidence)

    def _mispredicted(self, counts: Counts, tensor: Tensor) -> Verdict:
        threshold = self.threshold_misprediction
        shares = {
            of: least_share(wrong, n, self.sigmas) for of, (_, n, wrong) in counts.items() if n
        }
        if threshold is None or not shares:
            return HEALTHY
        worst = max(shares, key=lambda of: shares[of])
        if shares[worst] <= threshold:
            return HEALTHY
        _, judged, wrong = counts[worst]
        detail = f"{wrong} of {judged} samples of class {worst} are predicted wrongly"
        evidence = {"mispredicted": wrong / judged, "samples": judged}
        return violation(Reason.ABOVE_THRESHOLD, detail, tensor, **evidence)


def _read(role: Role, regex: str | None) -> Read:
    return Read(roles=(role,), values=True).explicitly((), () if regex is None else (regex,))
