"""Tells sums over samples from means, by their growth with the number of samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

_SUMS = frozenset({"add", "sub", "__add__", "__radd__", "__sub__", "__rsub__", "__iadd__"})
_RATIOS = frozenset({"div", "divide", "true_divide", "__truediv__", "__itruediv__"})
_LINEAR = frozenset({"mul", "multiply", "neg", "__mul__", "__rmul__", "__imul__", "__neg__"}) | {
    "clone", "detach", "double", "float", "reshape", "squeeze", "to", "view"
}  # fmt: skip


class Growth:
    """Tracks whether numbers grow with the number of samples: True for a sum, False for a mean,
    None if unknown, such as a sum plus a mean.
    """

    def __init__(self) -> None:
        self._of: dict[int, bool | None] = {}

    def clear(self) -> None:
        self._of = {}

    def of(self, number: Any) -> bool | None:
        return self._of.get(id(number), False)

    def called(
        self, name: str, args: Iterable[Any], kwargs: Mapping[str, Any], found: Any, samples: int
    ) -> None:
        """Record that a function returned the number ``found``, in a pass of so many samples."""
        given = [each for each in args if isinstance(each, torch.Tensor)]
        numbers = [self._of[id(each)] for each in given if id(each) in self._of]
        self._of[id(found)] = _growth(name, given, numbers, [*args], kwargs, samples)


def _growth(
    name: str,
    given: list[Any],
    numbers: list[bool | None],
    args: list[Any],
    kwargs: Mapping[str, Any],
    samples: int,
) -> bool | None:
    if not numbers:
        return name == "sum" or kwargs.get("reduction") == "sum"
    if not any(each is not False for each in numbers):
        return False
    if name in _SUMS:
        return numbers[0] if len(set(numbers)) == 1 else None
    if len(numbers) > 1:
        return None
    if name in _LINEAR:
        return numbers[0]
    if name in _RATIOS and len(args) > 1:
        if isinstance(args[1], torch.Tensor):  # as the number of what counts
            return False if len(given) > 1 and numbers[0] else None
        if samples < 2:  # each number is a multiple of theirs
            return None
        return False if args[1] % samples == 0 else numbers[0]
    return None
