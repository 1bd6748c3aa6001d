"""An error in every function of ours that a training gets to: found by running it, not by a list.

A training is run once to see which functions of ``tocsin_hooks`` and ``tocsin`` call each other in
it, and then once for each of them with an error at the beginning of its first call, in each thread.
The functions that the training itself or its framework calls are left out, for nobody of ours could
catch their errors; what they call in turn is not. So are the guard itself, and reading a watch file
when a hook is made, which is meant to raise.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import tocsin
import tocsin_hooks

_HOOKS = Path(tocsin_hooks.__file__ or "").parent
_OURS = f"{_HOOKS}/", f"{Path(tocsin.__file__ or '').parent}/"
_GUARD = f"{_HOOKS}/guard.py"


class InjectedError(Exception):
    """What is raised; ``KeyboardInterrupt`` and the like would pass."""


def harmful(training: Callable[[], object], room: str = "") -> list[str]:
    """The functions whose errors reach the training, change what it returns or end a thread.

    ``room``: only those of that part of tocsin_hooks.
    """
    expected = training()
    places: dict[CodeType, None] = {}
    with _tracing(lambda frame: places.setdefault(frame.f_code)):
        assert training() == expected
    if room:
        places = {each: None for each in places if each.co_filename.startswith(f"{_HOOKS}/{room}")}
    assert places
    found = {place: _harm(training, place, expected) for place in places}
    return [f"{place.co_qualname} {harm}" for place, harm in found.items() if harm]


def _harm(training: Callable[[], object], place: CodeType, expected: object) -> str | None:
    def fail(frame: FrameType) -> None:
        if frame.f_code is place:
            raise InjectedError(place.co_qualname)

    threads: list[str] = []
    usual = threading.excepthook
    threading.excepthook = lambda ended: threads.append(str(ended.exc_value))
    try:
        with _tracing(fail):
            result = training()
    except InjectedError:
        return "raises into the training"
    finally:
        threading.excepthook = usual
    return "ends a thread" if threads else None if result == expected else "changes the training"


@contextmanager
def _tracing(call: Callable[[FrameType], object]) -> Iterator[None]:
    """``call`` gets each function of ours as one of ours calls it, until it raises."""

    def trace(frame: FrameType, event: str, argument: Any) -> None:
        if _is_inside(frame):
            call(frame)

    before = sys.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
        threading.settrace(before)  # type: ignore[arg-type]


def _is_inside(frame: FrameType) -> bool:
    caller, file = frame.f_back, frame.f_code.co_filename
    if caller is None or not file.startswith(_OURS) or file == _GUARD:
        return False
    if not caller.f_code.co_filename.startswith(_OURS) or frame.f_code.co_name == "<module>":
        return False
    while caller is not None and caller.f_code.co_name != "given_watch":
        caller = caller.f_back
    return caller is None and frame.f_code.co_name != "given_watch"
