"""Knows optimizers that take turns, as those of a GAN do."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

_TURNS = 3  # after which they are opponents
_SAMPLED = 3  # parameters of an optimizer


class Opponents:
    """A turn ends when another optimizer updates, after a pass of its own.

    Optimizers that all update after the same pass share one turn: those of sparse and of other
    weights, or of body and head. A backward pass that nobody saw shows in new gradients.
    """

    def __init__(self) -> None:
        self.has_passed = False
        """Whether there was a forward or backward pass since the last update."""
        self._before = WeakSet[Any]()  # optimizers that updated after one pass
        self._now = WeakSet[Any]()  # and after the next
        self._turns = 0
        self._gradients = WeakKeyDictionary[Any, list[Callable[[], Any]]]()  # at the last update

    @property
    def are_known(self) -> bool:
        return self._turns >= _TURNS

    def passed(self) -> None:
        """Something was computed, forward or backward."""
        self.has_passed = True

    def updated(self, optimizer: Any) -> bool:
        """Whether by this update it becomes known that there are opponents."""
        known = self.are_known
        before = self._gradients.get(optimizer, [])
        self.has_passed = self.has_passed or any(
            each is not of() for each, of in zip(_gradients(optimizer), before, strict=False)
        )
        if self.has_passed:
            others = self._before and self._now and not (self._before & self._now)
            self._turns += bool(others)
            self._before, self._now = self._now, WeakSet()
        self._now.add(optimizer)
        self.has_passed = False
        self._gradients.setdefault(optimizer, [])
        for each in self._gradients:
            self._gradients[each] = [ref(found) for found in _gradients(each)]
        return self.are_known and not known


def _gradients(optimizer: Any) -> list[Any]:
    held = (each for group in optimizer.param_groups for each in group["params"])
    return [each.grad for each in islice(held, _SAMPLED) if each.grad is not None]
