"""SaturatedActivation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tocsin.model import Role, Verdict
from tocsin.rules._registry import register
from tocsin.rules._rule import SAGEMAKER, Reads, Rule, State, Step
from tocsin.rules._saturation import saturation
from tocsin.rules._units import activations, check_thresholds, layer

_KINDS = ("tanh", "sigmoid")


@register
@dataclass(frozen=True)
class SaturatedActivation(Rule):
    """Tanh or sigmoid units of a layer are stuck at their ends, where they pass on no gradient.

    A unit is saturated in a step if less than ``threshold_inactivity`` % of its inputs, or none,
    lie between the bounds of its activation. Fires when more than ``threshold_layer`` % of the
    units of a layer are; in profile ``recommended`` in three saved steps in a row. The bounds
    are Amazon's: about where single precision cannot tell the output from its asymptote. Amazon
    derives them from a gradient of 1e-7, which does not fit them; we keep the numbers. Far less
    already stops a layer from learning, so profile ``recommended`` leaves this to TanhSaturation
    and SigmoidSaturation unless it is asked for by name.

    Parameters
    ----------
    collection_names, tensor_regex: which tensors to watch, the union, instead of the inputs of
        activations of kind tanh or sigmoid. Which of the two a tensor without a kind belongs to
        must be part of its name, as in ``tanh0_input``.
    threshold_tanh_min, threshold_tanh_max: bounds of the inputs of tanh, in their own units.
    threshold_sigmoid_min, threshold_sigmoid_max: bounds of the inputs of sigmoid.
    threshold_tanh, threshold_sigmoid: the same as pairs of min and max, as they once were given.
    threshold_inactivity: % of a unit's inputs, 0 to 100.
    threshold_layer: % of a layer's units, 0 to below 100.
    min_units: layers with fewer units are left out: a lone output may be sure of itself.

    Example: a tanh layer whose inputs are beyond 30 for every sample.
    """

    profiles: ClassVar[tuple[str, ...]] = (SAGEMAKER,)
    options: ClassVar[Mapping[str, Any]] = {"for_steps": 3}
    sagemaker: ClassVar[Mapping[str, Any]] = {"min_units": 1}
    causes: ClassVar[str] = (
        "Weights or inputs that are too large, or a learning rate that lets the weights grow, push "
        "the inputs of the activation so far out that its output does not change any more. The "
        "gradient there is zero, so nothing brings them back."
    )
    advice: ClassVar[str] = (
        "Normalise the inputs, use Glorot initialisation, put a normalisation layer before the "
        "activation, lower the learning rate, or use an activation that does not saturate."
    )

    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()
    threshold_tanh_min: float = -9.4999
    threshold_tanh_max: float = 9.4999
    threshold_sigmoid_min: float = -23.0
    threshold_sigmoid_max: float = 16.99999
    threshold_tanh: tuple[float, ...] = ()
    threshold_sigmoid: tuple[float, ...] = ()
    threshold_inactivity: float = 1.0
    threshold_layer: float = 50.0
    min_units: int = 4

    def __post_init__(self) -> None:
        for kind in _KINDS:
            if len(self._pair(kind)) != 2:
                raise ValueError(f"threshold_{kind} must be two numbers, min and max")
            low, high = self._pair(kind)
            if not -math.inf < low < high < math.inf:
                raise ValueError(f"threshold_{kind} is {low}, {high}, but must be min below max")
        check_thresholds(self.threshold_inactivity, self.threshold_layer, self.min_units)

    def _pair(self, kind: str) -> tuple[float, ...]:
        tanh = self.threshold_tanh or (self.threshold_tanh_min, self.threshold_tanh_max)
        sigmoid = self.threshold_sigmoid or (self.threshold_sigmoid_min, self.threshold_sigmoid_max)
        return tanh if kind == "tanh" else sigmoid

    def reads(self) -> Reads:
        reads = {}
        for kind in _KINDS:
            low, high = self._pair(kind)
            read = activations(Role.ACTIVATION_INPUT, kind, (low, high))
            reads[kind] = read.explicitly(self.collection_names, self.tensor_regex)
        return Reads(reads)

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        layers = [
            found
            for kind in _KINDS
            for tensor in step.tensors[kind]
            if (tensor.kind if tensor.kind in _KINDS else _kind(tensor.name)) == kind
            if (found := layer(tensor, self.threshold_inactivity, self.threshold_layer))
        ]
        return state, saturation(layers, self.threshold_layer, self.min_units)


def _kind(name: str) -> str | None:
    """The activation that a tensor belongs to: the one that comes last in its name."""
    last = max(_KINDS, key=name.lower().rfind)
    return last if last in name.lower() else None
