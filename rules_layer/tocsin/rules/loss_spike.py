"""LossSpike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

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
from tocsin.rules._window import TRAINING, Memory, extended, followed, level, rounded, spread, worst


@register
@dataclass(frozen=True)
class LossSpike(Rule):
    """The loss has jumped far above everything before.

    Judges each save of a training loss against the median of the ``window`` saves before it.
    Fires when it is above by ``ratio - 1`` times that median, by ``z`` times their median
    absolute deviation, and by ``record`` times the distance from the median to the highest loss
    seen so far. That last condition tells a bad batch from the noise of small batches and from
    learning-rate restarts; 0 turns it off for losses whose spikes stay below the beginning. A loss
    that is not finite is ExplodingTensor's.

    Parameters
    ----------
    window: saves before, of which the level is the median, 8 to 48.
    ratio: how many times the level is too much, above 1.
    z: least jump, in median absolute deviations, from 0.
    record: least jump, in units of the highest loss so far above the level, from 0.
    collection_names, tensor_regex: which tensors are losses, instead of those with role loss.
    direction: falls or rises says what is good; none goes by the name (accuracy rises).

    Example: a loss of 0.3 that began at 2.3 and is 40 at one save.
    """

    causes: ClassVar[str] = (
        "A batch with corrupt or mislabelled samples, a learning rate or mixed-precision scale "
        "at the edge of what is stable, or a checkpoint that was restored in part."
    )
    advice: ClassVar[str] = (
        "Look at the batch of this step, clip gradients, and compare the losses after it with "
        "those before: if they stay high, go back to an earlier checkpoint."
    )

    window: int = 12
    ratio: float = 3.0
    z: float = 10.0
    record: float = 6.0
    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()
    direction: Direction | None = None

    def __post_init__(self) -> None:
        if not 8 <= self.window <= 48:
            raise ValueError(f"window is {self.window}, but must be from 8 to 48")
        if not 1 < self.ratio < math.inf:
            raise ValueError(f"ratio is {self.ratio}, but must be a number above 1")
        for name in ("z", "record"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}, but must be a number from 0")

    def reads(self) -> Reads:
        return Reads({"losses": LOSSES.explicitly(self.collection_names, self.tensor_regex)})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if step.mode not in TRAINING:
            return state, not_applicable(Reason.NO_TENSOR, f"a step of mode {step.mode.name}")
        series = dict(state)
        verdicts = []
        for point in followed(state, points(step, step.tensors["losses"], self.direction)):
            memory = state.get(point.key, {})
            series[point.key] = self._remembered(memory, point.cost)
            verdicts.append(self._judge(memory, point))
        if not verdicts:
            return state, not_applicable(Reason.NO_TENSOR, "no loss whose value is known")
        return series, worst(verdicts)

    def _remembered(self, memory: Memory, cost: float) -> Memory:
        if (number := rounded(cost)) is None:
            return memory or {"last": [], "highest": None}
        highest = memory.get("highest")
        after = extended(memory, cost, 0, self.window)
        return {**after, "highest": number if highest is None else max(number, highest)}

    def _judge(self, memory: Memory, point: Point) -> Verdict:
        last = memory.get("last", ())
        if len(last) < self.window or not math.isfinite(point.cost):
            return UNDECIDED
        usual = level(last)
        jump = point.cost - usual
        least = max(
            (self.ratio - 1) * abs(usual),
            self.z * spread(last),
            self.record * (memory["highest"] - usual),
        )
        if jump <= least:
            return HEALTHY
        sign = -1.0 if point.rises else 1.0
        before, highest = sign * usual, sign * memory["highest"]
        detail = f"{point.tensor.name} jumped to {point.value:.3g} from a level of {before:.3g}"
        evidence = {"loss": point.value, "level": before, "worst_before": highest}
        return violation(Reason.ABOVE_THRESHOLD, detail, point.tensor, **evidence)
