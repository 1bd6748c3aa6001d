"""Tensors in what goes into a module and comes out of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from itertools import count, islice
from typing import Any

import torch

_DEEPEST = 4


def tensors_in(value: object, most: int) -> list[tuple[str, Any]]:
    """Return the first tensors in a value, with their places: a number, or the key in a mapping.

    Numbers go on through nested sequences, as smdebug counts.

    Example:
        >>> [label for label, _ in tensors_in(((a, [b]), {"mask": c}), 8)]
        ['0', '1', 'mask']
    """
    return list(islice(_walk(value, "", count(), 0), most))


def tensors_of_distributions(value: object) -> list[Any]:
    """Return the parameters of the distributions that a model returns, as a policy does for its
    actions."""
    if isinstance(value, torch.distributions.Distribution):
        return [
            each
            for of in vars(value).values()
            for each in ([of] if isinstance(of, torch.Tensor) else tensors_of_distributions(of))
        ]
    if isinstance(value, list | tuple):
        return [each for of in value for each in tensors_of_distributions(of)]
    return []


def share_memory(one: Any, other: Any) -> bool:
    """Return whether two tensors are views of the same numbers."""
    return bool(one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr())


def scalar_loss(output: object) -> Any:
    """Return the loss that a model gives with its output, as ``output.loss`` or
    ``output["loss"]``."""
    found = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    return found if isinstance(found, torch.Tensor) and found.numel() == 1 else None


def _walk(value: object, prefix: str, numbers: Iterator[int], depth: int) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield f"{prefix}{next(numbers)}", value
    elif depth >= _DEEPEST:
        return
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _walk(item, prefix, numbers, depth + 1)
    elif items := _items(value):
        for key, item in items.items():
            if isinstance(item, torch.Tensor):
                yield f"{prefix}{key}", item
            else:
                yield from _walk(item, f"{prefix}{key}_", count(), depth + 1)


def _items(value: object) -> Mapping[Any, Any]:
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return vars(value)
    return {}
