"""Shares what rules compute of the same tensors at a step."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def shared(function: Callable[P, T]) -> Callable[P, T]:
    """Compute a function once for rules that give it the same objects, by their identity.

    It must be pure, and neither its arguments nor its result may change.
    """
    newest: dict[tuple[int, ...], tuple[object, T]] = {}
    most = 16  # results: rules that read the same come one after the other

    @wraps(function)
    def once(*args: P.args, **kwargs: P.kwargs) -> T:
        key = (*map(id, args), *map(id, kwargs.values()))
        if (known := newest.get(key)) is None:
            if len(newest) >= most:
                newest.clear()
            # The arguments are kept: an identity is that of a live object.
            known = newest[key] = (args, kwargs), function(*args, **kwargs)
        return known[1]

    return once
