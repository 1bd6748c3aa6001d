from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Severity, Verdict
from tocsin.rules import Meta, Reads, Rule, State, Step, register
from tocsin.rules.layers._saturation import inputs_and_outputs, judge_saturation


@register
@dataclass(frozen=True)
class TanhSaturation(Rule):
    """Most tanh units of a layer are at -1 or 1, where they pass hardly any gradient.

    A unit is saturated in a step if less than ``threshold_inactivity`` % of its inputs are within
    ±``threshold``, or of its outputs within ±tanh(``threshold``), whichever is captured; at an
    input of 3 the slope is 0.0099. Fires when more than ``threshold_layer`` % of the units of a
    layer are saturated in three consecutive saved steps. Does not judge layers that may be the
    model's output: those with less than ``min_units`` units, and those nearly always at the same
    end, like the dark background of generated images. SaturatedActivation, Amazon's rule, fires
    when no gradient is left at all.

    Parameters
    ----------
    threshold: inputs beyond ± this are saturated, in units of the input.
    threshold_inactivity: smallest share of a unit's values within the bounds, in %.
    threshold_layer: largest share of saturated units of a layer, in %.
    min_units: smallest number of units of a layer that is judged.
    min_side: % of the saturated values that must be at the rarer end.

    Example: weights are 30 times too large, and 19 of 20 inputs of the layer are beyond ±3.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 3}
    severity: ClassVar[Severity] = Severity.INFO
    causes: ClassVar[str] = (
        "Weights or inputs are too large for the number of inputs of a unit: by initialisation, "
        "because the data is not normalised, or because the learning rate is too high."
    )
    advice: ClassVar[str] = (
        "Normalise the inputs, use Glorot initialisation with a gain of 5/3, put a normalisation "
        "layer before the activation, lower the learning rate or add weight decay."
    )

    threshold: Annotated[float, Meta(gt=0)] = 3.0
    threshold_inactivity: Annotated[float, Meta(ge=0, le=100)] = 10.0
    threshold_layer: Annotated[float, Meta(ge=0, lt=100)] = 60.0
    min_units: Annotated[int, Meta(ge=1)] = 8
    min_side: Annotated[float, Meta(ge=0, le=50)] = 20.0

    def reads(self) -> Reads:
        high = math.tanh(self.threshold)
        return inputs_and_outputs("tanh", (-self.threshold, self.threshold), (-high, high))

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        tensors = (*step.tensors["inputs"], *step.tensors["outputs"])
        limits = self.threshold_inactivity, self.threshold_layer, self.min_units, self.min_side
        return state, judge_saturation(tensors, *limits)
