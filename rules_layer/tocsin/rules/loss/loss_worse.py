from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import Meta, Reads, Rule, State, Step, register
from tocsin.rules._advice import SMALLER_ETA
from tocsin.rules._curve import Memory
from tocsin.rules._series import Direction, Point, measured_cost
from tocsin.rules._sketch import largest_excursion, medians, noise, sketched
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, violation
from tocsin.rules._window import in_digits, rounded
from tocsin.rules.loss._losses import (
    NOT_FINITE,
    had_reached,
    judge_losses,
    loss_reads,
    lost_for_good,
)

_BLOCKS = 24  # complete ones before judging
_TOGETHER = 0.06  # of the blocks, which are judged together
_IN_A_ROW = 3  # blocks that end worse
_SIGNS = 8  # changes of sign of a loss that has no level
_LARGEST = 1e300  # sums of larger losses are not finite
_FAST_SAVES, _FAST_TIMES = 5, 10.0  # consecutive saves above the best, and their distance in ranges
_WITHOUT_END = 0.9  # share of the improvement, for a loss below zero
_NOTICED = 0.01  # of the level: a smaller rise does not count,
_LEARNED = 20.0  # fall in multiples of the noise from which even small rises count

_Compared = tuple[bool, float, float]
"""A comparison of the end of a loss with its best: worse or not, the end, the limit."""


