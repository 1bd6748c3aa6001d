"""Outputs selected by an index, such as the nodes of a graph that have labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch

from tocsin_hooks.torch.calls.recorded_call import RecordedCall, parts_of_index

_CHOSEN = "chosen"  # in place of what is another index for each batch, or each set of samples


@dataclass(frozen=True)
class Picked:
    """``index``: by which something was picked ``of`` a tensor; ``is_plain``: it is as it was
    there, but for its form, and nothing was computed of it."""

    of: Any
    index: Any
    is_plain: bool = True

    @property
    def kind(self) -> tuple[Any, ...]:
        """Equal for the same columns or places of all samples, and for any choice of samples."""
        return tuple(_kind(place, each) for place, each in enumerate(parts_of_index(self.index)))

    @property
    def is_whole(self) -> bool:
        """Return whether it was indexed with a mask that is true everywhere."""
        mask = self.index
        return isinstance(mask, torch.Tensor) and mask.dtype == torch.bool and bool(mask.all())

    def is_same(self, index: Any) -> bool:
        """Return whether samples were chosen by this very index, whatever the values that this has
        by now: columns are the same ones of all samples."""
        own, other = parts_of_index(self.index), parts_of_index(index)
        choices = [(a, b) for a, b in zip(own, other, strict=False) if _is_choice(a)]
        same = len(own) == len(other) and all(_is_one(*each) for each in choices)
        return same and self._chooses_samples(own)

    def _chooses_samples(self, parts: tuple[Any, ...]) -> bool:
        """Return whether the first choice is among samples: a single graph may have an axis
        before."""
        first = next((place for place, each in enumerate(parts) if _is_choice(each)), None)
        return first is not None and prod(self.of.shape[:first]) == 1

    def rows_of(self, output: Any, form: Sequence[int]) -> Any:
        """Return the part of an ``output`` that was picked, of which ``form`` is that of a sample;
        None if it was picked from something of another form."""
        shape = tuple(self.of.shape)
        if self.of.numel() != output.numel():
            shape = (*shape, *form)
        if prod(shape) != output.numel():
            return None
        return output.detach().reshape(shape)[self.index].contiguous()


class IndexedOutputs:
    """Tracks indexed outputs, and what is computed from them alone, by the identity of tensors."""

    def __init__(self) -> None:
        self._picked: dict[int, Picked] = {}

    def clear(self) -> None:
        self._picked.clear()

    def of(self, tensor: Any) -> Picked | None:
        return self._picked.get(id(tensor))

    def same(self, before: Any, keys: Iterable[int]) -> None:
        """Tensors have the numbers of another one."""
        if (picked := self.of(before)) is not None:
            self._picked.update((key, picked) for key in keys)

    def called(self, call: RecordedCall, found: Mapping[int, Any]) -> None:
        """Record a call that returned the tensors ``found``, by their keys."""
        before = [self._picked.get(key) for key in call.given]
        index = _index(call)
        if index is not None and len(call.given) == 1 and id(call.args[0]) in call.given:
            picked = None if before[0] else Picked(call.args[0], index)
            if picked is not None and _is_all(picked, found.values()):
                picked = None
        else:
            first = before[0] if before else None
            alike = first is not None and all(e is not None and _is_as(e, first) for e in before)
            picked = replace(first, is_plain=False) if first is not None and alike else None
        if picked is not None:
            self._picked.update((key, picked) for key in found)


def _is_all(picked: Picked, found: Iterable[Any]) -> bool:
    """Return whether the index selects everything, such as the only column."""
    chosen = any(map(_is_choice, parts_of_index(picked.index)))
    return not chosen and all(each.numel() == picked.of.numel() for each in found)


def _is_as(one: Picked, other: Picked) -> bool:
    return one.of is other.of and one.index is other.index


def _index(call: RecordedCall) -> Any:
    if call.name == "__getitem__" and len(call.args) == 2:
        return call.args[1]
    if call.name == "index_select" and len(call.args) == 3 and call.args[1] == 0:
        return call.args[2]
    return None


def _is_choice(part: Any) -> bool:
    return isinstance(part, torch.Tensor | list) or hasattr(part, "__array__")


def _kind(place: int, part: Any) -> Any:
    of_samples = place == 0 and isinstance(part, slice) and part != slice(None)
    return _CHOSEN if of_samples or _is_choice(part) else part


def _is_one(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return bool(one.data_ptr() == other.data_ptr() and one.shape == other.shape)
    return one is other
