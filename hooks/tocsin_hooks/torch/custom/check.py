"""Checks that users write: decorated functions of one event, and how their files are loaded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, get_args, get_type_hints

from tocsin.contracts import Contract
from tocsin.model import Severity
from tocsin.user_files import BadFile, files_in, run_file

from tocsin_hooks.torch.events import Event, Finding

LOOKS = 400
_PACKAGE = "tocsin_custom_checks"
_EVENTS: tuple[type[Any], ...] = get_args(Event)
_ID = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)+")
_MOST_ID, MOST_TEXT = 128, 300


class BadCheck(ValueError):
    """A check, or a file of checks, that cannot be used; the message says why."""


@dataclass(frozen=True)
class Check:
    """A function that gets an event in the first ``looks`` training steps. ``check`` makes it;
    calling it calls the function.
    """

    contract: Contract
    event: type[Any]
    function: Callable[[Any], Finding | None]
    looks: int = LOOKS

    def __call__(self, event: Any) -> Finding | None:
        return self.function(event)


def check(
    id: str,  # noqa: A002 - the word of the pages
    severity: Severity | str,
    *,
    says: str,
    cause: str = "",
    advice: str = "",
    looks: int = LOOKS,
) -> Callable[[Callable[[Any], Finding | None]], Check]:
    """Turn a function that takes an event and returns a Finding or None into a check.

    Parameters
    ----------
    id: a prefix of your own, a dot, and a name: ``shop.negative_price``.
    severity: ``critical``, ``warning`` or ``info``.
    says: what happened, in one clause, for alerts and reports.
    cause: why it matters.
    advice: what to do.
    looks: training steps in which it looks; the first 400 by default.

    Raises BadCheck.

    Example
    -------
    >>> @check("shop.negative_price", "warning", says="a price is negative")
    ... def negative_price(event: LossComputed) -> Finding | None:
    ...     return Finding() if bool((event.target < 0).any()) else None
    """
    if not _ID.fullmatch(id) or len(id) > _MOST_ID:
        why = "needs a prefix of yours, a dot and a name, as shop.negative_price"
        raise BadCheck(f"check {id!r}: an id {why}: ids without a dot are Tocsin's")
    if severity not in tuple(Severity):
        raise BadCheck(f"check {id}: severity is {severity!r}, but must be one of {_SEVERITIES}")
    if not says:
        raise BadCheck(f"check {id}: says is empty: it is the text of the alert")
    if any(len(text) > MOST_TEXT for text in (says, cause, advice)):
        raise BadCheck(f"check {id}: a text has more than {MOST_TEXT} characters")
    if looks < 1:
        raise BadCheck(f"check {id}: looks is {looks}, but must be at least 1")
    contract = Contract(id, Severity(severity), says, cause, advice)
    return lambda function: Check(contract, _event_of(id, function), function, looks)


_SEVERITIES = ", ".join(Severity)


def _event_of(key: str, function: Callable[..., Any]) -> type[Any]:
    """The event that a function takes, by the type of its argument."""
    names = [*signature(function).parameters]
    try:
        event = get_type_hints(function).get(names[0]) if len(names) == 1 else None
    except NameError as error:
        raise BadCheck(f"check {key}: {error}") from error
    if not isinstance(event, type) or event not in _EVENTS:
        known = ", ".join(each.__name__ for each in _EVENTS)
        raise BadCheck(f"check {key}: its function takes one argument, of type {known}")
    return event


def load_checks(given: str | Path | Check | Iterable[Any]) -> tuple[Check, ...]:
    """Return the checks of a file, of each file in a folder, or of a module; checks are returned as
    they are.

    Files whose names begin with ``_`` are helpers of the others in a folder. Raises BadCheck.
    """
    found = tuple(dict.fromkeys(_checks(given)))
    ids = [each.contract.id for each in found]
    twice = next((each for each in ids if ids.count(each) > 1), None)
    if twice is not None:
        raise BadCheck(f"check {twice}: there are two of this id")
    return found


def _checks(given: Any) -> Iterator[Check]:
    if isinstance(given, Check):
        yield given
    elif isinstance(given, str | Path):
        yield from _loaded(str(given))
    elif isinstance(given, Iterable):
        for each in given:
            yield from _checks(each)
    else:
        raise BadCheck(f"{given!r:.100} is not a check: decorate it with @check")


def _loaded(where: str) -> Iterator[Check]:
    path = Path(where)
    try:
        if path.is_dir():
            modules = [run_file(each, _PACKAGE) for each in files_in(path)]
        else:
            is_file = path.suffix == ".py" or path.exists()
            modules = [run_file(path, _PACKAGE) if is_file else import_module(where)]
    except BadFile as error:
        raise BadCheck(str(error)) from error
    except Exception as error:
        raise BadCheck(f"cannot import {where}: {type(error).__name__}: {error}") from error
    found = [each for module in modules for each in vars(module).values()]
    if not any(isinstance(each, Check) for each in found):
        raise BadCheck(f"{where}: no function in it is decorated with @check")
    yield from (each for each in found if isinstance(each, Check))
