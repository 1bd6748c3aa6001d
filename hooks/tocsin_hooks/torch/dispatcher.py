"""Gives each event of a training to the checks that take it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from inspect import isfunction
from typing import Any, NamedTuple, ParamSpec, get_type_hints

from tocsin_hooks.guard import Report
from tocsin_hooks.torch import events

_P = ParamSpec("_P")
_EVENTS = frozenset(each for each in vars(events).values() if isinstance(each, type))


class _Taker(NamedTuple):
    owner: object
    take: Callable[[Any], object]
    always: bool


class Dispatcher:
    """The subscribers of each type of event, in the order in which they subscribed.

    A check is an object whose methods take one argument each, an event: its type says which. One
    that raises is switched off and reported once, and the others go on. ``are_wanted`` says whether
    events are to reach them at present, but for those that are ``ENDS``, and subscriptions.
    """

    def __init__(self, report: Report, are_wanted: Callable[[], bool] = lambda: True) -> None:
        self._report = report
        self._are_wanted = are_wanted
        self._takers: dict[Any, tuple[_Taker, ...]] = {}

    def add(self, *checks: Any) -> None:
        for check in checks:
            kind: Any = type(check)
            for event, name in _methods(kind):
                taker = _Taker(check, getattr(check, name), event in events.ENDS)
                self._takers[event] = (*self._takers.get(event, ()), taker)

    def subscribe(self, event: type[Any], owner: object, take: Callable[[Any], object]) -> None:
        """Call ``take`` with each such event, until its ``owner`` is removed."""
        self._takers[event] = (*self._takers.get(event, ()), _Taker(owner, take, always=True))

    def remove(self, owner: object) -> None:
        for event, takers in self._takers.items():
            self._takers[event] = tuple(each for each in takers if each.owner is not owner)

    def tell(self, event: Callable[_P, object], *args: _P.args, **kwargs: _P.kwargs) -> None:
        """Make the event if it has subscribers, and give it to them."""
        takers = self._takers.get(event, ())
        if takers and not self._are_wanted():
            takers = tuple(each for each in takers if each.always)
        if not takers:
            return
        made = event(*args, **kwargs)
        for taker in takers:
            try:
                taker.take(made)
            except Exception as error:  # noqa: BLE001 - a check must not end a training
                self.remove(taker.owner)
                self._report(f"check {type(taker.owner).__name__} is switched off", error)


@cache
def _methods(check: type[Any]) -> tuple[tuple[type[Any], str], ...]:
    return tuple(_found(check))


def _found(check: type[Any]) -> Iterator[tuple[type[Any], str]]:
    """The events that a class takes, with the method for each."""
    for name, method in vars(check).items():
        if isfunction(method) and not name.startswith("_"):
            for event in get_type_hints(method).values():
                if event in _EVENTS:
                    yield event, name
