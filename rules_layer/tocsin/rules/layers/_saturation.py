"""Judges layers by their saturated units."""

from __future__ import annotations

from collections.abc import Iterable

from tocsin.model import Reason, Role, Verdict
from tocsin.rules._rule import Reads, Tensor
from tocsin.rules._verdicts import HEALTHY, measured, not_applicable, violation
from tocsin.rules.layers._units import LayerUnits, activations, layer_units, least_active


def inputs_and_outputs(
    kind: str, inputs: tuple[float, float], outputs: tuple[float, float]
) -> Reads:
    """Read inputs and outputs of activations. Values between these bounds are not saturated."""
    return Reads(
        {
            "inputs": activations(Role.ACTIVATION_INPUT, kind, inputs),
            "outputs": activations(Role.ACTIVATION_OUTPUT, kind, outputs),
        }
    )


def judge_saturation(
    tensors: Iterable[Tensor],
    threshold_inactivity: float,
    threshold_layer: float,
    min_units: int,
    min_side: float = 0.0,
) -> Verdict:
    """Judge layers whose inactive units are the saturated ones.

    A unit is saturated if less than ``threshold_inactivity`` % of its values, or none, are between
    the bounds. A layer is a violation if more than ``threshold_layer`` % of its units are
    saturated. Layers with less than ``min_units`` are healthy, and those with less than
    ``min_side`` % of their saturated values at the rarer end.
    """
    found = [layer_units(tensor, threshold_inactivity, threshold_layer) for tensor in tensors]
    known = [layer for layer in found if layer is not None]
    if not known:
        return not_applicable(Reason.NO_TENSOR, "no such activation whose units are known")
    worst = least_active(
        layer for layer in known if layer.units >= min_units and _rarer_end(layer) >= min_side
    )
    if worst is None:
        return HEALTHY
    if worst.percent <= threshold_layer:
        return measured(HEALTHY, worst.percent, threshold_layer)
    detail = (
        f"{worst.percent:.3g} % of the units of {worst.tensor.name} are saturated, more than "
        f"{threshold_layer:g} %"
    )
    evidence = {
        "saturated_percent": worst.percent,
        "units": worst.units,
        "threshold_layer": threshold_layer,
    }
    fault = violation(Reason.ABOVE_THRESHOLD, detail, worst.tensor, **evidence)
    return measured(fault, worst.percent, threshold_layer)


def _rarer_end(layer: LayerUnits) -> float:
    """Return the % of the saturated values that are at the rarer end."""
    bounds = layer.tensor.summary.bounds
    if bounds is None or not bounds.below + bounds.above:
        return 0.0
    return 100 * min(bounds.below, bounds.above) / (bounds.below + bounds.above)
