"""The pace of a training, so that all workers can make a change at the same step."""

from __future__ import annotations

import time
from collections.abc import Mapping

from tocsin.model import Mode


class StepRate:
    """The current step, and steps per second. Times are seconds of a steady clock.

    ``counters`` are those of the steps begun so far, which another thread advances.
    """

    def __init__(self, counters: Mapping[Mode, int]) -> None:
        self._counters = counters
        self._first: tuple[int, float] | None = None
        self._looked: tuple[int, float] | None = None

    @property
    def step(self) -> int:
        """The number of the current step among all; 0 before the first."""
        return max(0, self._counters[Mode.GLOBAL] - 1)

    def begin(self, now: float) -> None:
        """The training begins a step."""
        self._first = self._first or (self.step, now)

    def look(self) -> tuple[int, float]:
        """Return the step, and the rate since the first, or since the last look if that is more."""
        if self._first is None:
            return self.step, 0.0
        now = self.step, time.monotonic()
        before, self._looked = self._looked or self._first, now
        return self.step, max(_per_second(self._first, now), _per_second(before, now))


def _per_second(before: tuple[int, float], now: tuple[int, float]) -> float:
    return (now[0] - before[0]) / max(now[1] - before[1], 1e-3)
