"""The memory of a series: short windows of rounded numbers, and statistics of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from tocsin.model import Mode, Outcome, Reason, Verdict
from tocsin.rules._rule import HEALTHY, UNDECIDED, State, Step, Tensor, not_applicable
from tocsin.rules._series import MOST_SERIES, TRAINING, Direction, Point, points

Window = Sequence[float | None]
"""The newest numbers of a series, oldest first. None stands for a number that is not finite."""

Memory = Mapping[str, Any]
"""The memory of one series; ``first`` and ``last`` are windows of its costs."""


def each_in_training(
    state: State,
    step: Step,
    tensors: Iterable[Tensor],
    remember: Callable[[Memory, float], Memory],
    judge: Callable[[State, State, Point], Verdict],
    direction: Direction | None,
    noun: str = "loss",
) -> tuple[State, Verdict]:
    """Follows and judges each scalar of a training step; the worst verdict counts.

    ``remember`` adds a cost to the memory of its series. ``judge`` gets the states before and
    after this step, by the keys of points.
    """
    if step.mode not in TRAINING:
        return state, not_applicable(Reason.NO_TENSOR, f"a step of mode {step.mode.name}")
    here = list(followed(state, points(step, tensors, direction)))
    if not here:
        return state, not_applicable(Reason.NO_TENSOR, f"no {noun} whose value is known")
    new = {point.key: remember(state.get(point.key, {}), point.cost) for point in here}
    after = {**state, **new}
    return after, worst(judge(state, after, point) for point in here)


def followed(state: State, points: Iterable[Point]) -> Iterator[Point]:
    """Yields the points of series that are in the state, and of new ones while there is room."""
    room = 2 * MOST_SERIES - len(state)
    for point in points:
        if point.key not in state:
            room -= 1
            if room < 0:
                continue
        yield point


def rounded(number: float) -> float | None:
    """To six digits, as a state keeps it; None if it is not finite."""
    return float(f"{number:.6g}") if math.isfinite(number) else None


def lowered(best: float | None, number: float) -> float | None:
    """The smaller of the two, rounded; None: neither is finite."""
    return rounded(number if best is None else min(best, number))


def extended(memory: Memory, cost: float, first: int, last: int) -> dict[str, Any]:
    """The memory with one more cost; it keeps the ``first`` oldest and the ``last`` newest."""
    number = rounded(cost)
    begun: Window = memory.get("first", ())
    return {
        **memory,
        "first": [*begun, number] if len(begun) < first else begun,
        "last": [*memory.get("last", ()), number][-last:],
    }


def known(window: Window) -> list[float]:
    """The window with infinity in place of None."""
    return [math.inf if number is None else number for number in window]


def level(window: Window) -> float:
    """The median, where None counts as infinitely large. NaN for an empty window."""
    return median(known(window)) if window else math.nan


def spread(window: Window) -> float:
    """The median distance from the median, over finite numbers: 0 without noise."""
    numbers = [number for number in window if number is not None]
    middle = median(numbers or [0.0])
    return median([abs(number - middle) for number in numbers] or [0.0])


def reach(window: Window) -> float:
    """Half the distance from the smallest to the largest, over finite numbers."""
    numbers = [number for number in window if number is not None]
    return max(numbers) / 2 - min(numbers) / 2 if numbers else 0.0


def start(memory: Memory) -> float:
    """The first finite cost, else NaN."""
    return next((number for number in memory["first"] if number is not None), math.nan)


def another_fell(state: State, key: str, percent: float = 10.0) -> bool:
    """Whether another series is ``percent`` % below its start. Then the losses compete, as in a GAN
    or with weighted terms, and one of them may rise.
    """
    return any(
        level(memory["last"]) <= start(memory) - abs(start(memory)) * percent / 100
        for other, memory in state.items()
        if other != key
    )


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on several series: the violation with the largest first number, else HEALTHY if
    one of them is.
    """
    said = list(verdicts)
    violations = [verdict for verdict in said if verdict.violation]
    if violations:
        return max(violations, key=_gravity)
    return HEALTHY if any(verdict.outcome is Outcome.HEALTHY for verdict in said) else UNDECIDED


def _gravity(verdict: Verdict) -> float:
    number = next(iter(verdict.evidence.values()), 0.0)
    return float(number) if not isinstance(number, str) and math.isfinite(number) else math.inf


def quantile(numbers: Sequence[float], q: float) -> float:
    """The number that a share ``q`` of the numbers, and at least one, does not exceed."""
    return sorted(numbers)[max(0, math.ceil(q * len(numbers)) - 1)]


def beginning(memory: Memory) -> float:
    """The first cost or the median of the first few, whichever is larger."""
    return max(start(memory), level(memory["first"]))


_BALANCED = re.compile(r"generator|discriminator|critic|adversar", re.IGNORECASE)


def in_motion(state: State) -> bool:
    """Whether some series ``fell``, or one of several in training ``rose``: competing losses (a
    GAN's) take turns. Losses that are in balance by design, known by their names, always count.
    """
    if any(map(_BALANCED.search, state)):
        return True
    trained = [memory for key, memory in state.items() if not key.startswith(Mode.EVAL.name)]
    rose = len(trained) > 1 and any(memory.get("rose") for memory in trained)
    return rose or any(memory.get("fell") for memory in state.values())


Save = Sequence[float]
"""A step and its cost."""


def typical(saves: Sequence[Save], smooth: int) -> float:
    """The median cost of the newest saves."""
    return median(cost for _, cost in saves[-smooth:])


def thinned(saves: Sequence[Save], new: Save, ends: int, apart: float) -> list[Save]:
    """``saves`` with a new one. Between the ``ends`` oldest and newest it keeps only saves that are
    ``apart`` steps after the one before.
    """
    leaves = len(saves) - ends  # the one that is no longer among the newest
    if leaves >= ends and saves[leaves][0] - saves[leaves - 1][0] < apart:
        saves = [*saves[:leaves], *saves[leaves + 1 :]]
    return [*saves, new]


def percent_down(before: float, after: float) -> float:
    """The percentage of ``before`` by which a cost fell; a change from 0 counts as 100 %."""
    if before == 0:
        return 0.0 if after == 0 else math.copysign(100.0, -after)
    return 100.0 * (before - after) / abs(before)
