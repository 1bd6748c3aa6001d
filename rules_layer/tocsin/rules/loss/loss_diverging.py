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
    measured,
    register,
    violation,
)
from tocsin.rules._advice import SMALLER_ETA
from tocsin.rules._series import Direction, Point, measured_cost
from tocsin.rules._window import (
    Memory,
    another_series_fell,
    appended,
    as_numbers,
    first_finite,
    half_range,
    level,
    smaller,
)
from tocsin.rules.loss._losses import judge_losses, loss_reads
from tocsin.rules.loss._unbounded import FAR, falls_without_bound, marked

_NOT_FINITE = 3  # saves in a row


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

    * All of them are above ``factor`` times the first ``window`` saves.
    * All of them are above ``factor`` times the first three saves, or every save since the first is
      above ``factor`` times the first. The rise must exceed ``noise`` times half the range of the
      last saves, so the noise of single samples does not fire.
    * All of them are more than ``comeback`` times the best median so far, and above 80 % of the
      first saves again.
    * The last three saves are not finite.
    * It is far below 0 and falls ever faster: 30 times the first saves, growing by at least 60 %
      each of the last two times that the number of saves doubled. Below 1000 times the first three
      saves, 10 % in the last fifth of all saves is enough. A loss with the wrong sign does this; a
      likelihood slows down.

    Does not fire while another loss of the run has fallen: competing losses (a GAN's) fall in
    turns. A loss resolves when it falls below its start again: a part of it may have been phased
    in, such as a weighted divergence.

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
        "Lower the learning rate by a factor of 3 to 10, warm it up, clip gradients, and look at "
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
        after = appended(memory, cost, self.window, self.window)
        now, is_full = level(after["last"]), len(after["last"]) == self.window
        if is_full:
            after["best"] = smaller(memory.get("best"), now)
        if memory and (number := after["last"][-1]) is not None:
            after["least"] = min(number, memory.get("least", number))
        after["marks"] = marked(memory.get("marks", {}), now)
        if is_full:
            risen = memory.get("risen", False) or self._rise(after).found
            after["risen"] = risen and not now < first_finite(after)
            after["unbounded"] = memory.get("unbounded", False) or _falls_far(after, now)
        return after

    def _rise(self, memory: Memory) -> _Rise:
        last, begun = as_numbers(memory["last"]), as_numbers(memory["first"])
        first, best = first_finite(memory), memory["best"]
        lowest, top, top_at_first = min(last), max(begun), max(begun[:3])
        grown = lowest > _times(top, self.factor)
        above = lowest > _times(top_at_first, self.factor)
        least = memory.get("least", -math.inf)  # of all but the very first
        jumped = above or least > _times(first, self.factor)
        jumped = jumped and level(last) - first > self.noise * half_range(memory["last"])
        back = best is not None and lowest > self.comeback * best > 0
        back = back and lowest > 0.8 * top
        limit = _times(top if grown or not above else top_at_first, self.factor)
        if jumped and not (grown or above):
            lowest, limit = least, _times(first, self.factor)
        found = grown or jumped or back
        if back and not (grown or jumped):
            limit = self.comeback * (best or 0.0)
        return _Rise(found, back, lowest, limit)

    def _judge(self, _: State, series: State, point: Point) -> Verdict:
        memory, name = series[point.key], point.tensor.name
        last, begun = memory["last"], memory["first"]
        if last[-_NOT_FINITE:] == [None] * _NOT_FINITE:
            detail = f"{name} is {point.value} and was not finite for {_NOT_FINITE} saves"
            return violation(Reason.NOT_FINITE, detail, point.tensor, loss=point.value)
        if len(last) < self.window:
            return UNDECIDED
        now, first, best = level(last), first_finite(memory), memory["best"]
        size = max(abs(each) for each in as_numbers(begun))
        is_loss = point.cost == point.value  # a metric that should rise may rise as it likes
        if is_loss and _falls_far(memory, now):
            detail = (
                f"the median of {self.window} saves of {name} is {now:.3g} and still falls as "
                f"fast as before; it started at {first:.3g}"
            )
            found = violation(Reason.BELOW_THRESHOLD, detail, point.tensor, loss=now, first=first)
            return measured(found, now, -FAR * size, "below")
        rise = self._rise(memory)
        before = memory.get("risen") or (is_loss and memory.get("unbounded"))
        if another_series_fell(series, point.key) or not (rise.found or before):
            return measured_cost(HEALTHY, point, rise.lowest, rise.limit)
        if not rise.found:
            return UNDECIDED
        came_back, sign = rise.back and best < first, -1.0 if point.rises else 1.0
        now, first = sign * now, sign * first
        detail = (
            f"the median of {self.window} saves of {name} is {now:.3g}; it started at {first:.3g}"
        )
        if came_back:
            detail += f" and had {'risen' if point.rises else 'fallen'} to {sign * best:.3g}"
        found = violation(Reason.INCREASING, detail, point.tensor, loss=now, first=first)
        return measured_cost(found, point, rise.lowest, rise.limit, "lowest_lately")


def _falls_far(memory: Memory, now: float) -> bool:
    sizes = [abs(each) for each in as_numbers(memory["first"])]
    return now < 0 and falls_without_bound(memory["marks"], max(sizes), max(sizes[:3]))


def _times(number: float, factor: float) -> float:
    """Return ``factor`` times a loss, or for a loss below 0, what is as much worse."""
    return number + (factor - 1) * abs(number)
