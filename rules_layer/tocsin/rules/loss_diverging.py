"""LossDiverging."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import (
    HEALTHY,
    UNDECIDED,
    Meta,
    Reads,
    Rule,
    State,
    Step,
    register,
    violation,
)
from tocsin.rules._series import LOSSES, Direction, Point
from tocsin.rules._window import (
    Memory,
    another_fell,
    each_in_training,
    extended,
    known,
    level,
    lowered,
    reach,
    rounded,
    start,
)

_LOST = 3  # saves in a row that are not finite


@register
@dataclass(frozen=True)
class LossDiverging(Rule):
    """The loss grows instead of falling.

    Judges the last ``window`` saves of each training loss together, so a spike does not count.
    Fires when all of them are above ``factor`` times the first saves: the first ``window``, or the
    first three (or the first alone, if every save since is above it) where the rise is ``noise``
    times half the range of the last saves, so the noise of single samples does not count. Also
    fires when the loss had come down, by its best median, to ``1 / comeback`` of its value now and
    is back above 80 % of its start, and after three saves in a row that are not finite. Does not
    fire while another loss of the run has fallen: competing losses (a GAN's) take turns.

    Parameters
    ----------
    window: saves that are judged together; nothing is judged before there are as many.
    factor: how many times the first loss is too much.
    comeback: how many times the best is too much for a loss that is back at its start.
    noise: least rise over the first loss, in half ranges.
    collection_names, tensor_regex: which tensors are losses, instead of those with role loss.
    direction: falls or rises says what is good; none goes by the name (accuracy rises).

    Example: a loss of 2.6 that is about 20 from the second save on.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 2}
    inhibits: ClassVar[tuple[str, ...]] = ("LossTooGoodTooSoon", "Overfit", "Overtraining")
    causes: ClassVar[str] = (
        "The learning rate is too high for the model or ends its warm-up too high, gradients "
        "explode, or the sign of the loss or of the update is wrong."
    )
    advice: ClassVar[str] = (
        "Lower the learning rate by a factor of 3 to 10, warm it up, clip gradients, and look at "
        "the batches of the first steps that rose."
    )

    window: Annotated[int, Meta(ge=4, le=32)] = 8
    factor: Annotated[float, Meta(gt=1)] = 3.0
    comeback: Annotated[float, Meta(gt=1)] = 5.0
    noise: Annotated[float, Meta(ge=0)] = 3.0
    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()
    direction: Direction | None = None

    def reads(self) -> Reads:
        return Reads({"losses": LOSSES.explicitly(self.collection_names, self.tensor_regex)})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        losses, direction = step.tensors["losses"], self.direction
        return each_in_training(state, step, losses, self._remembered, self._judge, direction)

    def _remembered(self, memory: Memory, cost: float) -> Memory:
        after = extended(memory, cost, self.window, self.window)
        if len(after["last"]) == self.window:
            after["best"] = lowered(memory.get("best"), level(after["last"]))
        if memory and (number := rounded(cost)) is not None:
            after["least"] = min(number, memory.get("least", number))
        return after

    def _judge(self, _: State, series: State, point: Point) -> Verdict:
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
    """The loss that is ``factor`` times as bad, for losses below 0, too."""
    return number + (factor - 1) * abs(number)
