"""The curve of a loss: its start, its level now, its noise and its best, from a short memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from tocsin.model import Mode
from tocsin.rules._rule import State
from tocsin.rules._window import Window, as_numbers, half_range, level, median_deviation, rounded

_LEFT = 0.02  # of its start, by which a cost must have fallen
_BY_NOISE = 3.0  # times half the range of the first or the last costs

Memory = Mapping[str, Any]
"""The memory of a loss in a state: ``first`` and ``last``, windows of its costs; ``best``; and what
a rule adds."""


class Curve(msgspec.Struct, frozen=True):
    """A loss over the saves that the memory keeps. Less is better; None in a window is not finite.

    ``first``, ``last``: the oldest and the newest costs.
    ``best``: the lowest level so far; None while there is none.
    """

    first: Window
    last: Window
    best: float | None = None

    @property
    def start(self) -> float:
        """The first finite cost, or NaN."""
        return next((number for number in self.first if number is not None), math.nan)

    @property
    def begun(self) -> float:
        """The start, or the median of the first costs if it is larger: no low outlier."""
        return max(self.start, level(self.first))

    @property
    def now(self) -> float:
        """The median of the last costs; infinity counts, NaN if there is none."""
        return level(self.last)

    @property
    def lowest(self) -> float:
        """The lowest of the last costs."""
        return min(as_numbers(self.last))

    @property
    def noise(self) -> float:
        """The median absolute deviation of the last costs."""
        return median_deviation(self.last)

    def highest_of_first(self, saves: int | None = None) -> float:
        """Return the highest of the first costs, or of the given number of them."""
        return max(as_numbers(self.first[:saves]))

    def fell(self, percent: float) -> bool:
        """Return whether the level is ``percent`` % below the start."""
        return self.now <= self.start - abs(self.start) * percent / 100

    @property
    def left_its_start(self) -> bool:
        """Return whether the last costs are clearly below the first ones: by 2 % of these, and by
        three times half the range of either. They are not so far apart by chance."""
        before = level(self.first)
        noise = max(half_range(self.first), half_range(self.last))
        return before - self.now >= max(_LEFT * abs(before), _BY_NOISE * noise)


def curve(memory: Memory) -> Curve:
    """Return the curve in a memory."""
    return Curve(memory.get("first", ()), memory.get("last", ()), memory.get("best"))


def with_cost(memory: Memory, cost: float, first: int, last: int) -> dict[str, Any]:
    """Add a cost to a memory, which keeps the ``first`` oldest and the ``last`` newest costs."""
    number = rounded(cost)
    begun: Window = memory.get("first", ())
    return {
        **memory,
        "first": [*begun, number] if len(begun) < first else begun,
        "last": [*memory.get("last", ()), number][-last:],
    }


def better(best: float | None, number: float) -> float | None:
    """Return the smaller of two numbers, rounded; None if neither is finite."""
    return rounded(number if best is None else min(best, number))


def another_fell(state: State, key: str, percent: float = 10.0) -> bool:
    """Return whether another loss has fallen by ``percent`` % since its start.

    Then the losses may compete, as in a GAN or with weighted terms, and one of them may rise.
    """
    return any(curve(memory).fell(percent) for other, memory in state.items() if other != key)


def any_moved(state: State) -> bool:
    """Return whether a loss ``fell``, or one of several training losses ``rose``: they may be
    rivals.
    """
    trained = [memory for key, memory in state.items() if not key.startswith(Mode.EVAL.name)]
    rose = len(trained) > 1 and any(memory.get("rose") for memory in trained)
    return rose or any(memory.get("fell") for memory in state.values())
