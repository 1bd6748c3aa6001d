"""The request to stop: a file in the run, or a signal."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from datetime import datetime, timezone
from types import FrameType

import msgspec
from tocsin.tensors import STOP, Storage

from tocsin_hooks.guard import MeantForTraining
from tocsin_hooks.poller import optional

_log = logging.getLogger("tocsin")
_LIMIT = 64 * 1024


class TrainingStopped(MeantForTraining):
    """The training is to stop: by ``STOP.json`` in the run, by SIGTERM, or by a rule's action."""


class StopRequest(msgspec.Struct, frozen=True):
    """``STOP.json``: who asked, when (ISO 8601, or seconds since the epoch) and why."""

    requested_at: datetime | float
    rule: str | None = None
    reason: str | None = None
    step: int | None = None
    run_id: str | None = None

    def addresses(self, run_id: str, started: float) -> bool:
        """Return whether it is meant for the start of the job that has this id and began then."""
        when = self.requested_at
        if isinstance(when, datetime):
            when = (when if when.tzinfo else when.replace(tzinfo=timezone.utc)).timestamp()
        return self.run_id == run_id or when > started


_decoder = msgspec.json.Decoder(StopRequest)


class StopFile:
    """Checks for ``STOP.json``, and remembers it.

    A request older than ``started`` was for an earlier start of the job and is ignored, unless
    it names our ``run_id``: then the clocks differ.
    """

    def __init__(self, storage: Storage, run_id: str, started: float) -> None:
        self._storage = storage
        self._run_id = run_id
        self._started = started
        self.requested = False

    def look(self) -> None:
        if self.requested or (data := optional(self._storage.read, STOP, _LIMIT)) is None:
            return
        request = _decoder.decode(data)
        if request.addresses(self._run_id, self._started):
            self.requested = True
            why = request.reason or "-"
            _log.warning("stop requested by %s: %s", request.rule or "somebody", why)


class Sigterm:
    """SIGTERM as a fact to be asked for, instead of the end of the process.

    A handler that was there before is called as well. A second SIGTERM, and one in a forked
    child, do what they would have done without us. ``then`` is called at the first one. Only the
    main thread can make one.
    """

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self._then = then
        self._pid = os.getpid()
        self._received = False
        self._previous = signal.getsignal(signal.SIGTERM)
        self._handler: Callable[[int, FrameType | None], None] = self._handle
        signal.signal(signal.SIGTERM, self._handler)

    @property
    def received(self) -> bool:
        return self._received

    def close(self) -> None:
        """Restore the earlier handler, unless the script has replaced ours."""
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGTERM) == self._handler:
            signal.signal(signal.SIGTERM, self._previous or signal.SIG_DFL)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._received or os.getpid() != self._pid:
            signal.signal(number, self._previous or signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self._received = True
        self._then()
        if callable(self._previous):
            self._previous(number, frame)
