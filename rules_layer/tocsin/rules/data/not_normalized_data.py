from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Severity, Verdict
from tocsin.rules import Meta, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._verdicts import HEALTHY, measured, not_applicable, violation
from tocsin.rules.data._inputs import INPUTS, TARGETS, has_features, is_real, moments, scale_of

_ROUNDING = 1e-6  # of the largest scale: a smaller one is a centred constant feature


@register
@dataclass(frozen=True)
class NotNormalizedData(Rule):
    """The inputs or targets of the model are not normalised: their scale is far from one.

    The scale of a feature, or of a channel of images, is its root mean square in the step, so an
    offset counts as much as a standard deviation. Fires after three consecutive saved steps in
    which the largest scale is above ``max_scale`` (raw measurements), no absolute value is above
    ``min_value`` (data divided twice), or scales differ by a factor above ``max_ratio``. The factor
    leaves out the largest and the smallest tenth of the scales. Of targets, labels that are real
    numbers, only a scale above ``max_scale`` counts. The bounds are wide: standardised data, values
    from 0 to 16 and one-hot vectors are healthy. Ignores integers (token ids, bytes), inputs with
    one dimension, and inputs with a name like mask, index or length.

    Parameters
    ----------
    max_scale: largest scale of a feature or target, in its units.
    min_value: least absolute value that the largest element must have, in units of the input; below
        ``max_scale``.
    max_ratio: largest ratio of the scales of two features.
    tensor_regex: which tensors to watch, instead of those with role input.

    Example: of thirteen measurements of wines, one is about 0.4 and another about 750.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 3}
    severity: ClassVar[Severity] = Severity.INFO
    causes: ClassVar[str] = (
        "The data is not scaled, is scaled twice, or is scaled by the statistics of another data "
        "set. Large features then dominate the gradient, small ones are never learned, and units "
        "saturate or die. Large targets have large losses and gradients, or are never reached."
    )
    advice: ClassVar[str] = (
        "Standardise each feature and target by mean and standard deviation of the training set, "
        "or scale images to 0 to 1, once, in evaluation as well. A normalisation layer at the "
        "model's start does the same: then do not use this rule."
    )

    max_scale: Annotated[float, Meta(gt=0, extra={"infinite": True})] = 75.0
    min_value: Annotated[float, Meta(ge=0)] = 0.01
    max_ratio: Annotated[float, Meta(gt=1, extra={"infinite": True})] = 1e4
    tensor_regex: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_value >= self.max_scale:
            must = f"must be below max_scale, {self.max_scale:g}"
            raise ValueError(f"min_value is {self.min_value}, but {must}")

    def reads(self) -> Reads:
        inputs = {"inputs": INPUTS.explicitly((), self.tensor_regex)}
        return Reads(inputs if self.tensor_regex else {**inputs, "targets": TARGETS})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        known = [
            (tensor, scales)
            for tensor in step.tensors["inputs"]
            if has_features(tensor, named=bool(self.tensor_regex)) and (scales := _scales(tensor))
        ]
        for target in filter(is_real, step.tensors.get("targets", ())):
            if (scale := scale_of(target)) > self.max_scale:
                return state, self._too_large(f"the targets {target.name} have", target, scale)
        if not known:
            return state, not_applicable(
                Reason.NO_TENSOR, "no inputs with features of real numbers"
            )
        found = [verdict for each in known if (verdict := self._judged(*each))]
        if found:
            return state, found[0]
        largest = max(scale for _, scales in known for scale in scales)
        return state, measured(HEALTHY, largest, self.max_scale)

    def _judged(self, tensor: Tensor, scales: list[float]) -> Verdict | None:
        name, largest = tensor.name, max(scales)
        if largest > self.max_scale:
            return self._too_large(f"a feature of {name} has", tensor, largest)
        if tensor.summary.min is not None and tensor.summary.max is not None:
            value = max(-tensor.summary.min, tensor.summary.max)
            if 0 < value < self.min_value:
                detail = f"no value of {name} is further from 0 than {value:.3g}"
                evidence = {"largest_value": value, "min_value": self.min_value}
                found = violation(Reason.BELOW_THRESHOLD, detail, tensor, **evidence)
                return measured(found, value, self.min_value, "below")
        spread = sorted(scale for scale in scales if scale > _ROUNDING * largest)
        tenth = len(spread) // 10
        if spread and (ratio := spread[-1 - tenth] / spread[tenth]) > self.max_ratio:
            detail = f"scales of the features of {name} differ by a factor of {ratio:.3g}"
            evidence = {"ratio": ratio, "max_ratio": self.max_ratio}
            found = violation(Reason.IMBALANCED, detail, tensor, **evidence)
            return measured(found, ratio, self.max_ratio)
        return None

    def _too_large(self, what: str, tensor: Tensor, scale: float) -> Verdict:
        detail = f"{what} a scale of {scale:.3g}, above {self.max_scale:g}"
        evidence = {"scale": scale, "max_scale": self.max_scale}
        found = violation(Reason.OUT_OF_RANGE, detail, tensor, **evidence)
        return measured(found, scale, self.max_scale)


def _scales(tensor: Tensor) -> list[float]:
    """Return the root mean square of each feature with finite values."""
    return [math.sqrt(mean * mean + variance) for mean, variance in moments(tensor)]
