"""Layers of which most units are saturated: what three rules have in common."""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.model import Reason, Verdict
from tocsin.rules._rule import HEALTHY, not_applicable, violation
from tocsin.rules._units import Layer, worst


def saturation(
    layers: Sequence[Layer], threshold_layer: float, min_units: int, min_side: float = 0.0
) -> Verdict:
    """What to say of layers whose inactive units are saturated ones.

    Those of less than ``min_units`` are let pass, and those with less than ``min_side`` % of
    their saturated values at the rarer end.
    """
    if not layers:
        return not_applicable(Reason.NO_TENSOR, "no such activation whose units are known")
    found = worst(each for each in layers if each.units >= min_units and _rarer(each) >= min_side)
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
    """The % of the saturated values that lie at the end where there are less."""
    bounds = found.tensor.summary.bounds
    if bounds is None or not bounds.below + bounds.above:
        return 0.0
    return 100 * min(bounds.below, bounds.above) / (bounds.below + bounds.above)
