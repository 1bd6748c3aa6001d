"""What changes while a training runs: the watch file, and how far the interval is stretched."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from tocsin.tensors import WATCH, Storage
from tocsin.watch import Watch, parse_watch

from tocsin_hooks._poller import optional
from tocsin_hooks._selection import Selection

PACE = "pace.json"
"""How the first of several workers tells the others what holds from which step on."""

_MOST_BYTES = 1 << 20
_MOST_STRETCH = 1024
_MARGIN = 10.0  # seconds, beyond two polls, until all workers have surely read it


class Pace(msgspec.Struct, frozen=True):
    """``pace.json``: from global step ``from_step`` on, with the watch file of that digest."""

    from_step: int
    stretch: int = 1
    watch: str | None = None


@dataclass(frozen=True)
class Change:
    """What holds from global step ``step`` on; a ``selection`` of None is the one before."""

    step: int
    stretch: int
    selection: Selection | None = None


class Control:
    """Finds out about changes in the background, and hands them to the training at a step.

    A worker that is alone changes at its next step. Of several the first decides, and announces
    a step that lies some seconds ahead: so all go on saving the same steps.

    Parameters
    ----------
    own: the watch file that this hook writes itself, None if it writes none.
    ready: whether that has happened; before, what lies there is of an earlier start.
    select: a Selection for a newer watch file.
    progress: the global step in hand and the steps per second, of the training.
    """

    def __init__(
        self,
        storage: Storage,
        own: bytes | None,
        *,
        first: bool,
        alone: bool,
        interval: float,
        ready: Callable[[], bool],
        select: Callable[[Watch], Selection],
        progress: Callable[[], tuple[int, float]],
    ) -> None:
        self._storage = storage
        self._digest = None if own is None else _digest(own)
        self._first = first
        self._alone = alone
        self._interval = interval
        self._ready = ready
        self._select = select
        self._progress = progress
        self._stretch = 1
        self._announced: Pace | None = None
        self._followed: Pace | None = None
        self._found: Selection | None = None  # not announced yet
        self._lock = threading.Lock()  # held for an assignment or two, never while reading
        self._pending: Change | None = None

    def stretch(self, stretch: int) -> None:
        """The first worker asks for another stretch of the interval."""
        self._stretch = stretch
        if self._alone:
            self._hand_over(Change(0, stretch))

    def taken(self, step: int) -> Change | None:
        """The change that begins to hold at this global step, once."""
        if self._pending is None:
            return None
        with self._lock:
            if (change := self._pending) is None or step < change.step:
                return None
            self._pending = None
            return change

    def look(self) -> None:
        """Read what there is of news; raises ValueError for a watch file that cannot be used."""
        if not self._first:
            self._follow()
            return
        selection = self._newer() if self._ready() else None
        if self._alone:
            if selection is not None:
                self._hand_over(Change(0, self._stretch, selection))
            return
        self._found = selection or self._found
        known = self._announced is not None and self._announced.stretch == self._stretch
        if self._found is not None or not known:
            self._announce(self._found)
            self._found = None  # now that it could be written

    def _announce(self, selection: Selection | None) -> None:
        step, rate = self._progress()
        begun = self._announced is not None
        ahead = math.ceil((2 * self._interval + _MARGIN) * rate) + 1 if begun else 0
        pace = Pace(step + ahead if begun else 0, self._stretch, self._digest)
        self._storage.write(PACE, msgspec.json.encode(pace))
        self._announced = pace
        if begun or selection is not None:
            self._hand_over(Change(pace.from_step, pace.stretch, selection))

    def _follow(self) -> None:
        data = optional(self._storage.read, PACE, _MOST_BYTES)
        pace = msgspec.json.decode(data, type=Pace) if data else None
        if pace is None or pace == self._followed:
            return
        selection = None
        if pace.watch is not None and pace.watch != self._digest:
            content = optional(self._storage.read, WATCH, _MOST_BYTES)
            if content is None or _digest(content) != pace.watch:
                return  # a newer one still, which will be announced
            selection = self._select(parse_watch(content))
            self._digest = pace.watch
        self._followed = pace
        self._hand_over(Change(pace.from_step, _within(pace.stretch), selection))

    def _newer(self) -> Selection | None:
        """The selection of a watch file that is not the one known."""
        content = optional(self._storage.read, WATCH, _MOST_BYTES)
        if content is None or (digest := _digest(content)) == self._digest:
            return None
        self._digest = digest  # one that is wrong is told once
        return self._select(parse_watch(content))

    def _hand_over(self, change: Change) -> None:
        with self._lock:
            before = self._pending
            if before is not None and change.selection is None:
                change = Change(change.step, change.stretch, before.selection)
            self._pending = change


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _within(stretch: int) -> int:
    return min(max(stretch, 1), _MOST_STRETCH)
