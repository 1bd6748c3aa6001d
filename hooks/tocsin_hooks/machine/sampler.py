"""Takes samples in its own thread, and combines them into minutes."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

from tocsin.profile.minute import Minute

from tocsin_hooks.guard import Guard
from tocsin_hooks.machine.proc import Source, Values
from tocsin_hooks.timings import Timings

_log = logging.getLogger("tocsin")

MINUTE = 60.0  # seconds


class MinuteClock:
    """Numbers minutes since 1970 so that a number never comes again: the clock of the machine
    counts at the start, and when it has jumped ahead by more than a minute. Where it jumps back,
    the minutes go on.
    """

    def __init__(
        self,
        length: float = MINUTE,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.length = length
        self._clock = clock
        self._steady = steady
        self._offset = clock() - steady()
        self._said = False

    def now(self) -> float:
        """Seconds since 1970, which do not go back."""
        steady = self._steady()
        drift = self._clock() - steady - self._offset
        if abs(drift) > self.length and not self._said:
            self._said = True
            _log.warning("the clock jumped by %.0f s while the machine was sampled", drift)
        if drift > self.length:
            self._offset += drift
        return steady + self._offset

    def number(self, now: float) -> int:
        return int(now // self.length)


class Minutes:
    """Collects samples, and gives each minute when it is over. Not for several threads.

    ``interval``: seconds between two samples that are due. What was due and is not there is NaN.
    """

    def __init__(self, interval: float, clock: MinuteClock, timings: Timings | None) -> None:
        self._interval = interval
        self._clock = clock
        self._timings = timings
        self._rows: list[tuple[float, Values]] = []
        self._begun = clock.now()
        self._number = clock.number(self._begun)

    def add(self, values: Values) -> tuple[int, Minute] | None:
        """Add a sample taken now. Returns the minute before with its number when it is over."""
        now = self._clock.now()
        number = self._clock.number(now)
        done = None
        if number > self._number:
            done = self._finished(min(now, (self._number + 1) * self._clock.length))
            self._begun, self._number = max(self._begun, number * self._clock.length), number
        self._rows.append((now, values))
        return done

    def last(self) -> tuple[int, Minute] | None:
        """Return the current minute; None if there is nothing in it."""
        if self._timings is not None:
            self._timings.finish()
        return self._finished(self._clock.now())

    def _finished(self, until: float) -> tuple[int, Minute] | None:
        rows, self._rows = self._rows, []
        durations = self._timings.take() if self._timings is not None else {}
        seconds = max(0.0, until - self._begun)
        if not rows and not any(durations.values()):
            return None
        due = max(len(rows), round(seconds / self._interval))
        series: dict[str, list[float]] = {}
        places = self._places(rows, due)
        for place, (_, values) in zip(places, rows, strict=True):
            for name, value in values.items():
                series.setdefault(name, [math.nan] * due)[place] = value
        minute = Minute(seconds, series, durations, due - len(set(places)))
        return self._number, minute

    def _places(self, rows: Sequence[tuple[float, Values]], due: int) -> list[int]:
        """The tick of each sample. Two samples never share one, though one may be late."""
        places: list[int] = []
        for left, (at, _) in zip(range(len(rows), 0, -1), rows, strict=True):
            place = int((at - self._begun) / self._interval)
            earliest = places[-1] + 1 if places else 0
            places.append(min(max(place, earliest), due - left))
        return places


class Sampler:
    """Calls all ``sources`` every ``interval`` seconds, and ``put`` with each minute.

    Samples that are late are not made up for. A source that fails is reported once, and asked again
    at the next sample.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        interval: float,
        put: Callable[[int, Minute], None],
        timings: Timings | None = None,
        clock: MinuteClock | None = None,
    ) -> None:
        self._sources = sources
        self._interval = interval
        self._put = put
        self._minutes = Minutes(interval, clock or MinuteClock(), timings)
        self._said = set[str]()
        self._closed = SimpleQueue[None]()
        self._thread = threading.Thread(target=self._run, name="tocsin-machine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout: float) -> None:
        """Put the last minute, and end. Does not wait for longer than ``timeout`` seconds."""
        self._closed.put(None)
        if timeout > 0 and self._thread.ident is not None:
            self._thread.join(timeout)

    def sample(self) -> Values:
        """Return one sample of all sources that work."""
        values: dict[str, float] = {}
        for source in self._sources:
            with Guard(self._report, "the machine is sampled without %s", _name(source)):
                values.update(source())
        return values

    def _run(self) -> None:
        deadline = time.monotonic()
        while True:
            late = max(0.0, time.monotonic() - deadline)
            deadline += self._interval * (1 + late // self._interval)
            try:
                self._closed.get(timeout=max(0.0, deadline - time.monotonic()))
                break
            except Empty:
                pass
            with Guard(self._report, "a sample of the machine is lost"):
                self._write(self._minutes.add(self.sample()))
        with Guard(self._report, "the last minute of the machine is lost"):
            self._write(self._minutes.add(self.sample()))
            self._write(self._minutes.last())

    def _write(self, done: tuple[int, Minute] | None) -> None:
        if done is not None:
            self._put(*done)

    def _report(self, what: str, error: Exception) -> None:
        if what not in self._said:
            self._said.add(what)
            _log.warning("%s: %s: %s", what, type(error).__name__, error)


def _name(source: Source) -> str:
    found = getattr(source, "__qualname__", type(source).__name__)
    return str(found).partition(".")[0].lower()
