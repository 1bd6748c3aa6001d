"""A background thread that checks files of the run at intervals."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from queue import Empty, SimpleQueue
from typing import Protocol

from tocsin.tensors import NotFound

from tocsin_hooks.guard import Guard

_log = logging.getLogger("tocsin")
_MOST_REPORTED = 10


class Look(Protocol):
    def __call__(self) -> None: ...


class News:
    """Says that something in the background may have changed what the next step is to do."""

    __slots__ = ("heard",)

    def __init__(self) -> None:
        self.heard = False


class Poller:
    """Calls each of ``looks`` every ``interval`` seconds, and sets ``news`` after it; what goes
    wrong is logged once.

    ``looks`` are named by what they read, for the message.
    """

    def __init__(self, interval: float, looks: Mapping[str, Look], news: News) -> None:
        self._news = news
        self._interval = interval
        self._looks = looks
        self._reported = set[str]()
        self._closed = SimpleQueue[None]()
        self._thread = threading.Thread(target=self._poll, name="tocsin-poll", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """May be called in any thread while the garbage collector runs."""
        self._closed.put(None)

    def _poll(self) -> None:
        while True:
            try:
                self._closed.get(timeout=self._interval)
                return
            except Empty:
                for what, look in self._looks.items():
                    with Guard(self._report, "%s cannot be read; the training continues", what):
                        look()
                self._news.heard = True

    def _report(self, what: str, error: Exception) -> None:
        """Log each message once: a file that is wrong now is so at the next look, too."""
        message = f"{what}: {error}"
        if message not in self._reported and len(self._reported) < _MOST_REPORTED:
            self._reported.add(message)
            _log.warning(message)


class Reader(Protocol):
    def __call__(self, key: str, limit: int | None = None) -> bytes: ...


def optional(read: Reader, key: str, limit: int) -> bytes | None:
    """Return a file that may not be there. S3 says "access denied" of a missing one to a role that
    may not list the bucket.
    """
    try:
        return read(key, limit)
    except (NotFound, PermissionError):
        return None
