"""LossOscillating."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules._registry import register
from tocsin.rules._rule import (
    HEALTHY,
    UNDECIDED,
    Reads,
    Rule,
    State,
    Step,
    not_applicable,
    violation,
)
from tocsin.rules._series import LOSSES, Direction, Point, points
from tocsin.rules._window import (
    TRAINING,
    another_fell,
    extended,
    followed,
    quantile,
    reach,
    start,
    worst,
)

_CROSSINGS = 5


@register
@dataclass(frozen=True)
class LossOscillating(Rule):
    """The loss swings up and down instead of falling.

    Judges the last ``window`` saves of each training loss. The swing is the distance between
    their 20th and 80th percentile. Fires when it is ``amplitude`` times the first loss and
    ``calm`` times the range of the run's first saves (half a window of them), the loss crossed
    its median at least five times, and the median is not below half the first loss. So a loss
    that was as restless from the beginning does not fire (single samples; a loss that is thrown
    up at once is LossDiverging's), nor one that swings while another loss of the run has fallen
    (a GAN's).

    Parameters
    ----------
    window: saves that are judged together, 10 to 48.
    amplitude: least swing, in units of the first loss, above 0.
    calm: least swing, in ranges of the first saves, from 0.
    collection_names, tensor_regex: which tensors are losses, instead of those with role loss.
    direction: falls or rises says what is good; none goes by the name (accuracy rises).

    Example: a loss that began at 2.3 and keeps jumping between 1 and 9.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 3}
    causes: ClassVar[str] = (
        "The learning rate or the momentum is too high, so that each update overshoots; or "
        "batches differ widely, for example because the data is sorted."
    )
    advice: ClassVar[str] = (
        "Lower the learning rate by a factor of 3 to 10, use larger batches or accumulate "
        "gradients, and shuffle the data."
    )

    window: int = 20
    amplitude: float = 1.0
    calm: float = 3.0
    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()
    direction: Direction | None = None

    def __post_init__(self) -> None:
        if not 10 <= self.window <= 48:
            raise ValueError(f"window is {self.window}, but must be from 10 to 48")
        if not 0 < self.amplitude < math.inf:
            raise ValueError(f"amplitude is {self.amplitude}, but must be a number above 0")
        if not 0 <= self.calm < math.inf:
            raise ValueError(f"calm is {self.calm}, but must be a number from 0")

    def reads(self) -> Reads:
        return Reads({"losses": LOSSES.explicitly(self.collection_names, self.tensor_regex)})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if step.mode not in TRAINING:
            return state, not_applicable(Reason.NO_TENSOR, f"a step of mode {step.mode.name}")
        here = list(followed(state, points(step, step.tensors["losses"], self.direction)))
        if not here:
            return state, not_applicable(Reason.NO_TENSOR, "no loss whose value is known")
        series = dict(state)
        for point in here:
            memory = state.get(point.key, {})
            series[point.key] = extended(memory, point.cost, self.window // 2, self.window)
        return series, worst(self._judge(series, point) for point in here)

    def _judge(self, series: State, point: Point) -> Verdict:
        memory = series[point.key]
        last = [number for number in memory["last"] if number is not None]
        if len(last) < self.window:  # what is not finite is LossDiverging's
            return UNDECIDED
        first = start(memory)
        low, middle, high = (quantile(last, q) for q in (0.2, 0.5, 0.8))
        swing = high - low
        begun = 2 * reach(memory["first"])
        large = swing >= self.amplitude * abs(first) and swing > self.calm * begun
        poor = middle >= first - abs(first) / 2
        if not (large and poor and _crossings(last, middle) >= _CROSSINGS):
            return HEALTHY
        if another_fell(series, point.key):
            return HEALTHY
        detail = (
            f"{point.tensor.name} swings between {low:.3g} and {high:.3g}; it began at {first:.3g}"
        )
        evidence = {"swing": swing, "first": first, "median": middle}
        return violation(Reason.OSCILLATING, detail, point.tensor, **evidence)


def _crossings(numbers: list[float], middle: float) -> int:
    """How often the series goes from one side of ``middle`` to the other."""
    above = [number > middle for number in numbers]
    return sum(one is not other for one, other in pairwise(above))
