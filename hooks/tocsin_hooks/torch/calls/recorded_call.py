"""A recorded call of a PyTorch function between a model's outputs and a loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Copied:
    """A tensor as it was before a function changed it."""

    tensor: Any


@dataclass(frozen=True)
class RecordedCall:
    """A call with an argument that depends on an output.

    ``given``: the identities of what depends on one.
    ``versions``: of the tensors that do not, to see whether they were changed since.
    ``precision``: that of autocast at the time, None without it.
    ``caller``: calls a function as from the line of the script.
    """

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    given: frozenset[int]
    versions: Sequence[tuple[Any, int]]
    precision: Any
    caller: Callable[[Any, Any, Any], Any]
    found: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        name: str = getattr(self.function, "__name__", "")
        return name

    def again(self, args: Any, kwargs: Any) -> Any:
        """Call the function again. A warning may name a caller of its caller: all stand in the
        line of the script."""
        inner = self.function, args, kwargs
        return self.caller(self.caller, (self.caller, inner, {}), {})


def tensors_of(value: Any) -> list[Any]:
    """Return the tensors in a value, in lists, tuples and dicts as well."""
    found: list[Any] = []
    _collect(value, found)
    return found


def _collect(value: Any, found: list[Any]) -> None:
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif isinstance(value, list | tuple):
        for each in value:
            _collect(each, found)
    elif isinstance(value, dict):
        for each in value.values():
            _collect(each, found)
    elif isinstance(value, Copied):
        found.append(value.tensor)


def parts_of_index(index: Any) -> tuple[Any, ...]:
    """Return the index of ``tensor[…]`` for each axis."""
    return index if isinstance(index, tuple) else (index,)
