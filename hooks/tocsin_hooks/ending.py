"""The end of the process, and of the runs that end with it."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

Place = tuple[str, str]
"""A run's URL, and the worker that writes to it."""

Errors = tuple[int, int]
_SECONDS = 30.0  # for the markers of all runs that wait for the end


def uncaught() -> Errors:
    """Identify the last error that nothing caught. In the main thread of a script it is the end; in
    a cell of a notebook it is not.
    """
    return id(getattr(sys, "last_exc", None)), id(getattr(sys, "last_value", None))


def ends_cleanly(before: Errors) -> bool:
    """Return whether the interpreter, which is exiting, ends without an error that came after
    ``before``.

    Does not see ``sys.exit(1)``. False in a process of ``multiprocessing``, which ends in the same
    way whatever its function raised.
    """
    processes = sys.modules.get("multiprocessing.process")
    child = processes is not None and processes.parent_process() is not None
    return not child and uncaught() == before


def finished_after(error: BaseException | None) -> bool | None:
    """Return the argument ``finished`` of ``close`` where a ``with`` block ends by ``error``, or by
    none.

    ``sys.exit(0)`` is a clean end.
    """
    clean = error is None or (isinstance(error, SystemExit) and error.code in (None, 0))
    return None if clean else False


class Closing(Protocol):
    """A writer to a run."""

    def close(self, *, marker: bool, timeout: float) -> bool: ...


@dataclass(frozen=True)
class _Waiting:
    run: Closing
    errors: Errors
    stopped: Callable[[], bool]
    pid: int


class RunsToEnd:
    """Runs whose training is over while the script goes on. They get their end marker when the
    interpreter exits cleanly, unless another hook has begun to write to the run.
    """

    def __init__(self) -> None:
        self._waiting: dict[Place, _Waiting] = {}
        self._lock = threading.Lock()
        self._registered = False

    def begin(self) -> None:
        """A run begins that may come to wait: the end of the interpreter is seen from now on. Later
        it may be too late, for what is registered while it exits is not called."""
        with self._lock:
            if not self._registered:
                self._registered = True
                atexit.register(self._end)

    def add(self, place: Place, run: Closing, errors: Errors, stopped: Callable[[], bool]) -> None:
        """``errors`` is what was ``uncaught`` before the training was over; ``stopped`` says at
        exit whether the script was asked to stop, because it will resume later.
        """
        with self._lock:
            self._waiting[place] = _Waiting(run, errors, stopped, os.getpid())

    def remove(self, place: Place) -> Closing | None:
        """Forget a run. Return how it was to be closed, or None."""
        with self._lock:
            found = self._waiting.pop(place, None)
        return None if found is None else found.run

    def _end(self) -> None:
        deadline = time.monotonic() + _SECONDS
        for each in list(self._waiting.values()):
            left = deadline - time.monotonic()
            if os.getpid() == each.pid and left > 0:
                marker = ends_cleanly(each.errors) and not each.stopped()
                each.run.close(marker=marker, timeout=left)


runs_to_end = RunsToEnd()
