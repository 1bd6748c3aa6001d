"""How much rarer steps are saved than asked, so that capturing stays cheap."""

from __future__ import annotations

from collections import deque
from statistics import median

OVERHEAD = 0.02
"""The share of the training's time that capturing may take where nobody says otherwise."""

_WARMING_UP = 10.0  # seconds, in which the first save costs more than those after it
_ALLOWANCE = 1.0  # seconds; a training that has lost less has lost nothing worth a blind spot
_MOST_STRETCH = 1024
_KEPT = 5


class Budget:
    """Keeps capturing within a share of the training's time, by a ``stretch`` of the interval.

    Nothing happens in the first ten seconds, nor before capturing has cost a second in all, or its
    share of a shorter training. Then the stretch is the least power of two that keeps the share; it
    shrinks again when a quarter of it would do. Costs are medians of the last five saves: one slow
    moment decides nothing.
    """

    def __init__(self, most: float | None) -> None:
        self._most = most
        self._total = self._elapsed = 0.0
        self._costs = deque[float](maxlen=_KEPT)
        self._periods = deque[float](maxlen=_KEPT)
        self.stretch = 1
        self.share = 0.0  # of the time that capturing took, when it was last decided on

    def observe(self, cost: float, elapsed: float, stretch: int) -> bool:
        """A save cost ``cost`` of the ``elapsed`` seconds since the save before, when the interval
        was stretched by ``stretch``. Answers whether the stretch is to be another.
        """
        self._total += cost
        self._elapsed += max(cost, elapsed)
        self._costs.append(cost)
        self._periods.append(max(elapsed - cost, 1e-9) / stretch)
        if self._most is None or self._elapsed < _WARMING_UP or len(self._costs) < _KEPT:
            return False
        if self._total < min(_ALLOWANCE, self._most * self._elapsed):
            return False
        needed = self._needed(self._most)
        if self.stretch >= needed > self.stretch / 4:
            return False
        now = median(self._costs)
        self.share = now / (now + median(self._periods) * self.stretch)
        self.stretch = needed
        return True

    def _needed(self, most: float) -> int:
        cost, period = median(self._costs), median(self._periods)
        stretch = 1
        while stretch < _MOST_STRETCH and cost > most * (cost + period * stretch):
            stretch *= 2
        return stretch
