"""Reductions that smdebug stored in place of a tensor, as a summary of it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tocsin.model import TensorSummary

FIELDS = frozenset({"min", "max", "mean", "abs_mean", "variance", "l1", "l2"})


def reduced(values: Mapping[str, float]) -> TensorSummary:
    """A summary from reductions by the summary field that each of them is.

    Frameworks reduce over all elements, so a reduction that is not finite tells of at least one
    such element, and finite ones of none.
    """
    finite = {key: value for key, value in values.items() if math.isfinite(value)}
    lost = [value for value in values.values() if not math.isfinite(value)]
    return TensorSummary(
        **finite,  # type: ignore[arg-type]  # FIELDS are all float fields
        nan=int(any(math.isnan(value) for value in lost)),
        posinf=int(math.inf in lost),
        neginf=int(-math.inf in lost),
    )
