"""The lifetime of a hook, and the end marker."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tocsin_hooks.ending import ends_cleanly, runs_to_end, uncaught
from tocsin_hooks.guard import Guard, Report
from tocsin_hooks.stop import Sigterm

if TYPE_CHECKING:  # it loads the rules
    from tocsin_hooks.session import Session

_log = logging.getLogger("tocsin")
_AT_EXIT_SECONDS = 30.0
_OF_SAGEMAKER = "TRAINING_JOB_NAME"


class Life:
    """From the start of a hook until it is closed, or left, or the interpreter exits.

    Only in the process that made it: in a forked child a hook does nothing.

    Parameters
    ----------
    first: whether this is the worker that writes the end marker.
    last: ends the current step, the last one.
    stats: what the hook has done, for the log.
    report: gets errors.
    """

    def __init__(
        self,
        first: bool,
        last: Callable[[], None],
        stats: Callable[[], object],
        report: Report,
    ) -> None:
        self._first = first
        self._last = last
        self._stats = stats
        self._report = report
        self._pid = os.getpid()
        self._lock = threading.RLock()  # a signal handler may close while we do
        self._uncaught = uncaught()
        self.session: Session | None = None  # None: nothing is captured
        self._sigterm: Sigterm | None = None
        self._closed = False
        self._left = False

    @property
    def here(self) -> bool:
        """Return whether this process is the hook's."""
        return os.getpid() == self._pid

    @property
    def over(self) -> bool:
        """Return whether nothing more is captured, here at least."""
        return self._closed or self._left or not self.here

    @property
    def stopped(self) -> bool:
        """Return whether SIGTERM was received after ``stop_on_sigterm``."""
        return _was_received(self._sigterm)

    def begin(self, session: Session) -> None:
        """The hook has a run to write to, and an end to write when the interpreter exits."""
        self.session = session
        runs_to_end.begin()  # first, so that it comes last
        atexit.register(self._at_exit)
        session.on_retire = partial(atexit.unregister, self._at_exit)

    def goes_on(self) -> None:
        """Record that a step begins: an earlier exception did not end the training."""
        self._uncaught = uncaught()

    def stop_on_sigterm(self) -> None:
        """From now on SIGTERM makes ``stopped`` true."""
        if self._sigterm is not None or not self.here:
            return
        try:
            self._sigterm = Sigterm(self._has_news)
        except ValueError as error:
            _log.warning("SIGTERM does not stop the training: %s", error)

    def _has_news(self) -> None:
        if self.session is not None:
            self.session.news.heard = True

    def close(self, *, finished: bool | None, timeout: float) -> None:
        """See ``Hook.close``."""
        if not self.here:
            return
        with self._lock:
            if self._closed:
                return
            self._last()
            self._closed = True
            with Guard(self._report, "the run was not closed"):
                marker = self._first if finished is None else finished
                outside = _OF_SAGEMAKER not in os.environ
                self._close(marker and outside and not self.stopped, timeout)

    def leave(self) -> None:
        """See ``Hook.leave``."""
        if self.over or self.session is None:
            return
        self._left = True
        self.session.leave(self._leave)

    def _close(self, marker: bool, timeout: float) -> None:
        atexit.unregister(self._at_exit)
        if self.session and not self.session.close(marker=marker, timeout=timeout):
            _log.warning("the end of the run is missing: it could not be written in %g s", timeout)
        if self._left and self.session:
            runs_to_end.remove(self.session.place)
        if self._sigterm is not None:
            self._sigterm.close()
        _log.info("%s", self._stats())

    def _leave(self) -> None:
        """The part of ``leave`` that runs in the background. Nothing keeps the hook after it."""
        self._last()
        session = self.session
        if session is None or session.uploader is None or self._closed:
            return
        stopped = partial(_was_received, self._sigterm)
        if self._first and session.used and _OF_SAGEMAKER not in os.environ:
            runs_to_end.add(session.place, session.uploader, self._uncaught, stopped)
            if (machine := session.machine.watch) is not None:
                runs_to_end.add((machine.url, machine.worker), machine, self._uncaught, stopped)
        atexit.unregister(self._at_exit)

    def _at_exit(self) -> None:
        used = self.session is not None and self.session.used
        finished = None if used and ends_cleanly(self._uncaught) else False
        self.close(finished=finished, timeout=_AT_EXIT_SECONDS)


def _was_received(sigterm: Sigterm | None) -> bool:
    return sigterm is not None and sigterm.received
