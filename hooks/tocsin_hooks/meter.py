"""The share of the training's time that the hook takes."""

from __future__ import annotations

import time
from typing import NamedTuple


class Meter:
    """Sums the CPU time of a thread inside ``with meter:``. Nested blocks count once.

    It belongs to the training thread; ``add`` may be called by any. CPU time, since a busy machine
    stretches the clock's time and must not reduce what is saved.

    around: seconds that each such block takes besides, where it cannot be seen from inside: until a
        framework has called us, and after.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.around = 0.0
        self._depth = 0
        self._started = 0.0

    def __enter__(self) -> None:
        if self._depth == 0:
            self._started = time.thread_time()
        self._depth += 1

    def __exit__(self, *raised: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.thread_time() - self._started + self.around

    @property
    def runs(self) -> bool:
        return self._depth > 0

    def add(self, seconds: float) -> None:
        self.seconds += seconds


class Moment(NamedTuple):
    """A moment of the training, by two clocks in seconds."""

    wall: float
    process: float

    @classmethod
    def now(cls) -> Moment:
        return cls(time.monotonic(), time.process_time())

    def since(self, earlier: Moment) -> float:
        """Return the seconds that the training had since then.

        The wall clock counts, or the process's CPU time where that is less: then other processes
        had the processors.
        """
        return min(self.wall - earlier.wall, self.process - earlier.process)
