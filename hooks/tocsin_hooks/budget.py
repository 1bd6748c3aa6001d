"""Budget of capturing: how far the save interval is stretched to stay cheap."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from statistics import median

from tocsin.model import Mode

from tocsin_hooks.meter import Moment

OVERHEAD = 0.02
"""The share of the training's time that capturing may take where nobody says otherwise."""

_ALLOWANCE = 1.2  # seconds of a run; one that has lost less has lost nothing worth a blind spot
_LOOKS = 0.5  # of what the hook may take: for looks at steps that are not saved
_MOST_STRETCH = 1024
_KEPT = 5
_WEIGHTS = {Mode.TRAIN: 14, Mode.EVAL: 5, Mode.PREDICT: 1, Mode.GLOBAL: 1}


class ModeBudgets:
    """Gives each saved mode its own share of the limit and its own stretched interval.

    So evaluations, however many, cost no step of training. TRAIN has 70 % of the limit where all
    modes are saved, EVAL 25 %; a mode that is alone has all of it.
    """

    def __init__(self, most: float | None) -> None:
        self._most = most
        self._budgets: dict[Mode, Budget] = {}
        self._last: dict[Mode, tuple[Moment, int]] = {}
        self._added: dict[Mode, float] = {}

    @property
    def stretches(self) -> Mapping[Mode, int]:
        return {mode: budget.stretch for mode, budget in self._budgets.items()}

    def share(self, mode: Mode) -> float:
        """Return the share of the time that capturing steps of this mode took. See
        ``Budget.share``."""
        return self._budgets[mode].share if mode in self._budgets else 0.0

    def allows_looks(self, spent: float, elapsed: float) -> bool:
        """Return whether a step that is not saved may be looked at, when the hook has ``spent`` so
        many of the ``elapsed`` seconds: half of the allowance, and half of the limit from then on,
        is for that."""
        return self._most is None or spent < _LOOKS * max(_ALLOWANCE, self._most * elapsed)

    def observe(
        self, mode: Mode, cost: float, now: Moment, spent: float, stretch: int, step: int
    ) -> bool:
        """Record a save of this mode that cost ``cost`` seconds of the ``spent`` ones of the hook,
        and has ended ``now``. See ``Budget``.

        One that comes too few steps after another to be due counts with the next.
        """
        before, last = self._last.get(mode, (None, step))
        cost += self._added.pop(mode, 0.0)
        if before is not None and step - last < max(stretch, 2):
            self._added[mode] = cost
            return False
        self._last[mode] = now, step
        if before is None:
            return False
        if mode not in self._budgets:
            self._budgets[mode] = Budget(None)
        whole = sum(_WEIGHTS[each] for each in self._budgets)
        for each, budget in self._budgets.items():
            budget.most = None if self._most is None else self._most * _WEIGHTS[each] / whole
        return self._budgets[mode].observe(cost, now.since(before), spent, stretch)


class Budget:
    """Keeps capturing within a share of the training's time, by a ``stretch`` of the interval.

    Nothing happens before the hook has taken 1.2 seconds in all: rules find little in the few
    saves that the share of a short training buys. Then the stretch is the least power of two that
    keeps the share; it shrinks again when a quarter of it would do. Costs are medians of the last
    five saves: one slow moment decides nothing.
    """

    def __init__(self, most: float | None) -> None:
        self.most = most
        self._costs = deque[float](maxlen=_KEPT)
        self._periods = deque[float](maxlen=_KEPT)
        self.stretch = 1
        self.share = 0.0  # of the time that capturing took, when it was last decided on

    def observe(self, cost: float, elapsed: float, spent: float, stretch: int) -> bool:
        """Record that a save cost ``cost`` of the ``elapsed`` seconds since the save before, when
        the interval was stretched by ``stretch`` and the hook had ``spent`` so much in all. Return
        whether the stretch is to be another.
        """
        self._costs.append(cost)
        self._periods.append(max(elapsed - cost, 1e-9) / stretch)
        if self.most is None or spent < _ALLOWANCE or len(self._costs) < _KEPT:
            return False
        needed = self._needed(self.most)
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
