from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Severity, Verdict
from tocsin.rules import Meta, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation
from tocsin.rules.layers._spread import LABELS, PREDICTIONS, columns, rows, spread


@register
@dataclass(frozen=True)
class ConstantOutput(Rule):
    """The model gives the same output for every sample.

    Fires when the standard deviation of predictions over at least ``samples`` samples whose labels
    differ is at most the fraction ``threshold`` of their root mean square. If labels and
    predictions have the same shape, it must also be at most that fraction of the labels' standard
    deviation: predictions of a nearly constant target may be nearly constant. Judges scores with
    one number or one row per sample, not predicted classes: at first many classifiers predict one
    class for all samples. Profile ``recommended`` fires after five consecutive saves, and not in
    the first 20 steps, because a last layer may start at zero.

    Parameters
    ----------
    threshold: largest standard deviation of the predictions, as a fraction of their size.
    samples: smallest number of samples of a batch that is judged.

    Example: all units of the last hidden layer are dead, and only the bias has an effect.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 5, "grace": 20}
    severity: ClassVar[Severity] = Severity.INFO
    causes: ClassVar[str] = (
        "The input does not reach the output: units are dead or saturated, weights decayed to "
        "zero or diverged at a high learning rate, or all inputs are the same."
    )
    advice: ClassVar[str] = (
        "Look at activations and gradients layer by layer to find where all samples become the "
        "same, lower the learning rate, and check that the inputs are scaled and differ."
    )

    threshold: Annotated[float, Meta(ge=0, lt=1)] = 1e-3
    samples: Annotated[int, Meta(ge=2)] = 8

    def reads(self) -> Reads:
        return Reads({"predictions": PREDICTIONS, "labels": LABELS})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        pairs = []
        for tensor in step.tensors["predictions"]:
            fitting = (labels for labels in step.tensors["labels"] if self._fit(tensor, labels))
            if (labels := next(fitting, None)) is not None:
                pairs.append((tensor, labels))
        if not pairs:
            missing = f"predictions and labels of at least {self.samples} samples"
            return state, not_applicable(Reason.NO_TENSOR, f"no {missing}")
        shares = [(_share(tensor, labels), tensor) for tensor, labels in pairs]
        judged = [(share, tensor) for share, tensor in shares if share is not None]
        if not judged:
            return state, UNDECIDED
        share, tensor = min(judged, key=lambda pair: pair[0])
        if share > self.threshold:
            return state, measured(HEALTHY, share, self.threshold, "below")
        detail = (
            f"{tensor.name} varies over the samples by {share:.3g} of its size, at most "
            f"{self.threshold:g}, while the labels differ"
        )
        found = violation(Reason.CONSTANT, detail, tensor, spread=share, threshold=self.threshold)
        return state, measured(found, share, self.threshold, "below")

    def _fit(self, predictions: Tensor, labels: Tensor) -> bool:
        """Return whether both have a number or a row for each of the same samples, and enough."""
        same = rows(predictions) == rows(labels) >= self.samples
        same = same and predictions.worker == labels.worker
        return same and None not in (spread(predictions), spread(labels))


def _share(predictions: Tensor, labels: Tensor) -> float | None:
    """Return the predictions' standard deviation as a fraction of their size or of the labels'
    standard deviation, None if it is not known.
    """
    ours, theirs = spread(predictions), spread(labels)
    if ours is None or theirs is None or not theirs[0] > 0:
        return None
    deviation, size = ours
    if deviation == 0 and columns(predictions) == 1 and _are_classes(predictions, labels):
        return None
    share = deviation / size if size > 0 else 0.0
    if columns(predictions) == columns(labels):
        share = max(share, deviation / theirs[0])
    return share


def _are_classes(predictions: Tensor, labels: Tensor) -> bool:
    """Return whether both look like classes: integers."""
    ends = [
        end for tensor in (predictions, labels) for end in (tensor.summary.min, tensor.summary.max)
    ]
    return all(end is not None and end == math.trunc(end) for end in ends)
