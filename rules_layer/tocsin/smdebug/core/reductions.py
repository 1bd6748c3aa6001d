"""Reductions of arrays."""

from __future__ import annotations

from typing import Any

from tocsin.trial.reduce import reduce_value

__all__ = ["get_numpy_reduction"]


def get_numpy_reduction(
    reduction_name: str,
    numpy_data: Any,
    abs: bool = False,  # noqa: A002 - smdebug's name
) -> Any:
    """Return a reduction, such as ``mean`` or ``l2``, of an array or of its absolute values."""
    return reduce_value(reduction_name, numpy_data, absolute=abs)
