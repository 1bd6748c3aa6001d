"""Reductions that a configuration names, computed on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tocsin.tensors import REDUCTIONS

from tocsin_hooks.torch.reductions.packing import pieces

REDUCIBLE = frozenset(REDUCTIONS) - {"median", "abs_median"}
"""Reductions that need no more memory on the device than a piece of the tensor takes."""


def reduction(tensor: Any, name: str) -> Any:
    """The float64 number that ``tocsin.tensors.reduced`` gives, on the device.

    The tensor has real elements, and at least one.
    """
    bare = name.removeprefix("abs_")
    absolute = bare != name

    def folded(of: Callable[[Any], Any], fold: Callable[[Any], Any]) -> Any:
        wide = (each.double() for each in pieces(tensor))
        return fold(torch.stack([fold(of(each.abs() if absolute else each)) for each in wide]))

    if bare in _FOLDS:
        return folded(torch.Tensor.double, _FOLDS[bare])
    if bare == "l1":
        return folded(torch.abs, torch.sum)
    if bare == "l2":
        return folded(torch.square, torch.sum).sqrt()
    mean = folded(torch.Tensor.double, torch.sum) / tensor.numel()
    if bare == "mean":
        return mean
    variance = folded(lambda each: (each - mean).square(), torch.sum) / tensor.numel()
    return variance if bare == "variance" else variance.sqrt()


_FOLDS = {"min": torch.amin, "max": torch.amax, "sum": torch.sum, "prod": torch.prod}
