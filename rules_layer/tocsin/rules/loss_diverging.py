"""LossDiverging."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
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
    Memory,
    another_fell,
    extended,
    followed,
    known,
    level,
    lowered,
    reach,
    rounded,
    start,
    worst,
)

_LOST = 3  # saves in a row that are not finite


@register
@dataclass(frozen=True)
class LossDiverging(Rule):
    """The loss grows instead of falling.

    Judges the last ``window`` saves of each training loss, all of them, so a spike does not count.
    Fires when they are above ``factor`` times the first saves: all of the first ``window``, or the
    first three (or every save since the first is above the first alone) where the rise is
    ``noise`` times half the range of the last, so the noise of single samples does not count.
    Also when the loss had come down, by its best median, to a part ``1 / comeback`` of what it is
    now and is back above 80 % of its start; and after three saves in a row that are not finite.
    It stays quiet while another loss of the run has fallen: losses that pull against each other
    (a GAN's) take turns.

    Parameters
    ----------
    window: saves that are judged together, 4 to 32; nothing is judged before there are so many.
    factor: how many times the first loss is too much, above 1.
    comeback: how many times the best is too much for a loss that is back at its start, above 1.
    noise: least rise over the first loss, in half ranges, from 0.
    collection_names, tensor_regex: which tensors are losses, instead of those with role loss.
    direction: falls or rises says what is good; none goes by the name (accuracy rises).

    Example: a loss of 2.6 that is about 20 from the second save on.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 2}
    causes: ClassVar[str] = (
        "The learning rate is too high for the model or ends its warm-up too high, gradients "
        "explode, or the sign of the loss or of the update is wrong."
    )
    advice: ClassVar[str] = (
        "Lower the learning rate by a factor of 3 to 10, warm it up, clip gradients, and look at "
        "the batches of the first steps that rose."
    )

    window: int = 8
    factor: float = 3.0
    comeback: float = 5.0
    noise: float = 3.0
    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()
    direction: Direction | None = None

    def __post_init__(self) -> None:
        if not 4 <= self.window <= 32:
            raise ValueError(f"window is {self.window}, but must be from 4 to 32")
        for name in ("factor", "comeback"):
            if not 1 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}, but must be above 1")
        if not 0 <= self.noise < math.inf:
            raise ValueError(f"noise is {self.noise}, but must be a number from 0")

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
            series[point.key] = self._remembered(state.get(point.key, {}), point.cost)
        return series, worst(self._judge(series, point) for point in here)

    def _remembered(self, memory: Memory, cost: float) -> Memory:
        after = extended(memory, cost, self.window, self.window)
        if len(after["last"]) == self.window:
            after["best"] = lowered(memory.get("best"), level(after["last"]))
        if memory and (number := rounded(cost)) is not None:
            after["least"] = min(number, memory.get("least", number))
        return after

    def _judge(self, series: State, point: Point) -> Verdict:
        memory, name = series[point.key], point.tensor.name
        last, begun = memory["last"], memory["first"]
        if last[-_LOST:] == [None] * _LOST:
            detail = f"{name} is {point.value} and was not finite for {_LOST} saves"
            return violation(Reason.NOT_FINITE, detail, point.tensor, loss=point.value)
        if len(last) < self.window:
            return UNDECIDED
        now, first, best = level(last), start(memory), memory["best"]
        lowest = min(known(last))
        grown = lowest > _times(max(known(begun)), self.factor)
        above = lowest > _times(max(known(begun[:3])), self.factor)
        above = above or memory.get("least", -math.inf) > _times(first, self.factor)
        jumped = above and now - first > self.noise * reach(last)
        back = best is not None and lowest > self.comeback * best > 0
        back = back and lowest > 0.8 * max(known(begun))
        if not (grown or jumped or back) or another_fell(series, point.key):
            return HEALTHY
        detail = (
            f"{name} is {now:.3g} by the median of {self.window} saves; it began at {first:.3g}"
        )
        if back and best < first:
            detail += f" and had come down to {best:.3g}"
        return violation(Reason.INCREASING, detail, point.tensor, loss=now, first=first)


def _times(number: float, factor: float) -> float:
    """What is ``factor`` times as bad, of a loss below 0, too."""
    return number + (factor - 1) * abs(number)
