"""TanhSaturation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tocsin.model import Role, Verdict
from tocsin.rules._registry import register
from tocsin.rules._rule import Reads, Rule, State, Step
from tocsin.rules._saturation import saturation
from tocsin.rules._units import activations, check_thresholds, layer


@register
@dataclass(frozen=True)
class TanhSaturation(Rule):
    """Most tanh units of a layer sit at -1 or 1, where hardly any gradient gets through.

    A unit is saturated in a step if less than ``threshold_inactivity`` % of its inputs lie within
    ±``threshold``, or of its outputs within ±tanh(``threshold``): either of the two is enough to
    have captured. At an input of 3 the slope, 1 - tanh², is 0.0099. Fires when more than
    ``threshold_layer`` % of the units of a layer are saturated in three saved steps in a row.
    Quiet about layers that may be the model's output: those of less than ``min_units`` units, and
    those that are nearly always at the same end, like the dark background of generated images.
    SaturatedActivation, Amazon's rule, waits until no gradient is left at all.

    Parameters
    ----------
    threshold: where saturation begins, in units of the input, above 0.
    threshold_inactivity: % of a unit's values, 0 to 100.
    threshold_layer: % of a layer's units, 0 to below 100.
    min_units: least units of a layer that is judged, at least 1.
    min_side: % of the saturated values that must lie at the rarer end, 0 to 50.

    Example: weights 30 times too large, so that 19 of 20 inputs of the layer are beyond ±3.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 3}
    causes: ClassVar[str] = (
        "Weights or inputs are too large for the number of inputs of a unit: they were initialised "
        "so, the data is not normalised, or a learning rate that is too high made them grow."
    )
    advice: ClassVar[str] = (
        "Normalise the inputs, use Glorot initialisation with a gain of 5/3, put a normalisation "
        "layer before the activation, lower the learning rate or add weight decay."
    )

    threshold: float = 3.0
    threshold_inactivity: float = 10.0
    threshold_layer: float = 60.0
    min_units: int = 8
    min_side: float = 20.0

    def __post_init__(self) -> None:
        if not 0 < self.threshold < math.inf:
            raise ValueError(f"threshold is {self.threshold}, but must be a number above 0")
        if not 0 <= self.min_side <= 50:
            raise ValueError(f"min_side is {self.min_side}, but must be from 0 to 50")
        check_thresholds(self.threshold_inactivity, self.threshold_layer, self.min_units)

    def reads(self) -> Reads:
        high = math.tanh(self.threshold)
        inside = (-self.threshold, self.threshold)
        return Reads(
            {
                "inputs": activations(Role.ACTIVATION_INPUT, "tanh", inside),
                "outputs": activations(Role.ACTIVATION_OUTPUT, "tanh", (-high, high)),
            }
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        layers = [
            found
            for tensor in (*step.tensors["inputs"], *step.tensors["outputs"])
            if (found := layer(tensor, self.threshold_inactivity, self.threshold_layer))
        ]
        return state, saturation(layers, self.threshold_layer, self.min_units, self.min_side)
