"""The request to stop: a file in the run, or a signal."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from types import FrameType

import msgspec
from tocsin.tensors import STOP, NotFound, Storage

_log = logging.getLogger("tocsin")
_LIMIT = 64 * 1024


class StopRequest(msgspec.Struct, frozen=True):
    """``STOP.json``: who asked, when (ISO 8601, or seconds since the epoch) and why."""

    requested_at: datetime | float
    rule: str | None = None
    reason: str | None = None
    step: int | None = None
    run_id: str | None = None

    def addresses(self, run_id: str, started: float) -> bool:
        """Whether it is meant for the start of the job that has this id and began then."""
        when = self.requested_at
        if isinstance(when, datetime):
            when = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
        return self.run_id == run_id or when > started


class StopFile:
    """Looks for ``STOP.json`` every ``interval`` seconds, in a thread of its own.

    A request older than ``started`` was for an earlier start of the job and is ignored, unless
    it names our ``run_id``: then the clocks differ.
    """

    def __init__(self, storage: Storage, run_id: str, started: float, interval: float) -> None:
        self._storage = storage
        self._run_id = run_id
        self._started = started
        self._interval = interval
        self._requested = False
        self._told = set[str]()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="tocsin-stop", daemon=True)
        self._thread.start()

    @property
    def requested(self) -> bool:
        return self._requested

    def close(self) -> None:
        self._closed.set()

    def _poll(self) -> None:
        while not (self._requested or self._closed.wait(self._interval)):
            try:
                self._requested = self._look()
            except Exception as error:  # noqa: BLE001 - a training must not end by this
                self._tell(f"{self._storage.url}/{STOP} cannot be read, going on: {error}")

    def _look(self) -> bool:
        try:
            data = self._storage.read(STOP, limit=_LIMIT)
        except (NotFound, PermissionError):
            # S3 says "access denied" of a missing file to a role that may not list the bucket.
            return False
        request = msgspec.json.decode(data, type=StopRequest)
        if not request.addresses(self._run_id, self._started):
            return False
        _log.warning("stop requested by %s: %s", request.rule or "somebody", request.reason or "-")
        return True

    def _tell(self, message: str) -> None:
        """Every message once: a file that is wrong now is so at the next look, too."""
        if message not in self._told and len(self._told) < 10:
            self._told.add(message)
            _log.warning(message)


class Sigterm:
    """SIGTERM as a fact to be asked for, instead of the end of the process.

    A handler that was there before is called as well. A second SIGTERM, and one in a forked
    child, do what they would have done without us. Only the main thread can make one.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._received = False
        self._previous = signal.getsignal(signal.SIGTERM)
        self._handler: Callable[[int, FrameType | None], None] = self._handle
        signal.signal(signal.SIGTERM, self._handler)

    @property
    def received(self) -> bool:
        return self._received

    def close(self) -> None:
        """Put back what was there before, unless somebody has replaced us since."""
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGTERM) == self._handler:
            signal.signal(signal.SIGTERM, self._previous or signal.SIG_DFL)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._received or os.getpid() != self._pid:
            signal.signal(number, self._previous or signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self._received = True
        if callable(self._previous):
            self._previous(number, frame)
