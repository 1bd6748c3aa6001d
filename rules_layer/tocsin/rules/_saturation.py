"""Judges layers by their saturated units, for three rules."""

from __future__ import annotations

from collections.abc import Iterable

from tocsin.model import Reason, Role, Verdict
from tocsin.rules._rule import HEALTHY, Reads, not_applicable, violation
from tocsin.rules._units import Layer, activations, worst


def both_sides(kind: str, inputs: tuple[float, float], outputs: tuple[float, float]) -> Reads:
    """Reads inputs and outputs of activations; units with values between these ends are alive."""
    return Reads(
        {
            "inputs": activations(Role.ACTIVATION_INPUT, kind, inputs),
            "outputs": activations(Role.ACTIVATION_OUTPUT, kind, outputs),
        }
    )


def saturation(
    layers: Iterable[Layer], threshold_layer: float, min_units: int, min_side: float = 0.0
) -> Verdict:
    """Judges layers whose inactive units are the saturated ones.

    Layers with less than ``min_units`` pass, and those with less than ``min_side`` % of their
    saturated values at the rarer end.
    """
    known = list(layers)
    if not known:
        return not_applicable(Reason.NO_TENSOR, "no such activation whose units are known")
    found = worst(each for each in known if each.units >= min_units and _rarer(each) >= min_side)
    if found is None or found.percent <= threshold_layer:
        return HEALTHY
    detail = (
        f"{found.percent:.3g} % of the units of {found.tensor.name} are saturated, more than "
        f"{threshold_layer:g} %"
    )
    return violation(
        Reason.ABOVE_THRESHOLD,
        detail,
        found.tensor,
        saturated_percent=found.percent,
        units=found.units,
        threshold_layer=threshold_layer,
    )


def _rarer(found: Layer) -> float:
    """The % of the saturated values that lie at the rarer end."""
    bounds = found.tensor.summary.bounds
    if bounds is None or not bounds.below + bounds.above:
        return 0.0
    return 100 * min(bounds.below, bounds.above) / (bounds.below + bounds.above)
