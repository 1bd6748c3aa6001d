"""Keeps every error of the hook from the training that calls it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar, cast

_log = logging.getLogger("tocsin")

Report = Callable[[str, Exception], object]
"""Gets what cannot be done because of an error, and the error."""

Method = TypeVar("Method", bound=Callable[..., Any])


class MeantForTraining(Exception):
    """An error that the training is to see."""


class Guard:
    """A context that ends at an error, reports it and lets the training go on.

    What is MeantForTraining passes, and what is not an Exception (KeyboardInterrupt, SystemExit).
    ``what`` is formatted with ``arguments`` only if there is an error.

    >>> with Guard(hook.trouble, "tensor %.200r is not captured", name):
    ...     capture(value)
    """

    __slots__ = ("_arguments", "_report", "_what")

    def __init__(self, report: Report, what: str, *arguments: object) -> None:
        self._report = report
        self._what = what
        self._arguments = arguments

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception) or isinstance(error, MeantForTraining):
            return False
        with suppress(Exception):  # a handler of the script's log may raise
            self._report(self._what % self._arguments, error)
        return True


def guarded(
    report: Callable[[Any], Report], what: str | Callable[..., str], otherwise: object = None
) -> Callable[[Method], Method]:
    """Return the same for a whole method, which then returns ``otherwise``.

    ``report`` finds the Report, given ``self``. ``%s`` in ``what`` is the method's name; or
    ``what`` makes the text, and gets what the method gets.

    >>> from_keras = guarded(attrgetter("hook.trouble"), "%s of Keras is not captured")
    """

    def decorate(method: Method) -> Method:
        @wraps(method)
        def call(*arguments: Any, **keywords: Any) -> Any:
            try:
                return method(*arguments, **keywords)
            except MeantForTraining:
                raise
            except Exception as error:  # noqa: BLE001 - a training must not end by this
                with suppress(Exception):  # a handler of the script's log may raise
                    text = what(*arguments, **keywords) if callable(what) else what
                    report(arguments[0])(text.replace("%s", method.__name__), error)
                return otherwise

        return cast("Method", call)

    return decorate


class Troubles:
    """Counts errors, and logs only the first: an error repeats at every step."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, what: str, error: Exception) -> None:
        self.count += 1
        if self.count == 1:
            _log.warning("%s: %s", what, error)


def log_error(what: str, error: Exception) -> None:
    """The report where there is no hook that counts errors, or there is none any more."""
    _log.error("%s: %s", what, error)
