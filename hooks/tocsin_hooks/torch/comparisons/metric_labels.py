"""Labels in evaluation metrics: repeated, counted with predictions, as masks."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

SAMES = frozenset({"eq", "ne", "__eq__", "__ne__"})
SUM = "sum"
_BY_BITS = frozenset({"bitwise_and", "logical_and", "__and__", "__rand__"})
_OVERLAPS = _BY_BITS | {"mul", "multiply", "__mul__", "__rmul__"}
_ADDED = frozenset({"add", "__add__", "__radd__"})
UNIONS = frozenset({"bitwise_or", "logical_or", "__or__", "__ror__"}) | _ADDED
OF_MASKS = _OVERLAPS | UNIONS


def once(labels: Any) -> Any:
    """Return the labels without what ``expand`` repeats, as for the best five classes of each
    sample."""
    for axis in reversed(range(labels.dim())):
        if labels.stride(axis) == 0 and labels.shape[axis] > 1:
            labels = labels.select(axis, 0)
    return labels


def counted(name: str, predicted: Any, other: Any, classes: int) -> Any:
    """Return the labels where pairs of classes are numbered, as for a matrix of confusion: the
    class of the label, times their number, and that of the prediction. None if it is something
    else."""
    whole = not (predicted.is_floating_point() or other.is_floating_point())
    if name not in _ADDED or not whole or other.dtype == torch.bool:
        return None
    found = other // classes
    return found if bool((found * classes == other).all() and found.any()) else None


class _Seen(NamedTuple):
    recipe: int | None
    mask: Any


class Masks:
    """The overlap of a prediction with a mask, and their union or the size of both, as for their
    share: with the overlap alone a script may as well leave out what is not to count."""

    def __init__(self) -> None:
        self._overlap: _Seen | None = None
        self._union: _Seen | None = None

    def begin_pass(self) -> None:
        self._overlap = self._union = None

    def labels(self, name: str, recipe: int | None, mask: Any) -> Any:
        """Return the mask, when both have been computed. ``mask``: None where a prediction is
        summed."""
        if name in _OVERLAPS:
            self._overlap = _Seen(recipe, mask)
        else:
            self._union = _Seen(recipe, mask)
        one, other = self._overlap, self._union
        if one is None or other is None or one.recipe != other.recipe:
            return None
        return one.mask if other.mask is None or _are_equal(one.mask, other.mask) else None


def is_mask(name: str, mask: Any) -> bool:
    """Return whether it holds nothing but 0 and 1, where numbers are multiplied or added."""
    return name in _BY_BITS | (UNIONS - _ADDED) or bool(((mask == 0) | (mask == 1)).all())


def _are_equal(one: Any, other: Any) -> bool:
    alike = (one.dtype, one.device, one.shape) == (other.dtype, other.device, other.shape)
    return one is other or (alike and torch.equal(one, other))
