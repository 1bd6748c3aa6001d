"""Changes while a training runs: of the watch file, and of how far the interval is stretched."""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import msgspec
from tocsin.model import Mode
from tocsin.tensors import PACE, WATCH, Storage
from tocsin.watch import Watch, parse_watch

from tocsin_hooks.poller import optional
from tocsin_hooks.selection import CaptureSelection
from tocsin_hooks.settings import mild

_MOST_BYTES = 1 << 20
_MOST_STRETCH = 1024
_SKEW = 60.0  # seconds by which clocks of workers may differ
_MARGIN = 10.0  # seconds, beyond two polls, until all workers have surely read it


class Pace(msgspec.Struct, frozen=True):
    """``pace.json``, in which the first of several workers says what holds for all: from global
    step ``from_step`` on, with the watch file of that digest, and intervals stretched by mode.

    ``every`` so many steps ``save_interval_seconds`` have passed, by the first worker's clock,
    which also says when this was written: ``at``, in seconds since the epoch.
    """

    from_step: int
    stretch: Mapping[str, int] = {}
    watch: str | None = None
    every: int | None = None
    at: float = 0.0


_decoder = msgspec.json.Decoder(Pace)


@dataclass(frozen=True)
class CaptureChange:
    """The settings from global step ``step`` on; a ``selection`` of None is the one before."""

    step: int
    stretch: Mapping[Mode, int]
    selection: CaptureSelection | None = None
    every: int | None = None


class Control:
    """Finds out about changes in the background, and hands them to the training at a step.

    A worker that is alone changes at its next step. Of several the first decides, and announces
    a step that lies some seconds ahead: so all go on saving the same steps.

    Parameters
    ----------
    own: the watch file that this hook writes itself, None if it writes none.
    ready: whether that has happened; before, what lies there is of an earlier start.
    select: a CaptureSelection for a newer watch file.
    progress: the global step in hand and the steps per second, of the training.
    seconds: the ``save_interval_seconds`` that holds at present.
    started: when this start of the job began; what was announced before was for another.
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
        select: Callable[[Watch], CaptureSelection],
        progress: Callable[[], tuple[int, float]],
        seconds: Callable[[], float | None] = lambda: None,
        started: float = 0.0,
    ) -> None:
        self._storage = storage
        self._digest = None if own is None else _digest(own)
        self._first = first
        self._alone = alone
        self._interval = interval
        self._ready = ready
        self._select = select
        self._progress = progress
        self._seconds = seconds
        self._started = started
        self._stretch: Mapping[Mode, int] = {}
        self._announced: Pace | None = None
        self._followed: Pace | None = None
        self._found: CaptureSelection | None = None  # not announced yet
        self._lock = threading.Lock()  # held for an assignment or two, never while reading
        self._pending: CaptureChange | None = None

    def stretch(self, stretch: Mapping[Mode, int]) -> None:
        """The first worker asks for other stretches of the intervals."""
        self._stretch = stretch
        if self._alone:
            self._hand_over(CaptureChange(0, stretch))

    @property
    def has_change(self) -> bool:
        """Return whether there is a change that does not hold yet."""
        return self._pending is not None

    def taken(self, step: int) -> CaptureChange | None:
        """Return the change that begins to hold at this global step, once."""
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
        if not self._alone and self._pending is not None:
            return  # one at a time: some of the others may take up this one, and some miss it
        selection = self._newer() if self._ready() else None
        if self._alone:
            if selection is not None:
                self._hand_over(CaptureChange(0, self._stretch, selection))
            return
        self._found = self._found if selection is None else selection
        step, rate = self._progress()
        every = self._every(rate)
        before = self._announced
        if (
            self._found is not None
            or before is None
            or before.stretch != _named(self._stretch)
            or not _alike(before.every, every)
        ):
            self._announce(self._found, step, rate, every)
            self._found = None  # now that it could be written

    def _every(self, rate: float) -> int | None:
        seconds = self._seconds()
        return None if seconds is None or rate <= 0 else max(round(seconds * rate), 1)

    def _announce(
        self, selection: CaptureSelection | None, step: int, rate: float, every: int | None
    ) -> None:
        begun = self._announced is not None
        ahead = math.ceil((2 * self._interval + _MARGIN) * rate) + 1 if begun else 0
        pace = Pace(
            step + ahead if begun else 0,
            _named(self._stretch),
            self._digest,
            every if begun else None,
            time.time(),
        )
        self._storage.write(PACE, msgspec.json.encode(pace))
        self._announced = pace
        if begun or selection is not None:
            self._hand_over(CaptureChange(pace.from_step, self._stretch, selection, pace.every))

    def _follow(self) -> None:
        data = optional(self._storage.read, PACE, _MOST_BYTES)
        pace = _decoder.decode(data) if data else None
        if pace is None or pace == self._followed or pace.at < self._started - _SKEW:
            return
        selection = None
        if pace.watch is not None and pace.watch != self._digest:
            content = optional(self._storage.read, WATCH, _MOST_BYTES)
            if content is None or _digest(content) != pace.watch:
                return  # a newer one still, which will be announced
            selection = self._select(parse_watch(content, mild=mild))
            self._digest = pace.watch
        self._followed = pace
        every = None if pace.every is None else max(pace.every, 1)
        self._hand_over(CaptureChange(pace.from_step, _within(pace.stretch), selection, every))

    def _newer(self) -> CaptureSelection | None:
        """The selection of a watch file that is not the one known."""
        content = optional(self._storage.read, WATCH, _MOST_BYTES)
        if content is None or (digest := _digest(content)) == self._digest:
            return None
        self._digest = digest  # one that is wrong is reported once
        return self._select(parse_watch(content, mild=mild))

    def _hand_over(self, change: CaptureChange) -> None:
        with self._lock:
            before = self._pending
            if before is not None and change.selection is None:
                change = replace(change, selection=before.selection)
            self._pending = change


def _alike(before: int | None, now: int | None) -> bool:
    """Return whether it is not worth an announcement: a pace differs a little at every look."""
    if before is None or now is None:
        return before is now
    return 2 * now <= 3 * before and 2 * before <= 3 * now


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _named(stretch: Mapping[Mode, int]) -> dict[str, int]:
    return {mode.name: each for mode, each in stretch.items() if each > 1}


def _within(stretch: Mapping[str, int]) -> Mapping[Mode, int]:
    known = {mode: stretch.get(mode.name, 1) for mode in Mode}
    return {mode: min(max(each, 1), _MOST_STRETCH) for mode, each in known.items()}