@register
@dataclass(frozen=True)
class LossWorse(Rule):
    """The loss has become worse and stays worse.

    Summarises each training loss over the whole run in at most 64 blocks. Fires when, in three
    consecutive blocks, the last 6 % of them are above the best part so far. The rise must exceed
    ``noises`` times the noise, 1.5 times the largest rise before the best, and the share ``lost``
    of what had been learned (90 % below 0). A loss that never fell must be above its start and
    above 90 % of all earlier saves. Also fires when five consecutive saves are above the best by
    ten times the whole range of the loss, and when three are not finite. Ignores a loss that
    crosses zero, and all losses while one of several falls: competing losses rise in turns. Losses
    whose value does not show progress (adversarial, reinforcement, metric, ranking,
    self-supervised) are judged only if you name them.

    Parameters
    ----------
    noises: least rise, in standard deviations of the noise.
    lost: least rise, as a share of what was learned from the start to the best.
    collection_names, tensor_regex: which tensors are losses, instead of those with role loss.
    direction: ``falls`` or ``rises`` says which way is good; none decides by the name (accuracy
        rises).

    Example: a loss that falls from 2.3 to 0.4, and is 1.8 from half of the run on.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 2}
    causes: ClassVar[str] = (
        "The learning rate is or became too high, gradients explode or were not cleared, weights "
        "were initialised again, or later data is of a different kind."
    )
    advice: ClassVar[str] = (
        "Go back to the last model checkpoint before the rise. Lower the learning rate by a factor "
        "of 3 to 10 or clip gradients, and look at the batches of the steps at which it began."
    )
    advice_for_trees: ClassVar[str] = SMALLER_ETA

    noises: Annotated[float, Meta(gt=0)] = 6.0
    lost: Annotated[float, Meta(gt=0)] = 0.5
    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()
    direction: Direction | None = None

    def reads(self) -> Reads:
        return loss_reads(self)

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        return judge_losses(self, state, step, self._remembered, self._judge)

    def _remembered(self, memory: Memory, cost: float) -> Memory:
        """Add a cost to the sketch, and count the blocks in a row that end worse."""
        number = rounded(cost)
        if number is None:
            return {**memory, "not_finite": memory.get("not_finite", 0) + 1}
        number = max(-_LARGEST, min(number, _LARGEST))
        saves, last = memory.get("saves", 0), memory.get("cost", number)
        start = memory.get("start", number)
        least, most = memory.get("least", number), memory.get("most", number)
        far = saves >= _BLOCKS and number - least > _FAST_TIMES * (most - least) > 0
        after = {
            **memory,
            **sketched(memory, number),
            "not_finite": 0,
            "saves": saves + 1,
            "start": start,
            "above": memory.get("above", True) and (saves == 0 or number > start),
            "cost": number,
            "signs": min(_SIGNS + 1, memory.get("signs", 0) + (number * last < 0)),
            "far": memory.get("far", 0) + 1 if far else 0,
        }
        if not far:
            after |= {"least": min(least, number), "most": max(most, number)}
        if after["open"] is None and len(after["blocks"]) >= _BLOCKS:
            worse, now, limit = self._end(after["blocks"])
            if not worse and (diverged := self._start(after))[0]:
                worse, now, limit = diverged
            after["worse"] = memory.get("worse", 0) + 1 if worse else 0
            after["end"] = [rounded(now), rounded(limit)]
        return after

    def _end(self, blocks: list[float]) -> _Compared:
        """Compare the last blocks with the best part so far."""
        together = math.ceil(_TOGETHER * len(blocks))
        courses = medians(blocks, together)
        at = courses.index(min(courses[:-1]))
        best, start, end = courses[at], courses[0], blocks[-together:]
        now = sorted(end)[min(1, len(end) - 1)]  # all but one are at least as high
        deviation = max(noise(medians(blocks, together, together)), noise(blocks))
        rise = self.noises * deviation / math.sqrt(together)
        if at == 0:  # it never fell
            before = sorted(blocks[:-together])
            usual = before[int(0.9 * len(before))]
            rise = max(rise, _NOTICED * abs(start))
            return now - start > rise and now > usual, now, max(start + rise, usual)
        rise = max(rise, 1.5 * largest_excursion(courses[: at + 1]))
        named = bool(self.collection_names or self.tensor_regex)
        share = self.lost if best >= 0 or named else max(self.lost, _WITHOUT_END)
        lost = share * (start - best)
        if start - best < _LEARNED * deviation:
            rise = max(rise, _NOTICED * abs(best))
        return now - best > rise and now - best >= lost, now, best + max(rise, lost)

    def _start(self, memory: Memory) -> _Compared:
        """Compare with the very first value: a loss that diverged at once never recovered."""
        blocks, start = memory["blocks"], memory["start"]
        now = min(blocks[-_IN_A_ROW:])
        one_save = noise(blocks) * math.sqrt(memory["width"])  # as the first save is
        rise = max(self.noises * one_save, _NOTICED * abs(start))
        return bool(memory["above"] and now - start > rise), now, start + rise

    def _judge(self, _: State, series: State, point: Point) -> Verdict:
        memory, name = series[point.key], point.tensor.name
        if memory["not_finite"] >= NOT_FINITE:
            return lost_for_good(point)
        if memory.get("saves", 0) < _BLOCKS:
            return UNDECIDED
        bad = memory.get("worse", 0) >= _IN_A_ROW or memory["far"] >= _FAST_SAVES
        if not bad:
            return _measured(HEALTHY, point, memory)
        if memory["signs"] > _SIGNS or _competes(series, point.key):
            return HEALTHY
        blocks = memory["blocks"]
        best, start = min(medians(blocks, 3)), median(blocks[:3])
        if memory["above"]:
            start = memory["start"]
        now = memory["cost"] if memory["far"] else median(blocks[-3:])
        what = "diverged" if now >= start else "got worse"
        improved, sign = best < start, -1.0 if point.rises else 1.0
        now, start, best = sign * now, sign * start, sign * best
        is_now, at_start, at_best = in_digits(now, start, best)
        detail = f"{name} {what}: it is {is_now}; it started at {at_start}"
        if improved:
            detail += had_reached(point, at_best)
        evidence = {"loss": now, "best": best, "first": start}
        return _measured(
            violation(Reason.INCREASING, detail, point.tensor, **evidence), point, memory
        )


def _measured(verdict: Verdict, point: Point, memory: Memory) -> Verdict:
    """Add the loss and its limit: of this save if it is far above, else of the last blocks."""
    now, limit = memory.get("end", (None, None))
    if memory["far"] >= _FAST_SAVES:
        least, most = memory["least"], memory["most"]
        now, limit = memory["cost"], least + _FAST_TIMES * (most - least)
    if now is None or limit is None:
        return verdict
    return measured_cost(verdict, point, now, limit, "loss")


def _competes(series: State, key: str) -> bool:
    """Return whether another loss may compete: by an adversarial name, or because it has fallen."""
    others = (memory for other, memory in series.items() if other != key)
    return any(map(_has_fallen, others))


def _has_fallen(memory: Memory) -> bool:
    blocks = memory.get("blocks", ())
    if len(blocks) < _BLOCKS:
        return False
    start, now = median(blocks[:3]), median(blocks[-3:])
    return bool(now <= start - 0.1 * abs(start))
