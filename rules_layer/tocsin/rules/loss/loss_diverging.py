from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import Meta, Reads, Rule, State, Step, register
from tocsin.rules._advice import SMALLER_ETA
from tocsin.rules._curve import Memory, another_fell, better, curve, with_cost
from tocsin.rules._series import Direction, Point, measured_cost
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, violation
from tocsin.rules._window import as_numbers, half_range, rounded
from tocsin.rules.loss._losses import (
    NOT_FINITE,
    had_reached,
    judge_losses,
    loss_reads,
    lost_for_good,
)
from tocsin.rules.loss._unbounded import FAR, falls_without_bound, marked


@dataclass(frozen=True)
class _Rise:
    """The rise of a loss, perhaps ``back`` to its start; the least of its last saves, and its
    limit."""

    found: bool
    back: bool
    lowest: float
    limit: float


@register
@dataclass(frozen=True)
class LossDiverging(Rule):
    """The loss grows instead of falling, or falls without bound.

    Judges the last ``window`` saves of each training loss together, so a spike does not fire. Fires
    in any of these cases:

    * All are above ``factor`` times the first ``window`` saves; or above ``factor`` times the first
      three, or the first one since, by more than ``noise`` times half their range.
    * All are more than ``comeback`` times the best median so far, and back at 80 % of the first
      saves.
    * The last three saves are not finite.
    * The loss is below -30 times its first saves and falls ever faster: the sign is wrong. The
      fall of a log-likelihood would slow down.

    Does not fire while another loss of the run has fallen: competing losses (a GAN's) fall in
    turns. Resolves when the loss is below its start again.

    Parameters
    ----------
    window: number of saves that are judged together.
    factor: a loss above this multiple of the first loss is too large.
    comeback: a loss above this multiple of its best is too large if it is back at its start.
    noise: least rise from the first loss, in multiples of half the range of the last saves.
    collection_names, tensor_regex: which tensors are losses, instead of those with role loss.
    direction: ``falls`` or ``rises`` says which way is good; none decides by the name (accuracy
        rises).

    Example: a loss of 2.6 that is about 20 from the second save on.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 2, "resolve": 3}
    causes: ClassVar[str] = (
        "The learning rate is too high for the model, or too high at the end of its warm-up; "
        "gradients explode; or the sign of the loss or of the update is wrong."
    )
    advice: ClassVar[str] = (
        "If the loss falls below 0 without bound, check its sign and those of its terms. Otherwise "
        "lower the learning rate by a factor of 3 to 10, warm it up, clip gradients, and look at "
        "the batches of the steps at which the loss began to rise."
    )
    advice_for_trees: ClassVar[str] = SMALLER_ETA

    window: Annotated[int, Meta(ge=4, le=32)] = 8
    factor: Annotated[float, Meta(gt=1)] = 3.0
    comeback: Annotated[float, Meta(gt=1)] = 5.0
    noise: Annotated[float, Meta(ge=0)] = 3.0
    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()
    direction: Direction | None = None

    def reads(self) -> Reads:
        return loss_reads(self)

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        return judge_losses(self, state, step, self._remembered, self._judge)

    def _remembered(self, memory: Memory, cost: float) -> Memory:
        after = with_cost(memory, cost, self.window, self.window)
        now = curve(after).now
        after["marks"] = marked(memory.get("marks", {}), now)
        if memory and (number := rounded(cost)) is not None:
            after["least"] = min(number, memory.get("least", number))
        if len(after["last"]) == self.window:
            after["best"] = better(memory.get("best"), now)
            risen = memory.get("risen", False) or self._rise(after).found
            after["risen"] = risen and not now < curve(after).start
            after["unbounded"] = memory.get("unbounded", False) or _falls_far(after, now)
        return after

    def _rise(self, memory: Memory) -> _Rise:
        loss = curve(memory)
        least = memory.get("least", -math.inf)  # of all but the very first
        lowest, best = loss.lowest, loss.best
        whole, early = loss.highest_of_first(), loss.highest_of_first(3)
        grown, above = lowest > _times(whole, self.factor), lowest > _times(early, self.factor)
        clear = loss.now - loss.start > self.noise * half_range(loss.last)
        back = best is not None and lowest > self.comeback * best > 0 and lowest > 0.8 * whole
        if grown or (above and clear):
            return _Rise(True, back, lowest, _times(whole if grown else early, self.factor))
        if clear and least > _times(loss.start, self.factor):
            return _Rise(True, back, least, _times(loss.start, self.factor))
        if back:
            return _Rise(True, True, lowest, self.comeback * (best or 0.0))
        return _Rise(False, False, lowest, _times(early if above else whole, self.factor))

    def _judge(self, _: State, series: State, point: Point) -> Verdict:
        memory, name = series[point.key], point.tensor.name
        last, loss = memory["last"], curve(memory)
        if last[-NOT_FINITE:] == [None] * NOT_FINITE:
            return lost_for_good(point)
        if len(last) < self.window:
            return UNDECIDED
        now, first, best = loss.now, loss.start, loss.best
        is_loss = point.cost == point.value  # a metric that should rise may rise as it likes
        if is_loss and _falls_far(memory, now):
            detail = (
                f"the median of {self.window} saves of {name} is {now:.3g} and still falls as "
                f"fast as before; it started at {first:.3g}: the sign of the loss or of one of its "
                "terms is wrong, or nothing bounds it below"
            )
            found = violation(Reason.BELOW_THRESHOLD, detail, point.tensor, loss=now, first=first)
            return measured(found, now, -FAR * max(_sizes(memory)), "below")
        rise = self._rise(memory)
        before = memory.get("risen") or (is_loss and memory.get("unbounded"))
        if not (rise.found or before) or another_fell(series, point.key):
            return measured_cost(HEALTHY, point, rise.lowest, rise.limit)
        if not rise.found:
            return UNDECIDED
        had_fallen = best if rise.back and best is not None and best < first else None
        sign = -1.0 if point.rises else 1.0
        now, first = sign * now, sign * first
        detail = (
            f"the median of {self.window} saves of {name} is {now:.3g}; it started at {first:.3g}"
        )
        if had_fallen is not None:
            detail += had_reached(point, f"{sign * had_fallen:.3g}")
        found = violation(Reason.INCREASING, detail, point.tensor, loss=now, first=first)
        return measured_cost(found, point, rise.lowest, rise.limit, "lowest_lately")


def _falls_far(memory: Memory, now: float) -> bool:
    if now >= 0:
        return False
    sizes = _sizes(memory)
    return falls_without_bound(memory["marks"], max(sizes), max(sizes[:3]))


def _sizes(memory: Memory) -> list[float]:
    return [abs(each) for each in as_numbers(memory["first"])]


def _times(number: float, factor: float) -> float:
    """Return ``factor`` times a loss, or for a loss below 0, what is as much worse."""
    return number + (factor - 1) * abs(number)
