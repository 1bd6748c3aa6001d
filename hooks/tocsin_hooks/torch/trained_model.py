"""The model that optimizers train, found among the objects of the process."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

from torch.nn import Module
from torch.optim import Optimizer

from tocsin_hooks.torch.gradients import parameters_of


def trained_with(module: Any) -> Any:
    """Return the smallest module that has all that is trained together with ``module``: the
    parameters of the optimizers that hold some of its own. If no module has all, it is ``module``
    itself; None if no optimizer holds any.
    """
    own, together = _parameters(module), set[int]()
    for optimizer in _objects(Optimizer):
        held = _held(optimizer)
        together |= set() if own.isdisjoint(held) else held
    if together <= own:
        return module if together else None
    owners = (each for each in _objects(Module) if own | together <= _parameters(each))
    return min(owners, key=_size, default=module)


def updated_by(optimizer: Any) -> Any:
    """Return the outermost module that has parameters of an optimizer, or None."""
    held = _held(optimizer)
    owners = (each for each in _objects(Module) if not held.isdisjoint(_parameters(each)))
    return max(owners, key=_size, default=None)


def _objects(kind: type) -> Iterator[Any]:
    """By their types: some objects would be asked for attributes that they make up."""
    return (each for each in gc.get_objects() if issubclass(type(each), kind))


def _held(optimizer: Any) -> set[int]:
    made = hasattr(optimizer, "param_groups")  # not while it is being made
    return {*map(id, parameters_of(optimizer))} if made else set()


def _parameters(module: Any) -> set[int]:
    return {id(each) for each in module.parameters()} if "_parameters" in vars(module) else set()


def _size(module: Any) -> int:
    return len([*module.modules()])
