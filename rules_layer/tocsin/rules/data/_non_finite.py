"""Counts NaN and infinities, and reports them."""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.model import Reason, Verdict
from tocsin.rules._rule import Tensor
from tocsin.rules._verdicts import measured, violation

COUNTS = ("size", "nan", "posinf", "neginf")
"""The fields of a summary that count values which are not finite."""


def infinities(tensor: Tensor) -> int:
    return (tensor.summary.posinf or 0) + (tensor.summary.neginf or 0)


def is_finite(tensor: Tensor) -> bool:
    return not (tensor.summary.nan or infinities(tensor))


def not_finite(tensor: Tensor, counts: Mapping[str, int], origin: str = "") -> Verdict:
    """Report a tensor. ``counts`` has ``nan`` and ``infinite``, the most telling number first;
    ``origin`` is added to the detail."""
    nan, infinite = counts["nan"], counts["infinite"]
    counted = [f"{nan} NaN"] * bool(nan) + [f"{infinite} infinite"] * bool(infinite)
    size = tensor.summary.size  # not known if only reductions were saved
    values = f"{size} values" if size else "values"
    detail = f"{' and '.join(counted)} among the {values} of {tensor.name}"
    if size == 1:
        detail = f"{tensor.name} is {'NaN' if nan else 'infinite'}"
    evidence = {**counts, "size": size} if size else counts
    return measured(
        violation(Reason.NOT_FINITE, detail + origin, tensor, **evidence), nan or infinite, 0
    )
