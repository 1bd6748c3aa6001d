from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Detail, Reason, Role, Severity, Verdict
from tocsin.rules import (
    HEALTHY,
    UNDECIDED,
    Meta,
    Read,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    measured,
    not_applicable,
    register,
    violation,
)


@register
@dataclass(frozen=True)
class ConstantOutput(Rule):
    """The model gives the same output for every sample.

    Judges predictions with one number or one row for each of at least ``samples`` samples, if the
    labels differ. Fires when the standard deviation over the samples (for rows, the root mean
    square over the columns) is at most the fraction ``threshold`` of the predictions' root mean
    square. If labels and predictions have the same shape, it must also be at most that fraction of
    the labels' standard deviation: predictions of a target that hardly varies may hardly vary.

    Profile ``recommended`` fires after five saves in a row, and not in the first 20 steps, because
    a last layer may start at zero. The rule does not judge a batch with one label, such as a
    discriminator's. It does not judge predicted classes either, only scores: at the start many
    classifiers predict one class for all samples.

    Parameters
    ----------
    threshold: largest standard deviation of the predictions, as a fraction of their size.
    samples: smallest batch that is judged.

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
        fields = ("mean", "variance", "min", "max")
        by_column = Detail(channel_axis=1)
        return Reads(
            {
                name: Read(roles=(role,), fields=fields, detail=by_column)
                for name, role in (("predictions", Role.PREDICTION), ("labels", Role.LABEL))
            }
        )

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
        evidence = {"spread": share, "threshold": self.threshold}
        found = violation(Reason.CONSTANT, detail, tensor, **evidence)
        return state, measured(found, share, self.threshold, "below")

    def _fit(self, predictions: Tensor, labels: Tensor) -> bool:
        """Says whether both have a number or a row for each of the same samples, and enough."""
        ours, theirs = predictions.shape, labels.shape
        if not ours or not theirs or len(ours) > 2 or len(theirs) > 2:
            return False
        same = predictions.worker == labels.worker and ours[0] == theirs[0] >= self.samples
        return same and None not in (_moments(predictions), _moments(labels))


def _share(predictions: Tensor, labels: Tensor) -> float | None:
    """Returns the predictions' standard deviation as a fraction of their size or of the labels'
    standard deviation, None if it is not known.
    """
    ours, theirs = _moments(predictions), _moments(labels)
    if ours is None or theirs is None or not theirs[0] > 0:
        return None
    spread, size = ours
    if spread == 0 and _columns(predictions) == 1 and _are_classes(predictions, labels):
        return None
    share = spread / size if size > 0 else 0.0
    if _columns(predictions) == _columns(labels):
        share = max(share, spread / theirs[0])
    return share


def _moments(tensor: Tensor) -> tuple[float, float] | None:
    """Returns the standard deviation over the samples and the root mean square, of all columns."""
    summary = tensor.summary
    if _columns(tensor) == 1:
        means, variances = [summary.mean], [summary.variance]
    elif summary.channels is not None:
        means, variances = list(summary.channels.mean), list(summary.channels.variance)
    else:
        return None
    known = [
        (mean, variance)
        for mean, variance in zip(means, variances, strict=False)
        if mean is not None and variance is not None
    ]
    if not known or len(known) < len(means):  # not finite: ExplodingTensor reports that
        return None
    spread = sum(variance for _, variance in known)
    square = sum(mean * mean for mean, _ in known) + spread
    if not math.isfinite(square):
        return None
    return math.sqrt(spread / len(known)), math.sqrt(square / len(known))


def _columns(tensor: Tensor) -> int:
    shape = tensor.shape or ()
    return shape[1] if len(shape) == 2 else 1


def _are_classes(predictions: Tensor, labels: Tensor) -> bool:
    """Says whether both look like classes: integers."""
    ends = [
        end for tensor in (predictions, labels) for end in (tensor.summary.min, tensor.summary.max)
    ]
    return all(end is not None and end == math.trunc(end) for end in ends)
