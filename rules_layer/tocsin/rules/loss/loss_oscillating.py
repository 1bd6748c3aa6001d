from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Severity, Verdict
from tocsin.rules import Meta, Reads, Rule, State, Step, register
from tocsin.rules._advice import SMALLER_ETA
from tocsin.rules._curve import Memory, another_fell, curve, with_cost
from tocsin.rules._series import Direction, Point
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, violation
from tocsin.rules._window import half_range, quantile
from tocsin.rules.loss._losses import judge_all_losses, loss_reads

_CROSSINGS = 5  # of the median: fewer are a jump or a trend


@register
@dataclass(frozen=True)
class LossOscillating(Rule):
    """The loss swings up and down instead of falling.

    The swing is the distance between the 20th and the 80th percentile of the last ``window`` saves
    of a training loss. Fires when it is at least ``amplitude`` times the first loss and more than
    ``calm`` times the range of the first saves, and the loss crossed its median five times, with a
    median not below half the first loss. So a loss that was as noisy from the start (batches of one
    sample) does not fire. Does not fire while another loss of the run has fallen: competing losses
    (a GAN's) fall in turns.

    Fires, too, when at least ``share`` of the last 1,000 steps are spikes, saved or not, in at
    least four windows of 50 steps. A spike is a loss above ten times the largest upper quartile of
    64 consecutive steps before. LossSpike reports spikes that are rarer.

    Parameters
    ----------
    window: number of saves that are judged together.
    amplitude: least swing, in units of the first loss.
    calm: least swing, as a multiple of the range of the first saves.
    share: smallest share of steps with a spike that counts as oscillating.
    collection_names, tensor_regex: which tensors are losses, instead of those with role loss.
    direction: ``falls`` or ``rises`` says which way is good; none decides by the name (accuracy
        rises).

    Example: a loss that started at 2.3 and jumps between 1 and 9.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 3}
    severity: ClassVar[Severity] = Severity.INFO
    causes: ClassVar[str] = (
        "The learning rate or the momentum is too high, so that each update overshoots; or "
        "batches differ widely, for example because the data is sorted."
    )
    advice: ClassVar[str] = (
        "Lower the learning rate by a factor of 3 to 10, use larger batches or accumulate "
        "gradients, and shuffle the data."
    )
    advice_for_trees: ClassVar[str] = SMALLER_ETA

    window: Annotated[int, Meta(ge=10, le=48)] = 20
    amplitude: Annotated[float, Meta(gt=0)] = 1.0
    calm: Annotated[float, Meta(ge=0)] = 3.0
    share: Annotated[float, Meta(gt=0, le=1)] = 0.1
    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()
    direction: Direction | None = None

    def reads(self) -> Reads:
        return loss_reads(self, between=True)

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        return judge_all_losses(self, state, step, self._remembered, self._judge)

    def _remembered(self, memory: Memory, cost: float) -> Memory:
        return with_cost(memory, cost, self.window // 2, self.window)

    def _judge(self, _: State, series: State, point: Point) -> Verdict:
        memory = series[point.key]
        last = [number for number in memory["last"] if number is not None]
        if len(last) < self.window:  # LossDiverging judges losses that are not finite
            return UNDECIDED
        first = curve(memory).start
        low, middle, high = (quantile(last, q) for q in (0.2, 0.5, 0.8))
        swing = high - low
        begun = 2 * half_range(memory["first"])
        large = swing >= self.amplitude * abs(first) and swing > self.calm * begun
        limit = max(self.amplitude * abs(first), self.calm * begun)
        healthy = measured(HEALTHY, swing, limit)
        poor = middle >= first - abs(first) / 2
        if not (large and poor and _crossings(last, middle) >= _CROSSINGS):
            return healthy
        if another_fell(series, point.key):
            return healthy
        name = point.tensor.name
        detail = f"{name} swings between {low:.3g} and {high:.3g}; it started at {first:.3g}"
        evidence = {"swing": swing, "first": first, "median": middle}
        found = violation(Reason.OSCILLATING, detail, point.tensor, **evidence)
        return measured(found, swing, limit)


def _crossings(numbers: list[float], middle: float) -> int:
    """Count how often the series goes from one side of ``middle`` to the other."""
    above = [number > middle for number in numbers]
    return sum(one is not other for one, other in pairwise(above))
