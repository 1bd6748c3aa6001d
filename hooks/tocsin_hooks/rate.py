"""How fast a training advances: for a change that all workers are to make at the same step."""

from __future__ import annotations

import time


class StepRate:
    """The step in hand, and steps per second. Times are seconds of a steady clock."""

    def __init__(self) -> None:
        self.step = 0
        self._first: tuple[int, float] | None = None
        self._looked: tuple[int, float] | None = None

    def begin(self, step: int, now: float) -> None:
        """The training begins a step."""
        self.step = step
        self._first = self._first or (step, now)

    def look(self) -> tuple[int, float]:
        """The step, and the rate since the first, or since the last look if that is more."""
        if self._first is None:
            return self.step, 0.0
        now = self.step, time.monotonic()
        before, self._looked = self._looked or self._first, now
        return self.step, max(_per_second(self._first, now), _per_second(before, now))


def _per_second(before: tuple[int, float], now: tuple[int, float]) -> float:
    return (now[0] - before[0]) / max(now[1] - before[1], 1e-3)
