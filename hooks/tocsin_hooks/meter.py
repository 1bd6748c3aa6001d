"""How much of the training's time the hook takes."""

from __future__ import annotations

import time


class Meter:
    """Adds up the time spent inside ``with meter:``; what is nested counts once.

    It belongs to the training thread; ``add`` may be called by any.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0
        self._started = 0.0

    def __enter__(self) -> None:
        if self._depth == 0:
            self._started = time.perf_counter()
        self._depth += 1

    def __exit__(self, *raised: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._started

    @property
    def runs(self) -> bool:
        return self._depth > 0

    def add(self, seconds: float) -> None:
        self.seconds += seconds
