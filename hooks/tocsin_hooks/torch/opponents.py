"""Recognises optimizers that take turns, as in a GAN."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

from tocsin_hooks.torch.gradients import LeftGradient, parameters_of

_TURNS = 3  # after which they are opponents
_SAMPLED = 3  # parameters of an optimizer
_LOOKS = 100  # updates, in which it is asked by way of which others the model is trained


class Opponents:
    """A turn ends when another optimizer updates, after a pass of its own.

    Optimizers that all update after the same pass share one turn: those of sparse and of other
    weights, or of body and head. A backward pass that nobody saw shows in new gradients. An
    optimizer of another model is an opponent's if the watched model is trained by way of that one:
    it has new gradients then, which are none of its own update.
    """

    def __init__(self, known: Callable[[], None]) -> None:
        self._known = known  # is called once there are any
        self._has_passed = False  # since the last update: forward or backward
        self._before = WeakSet[Any]()  # optimizers that updated after one pass
        self._now = WeakSet[Any]()  # and after the next
        self._turns = 0
        self._gradients = WeakKeyDictionary[Any, list[Callable[[], Any]]]()  # at the last update
        self._of_others = WeakKeyDictionary[Any, list[LeftGradient]]()  # at their last update
        self._linked = WeakSet[Any]()
        self._looks = 0

    @property
    def are_known(self) -> bool:
        return self._turns >= _TURNS

    def passed(self) -> None:
        """Record a forward or backward computation."""
        self._has_passed = True

    def update_begins(self, optimizer: Any, *, held: bool) -> None:
        """An optimizer is about to update the watched model, or if it is not ``held``, another."""
        if held:
            self._look_for_links()
        elif self._is_linked(optimizer) or self._has_passed:
            self.updated(optimizer)  # another model's, by way of this one

    def updated(self, optimizer: Any) -> None:
        known = self.are_known
        before = self._gradients.get(optimizer, [])
        if self._has_passed or any(
            each is not of() for each, of in zip(_gradients(optimizer), before, strict=False)
        ):
            others = self._before and self._now and not (self._before & self._now)
            self._turns += bool(others)
            self._before, self._now = self._now, WeakSet()
        self._now.add(optimizer)
        self._has_passed = False
        self._gradients.setdefault(optimizer, [])
        for each in self._gradients:
            self._gradients[each] = [ref(found) for found in _gradients(each)]
        if self.are_known and not known:
            self._known()

    def _look_for_links(self) -> None:
        """The watched model is about to be updated: by way of which others?"""
        if not self.are_known and self._looks < _LOOKS:
            self._looks += bool(self._of_others)
            for optimizer, left in self._of_others.items():
                if any(_is_new(each, left) for each in _gradients(optimizer)):
                    self._linked.add(optimizer)

    def _is_linked(self, optimizer: Any) -> bool:
        """Return whether this one, which updates another model now, gets gradients of the watched
        one."""
        found = islice(parameters_of(optimizer), _SAMPLED)
        self._of_others[optimizer] = [LeftGradient(e) for e in found if e.grad is not None]
        return optimizer in self._linked


def _is_new(gradient: Any, left: list[LeftGradient]) -> bool:
    """Return whether something was computed into it since. Waits for the device: it may have been
    set to zero."""
    same = any(each.is_same(gradient) for each in left)
    return not same and not gradient.is_sparse and bool(gradient.any())


def _gradients(optimizer: Any) -> list[Any]:
    sampled = islice(parameters_of(optimizer), _SAMPLED)
    return [each.grad for each in sampled if each.grad is not None]
