from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Role, Severity, Verdict
from tocsin.rules import SAGEMAKER, Meta, Reads, Rule, State, Step, register
from tocsin.rules.layers._saturation import judge_saturation
from tocsin.rules.layers._units import activations

_KINDS = ("tanh", "sigmoid")


@register
@dataclass(frozen=True)
class SaturatedActivation(Rule):
    """Tanh or sigmoid units of a layer are fully saturated and pass no gradient.

    A unit is saturated in a step if less than ``threshold_inactivity`` % of its inputs, or none,
    are between the bounds of its activation. Fires when more than ``threshold_layer`` % of the
    units of a layer are saturated; in profile ``recommended``, in three consecutive saved steps.
    The bounds are Amazon's: about where single precision rounds the output to its asymptote. A
    layer stops learning long before, so profile ``recommended`` uses TanhSaturation and
    SigmoidSaturation, unless a watch file names this rule.

    Parameters
    ----------
    collection_names, tensor_regex: which tensors to watch, the union, instead of the inputs of
        activations of kind tanh or sigmoid. The name of a tensor without a kind must contain one
        of the two, as in ``tanh0_input``.
    threshold_tanh_min, threshold_tanh_max: bounds of the inputs of tanh, in their own units.
    threshold_sigmoid_min, threshold_sigmoid_max: bounds of the inputs of sigmoid.
    threshold_tanh, threshold_sigmoid: the same as pairs of min and max, the older form.
    threshold_inactivity: smallest share of a unit's inputs between the bounds, in %.
    threshold_layer: largest share of saturated units of a layer, in %.
    min_units: layers with fewer units are not judged, since a single output may be confident.

    Example: a tanh layer whose inputs are above 30 for every sample.
    """

    profiles: ClassVar[tuple[str, ...]] = (SAGEMAKER,)
    options: ClassVar[Mapping[str, Any]] = {"for_steps": 3}
    sagemaker: ClassVar[Mapping[str, Any]] = {"min_units": 1}
    severity: ClassVar[Severity] = Severity.INFO
    causes: ClassVar[str] = (
        "Weights or inputs are too large, or a learning rate lets the weights grow, so the inputs "
        "of the activation are so large that its output no longer changes. The gradient there is "
        "zero, so training cannot undo it."
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
    threshold_inactivity: Annotated[float, Meta(ge=0, le=100)] = 1.0
    threshold_layer: Annotated[float, Meta(ge=0, lt=100)] = 50.0
    min_units: Annotated[int, Meta(ge=1)] = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        for kind in _KINDS:
            if len(self._pair(kind)) != 2:
                raise ValueError(f"threshold_{kind} must be two numbers, min and max")
            low, high = self._pair(kind)
            if not -math.inf < low < high < math.inf:
                raise ValueError(f"threshold_{kind} is {low}, {high}, but must be min below max")

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
        tensors = (
            tensor
            for kind in _KINDS
            for tensor in step.tensors[kind]
            if (tensor.kind if tensor.kind in _KINDS else _kind(tensor.name)) == kind
        )
        limits = self.threshold_inactivity, self.threshold_layer, self.min_units
        return state, judge_saturation(tensors, *limits)


def _kind(name: str) -> str | None:
    """Return the activation that a tensor belongs to: the last one in its name."""
    last = max(_KINDS, key=name.lower().rfind)
    return last if last in name.lower() else None
