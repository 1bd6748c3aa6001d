from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

from tocsin.model import Reason, Role, Verdict
from tocsin.rules import Meta, Read, Reads, Rule, State, Step, register
from tocsin.rules._curve import Memory
from tocsin.rules._series import SCALAR_FIELDS, Point
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, violation
from tocsin.rules._window import rounded
from tocsin.rules.loss._losses import judge_series

_STEPS = 200  # training steps in which a rate may also rise by any factor


@register
@dataclass(frozen=True)
class LearningRateSchedule(Rule):
    """The learning rate has jumped up, or it has vanished while the training continues.

    A jump: after ``warmup`` saves and 200 steps, a rate is more than ``jump`` times its highest
    value so far. Warm-up (also by epochs), cycles and warm restarts do not fire. Vanished: every
    rate of the run has been at most the fraction ``vanished`` of its highest value for ``patience``
    consecutive saves and for a tenth of all saves. So the end of a cosine schedule, and frozen
    layers with a rate of 0, do not fire. A rate that is negative or not finite fires at once.

    Parameters
    ----------
    jump: a rate of more than this multiple of the highest rate so far is a jump.
    warmup: number of first saves in which a rate may rise by any factor.
    vanished: fraction of the highest rate at which a rate has vanished.
    patience: number of consecutive saves with a vanished rate.
    collection_names, tensor_regex: which tensors to watch instead of those with role
        learning_rate.

    Example: a schedule counts epochs but is stepped with every batch: the rate is 0 from save 30.
    """

    causes: ClassVar[str] = (
        "The schedule is stepped per batch but counts epochs (or the reverse), covers fewer steps "
        "than the training, or restarted when the training was resumed."
    )
    advice: ClassVar[str] = (
        "Compare the schedule's number of steps with the training's. Save and restore the "
        "scheduler with the model checkpoint, and stop a training whose rate has vanished."
    )

    jump: Annotated[float, Meta(gt=1)] = 5.0
    warmup: Annotated[int, Meta(ge=1)] = 5
    vanished: Annotated[float, Meta(ge=0, lt=1)] = 1e-6
    patience: Annotated[int, Meta(ge=1)] = 10
    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()

    def reads(self) -> Reads:
        read = Read(roles=(Role.LEARNING_RATE,), fields=SCALAR_FIELDS)
        return Reads({"rates": read.explicitly(self.collection_names, self.tensor_regex)})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        rates = step.tensors["rates"]
        remember, judge = self._remembered, partial(self._judge, step.mode_step)
        return judge_series(
            state, step, rates, remember, judge, "falls", "no learning rate whose value is known"
        )

    def _remembered(self, memory: Memory, rate: float) -> Memory:
        highest = max(rounded(rate) or 0.0, memory.get("highest", 0.0))
        low = rate <= self.vanished * highest
        return {
            "highest": highest,
            "saves": memory.get("saves", 0) + 1,
            "low": memory.get("low", 0) + 1 if low else 0,
        }

    def _has_vanished(self, memory: Memory) -> bool:
        return bool(memory["low"] >= max(self.patience, memory["saves"] / 10))

    def _judge(self, now: int, before: State, series: State, point: Point) -> Verdict:
        rate, name, after = point.value, point.tensor.name, series[point.key]
        if not 0 <= rate < math.inf:
            detail = f"{name} is {rate:.3g}, which is not a learning rate"
            return violation(Reason.OUT_OF_RANGE, detail, point.tensor, learning_rate=rate)
        highest = before.get(point.key, {}).get("highest", 0.0)
        late = after["saves"] > self.warmup and now >= _STEPS
        if late and 0 < self.jump * highest < rate:
            detail = f"{name} jumped to {rate:.3g}; its maximum before was {highest:.3g}"
            evidence = {"learning_rate": rate, "highest_before": highest}
            found = violation(Reason.CHANGED_TOO_MUCH, detail, point.tensor, **evidence)
            return measured(found, rate, self.jump * highest)
        if all(self._has_vanished(memory) for memory in series.values()):
            low = after["low"]
            was = f"its maximum was {highest:.3g}"
            detail = f"{name} is {rate:.3g}, and has been this low for {low} saves; {was}"
            evidence = {"learning_rate": rate, "highest": highest, "saves": low}
            found = violation(Reason.BELOW_THRESHOLD, detail, point.tensor, **evidence)
            return measured(found, rate, self.vanished * highest, "below")
        if after["highest"] == 0:
            return UNDECIDED
        return measured(HEALTHY, rate, self.jump * highest) if highest else HEALTHY
