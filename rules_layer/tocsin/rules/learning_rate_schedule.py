"""LearningRateSchedule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tocsin.model import Reason, Role, Verdict
from tocsin.rules._registry import register
from tocsin.rules._rule import (
    HEALTHY,
    UNDECIDED,
    Read,
    Reads,
    Rule,
    State,
    Step,
    not_applicable,
    violation,
)
from tocsin.rules._series import SCALAR_FIELDS, Point, points
from tocsin.rules._window import TRAINING, Memory, followed, rounded, worst


@register
@dataclass(frozen=True)
class LearningRateSchedule(Rule):
    """The learning rate has jumped up, or it has vanished while training goes on.

    A jump: after ``warmup`` saves a rate is more than ``jump`` times the highest before, so that
    warm-up, cycles and warm restarts are quiet. Vanished: every rate of the run has been at most
    ``vanished`` of its highest for ``patience`` saves in a row, and for a tenth of all saves, so
    that neither the end of a cosine nor frozen layers with a rate of 0 fire. A rate that is
    negative or not finite fires at once.

    Parameters
    ----------
    jump: how many times the highest rate so far is too much, above 1.
    warmup: saves from the beginning on that may rise by any factor, at least 1.
    vanished: fraction of the highest rate, from 0 to below 1.
    patience: saves in a row, at least 1.
    collection_names, tensor_regex: which tensors to watch instead of those with role
        learning_rate.

    Example: a schedule that is counted in epochs but stepped with every batch: 0 from save 30 on.
    """

    causes: ClassVar[str] = (
        "The schedule is stepped per batch but counted in epochs (or the reverse), was made for "
        "fewer steps than are trained, or began anew when the training was resumed."
    )
    advice: ClassVar[str] = (
        "Compare the schedule's number of steps with that of the training, save and restore the "
        "scheduler with the checkpoint, and end a training that cannot move any more."
    )

    jump: float = 5.0
    warmup: int = 5
    vanished: float = 1e-6
    patience: int = 10
    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 < self.jump < math.inf:
            raise ValueError(f"jump is {self.jump}, but must be a number above 1")
        for name in ("warmup", "patience"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, but must be at least 1")
        if not 0 <= self.vanished < 1:
            raise ValueError(f"vanished is {self.vanished}, but must be from 0 to below 1")

    def reads(self) -> Reads:
        read = Read(roles=(Role.LEARNING_RATE,), fields=SCALAR_FIELDS)
        return Reads({"rates": read.explicitly(self.collection_names, self.tensor_regex)})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if step.mode not in TRAINING:
            return state, not_applicable(Reason.NO_TENSOR, f"a step of mode {step.mode.name}")
        here = list(followed(state, points(step, step.tensors["rates"], "falls")))
        if not here:
            return state, not_applicable(Reason.NO_TENSOR, "no learning rate whose value is known")
        series = dict(state)
        for point in here:
            series[point.key] = self._remembered(state.get(point.key, {}), point.value)
        still = all(self._still(memory) for memory in series.values())
        return series, worst(
            self._judge(state.get(point.key, {}), series[point.key], point, still) for point in here
        )

    def _remembered(self, memory: Memory, rate: float) -> Memory:
        highest = max(rounded(rate) or 0.0, memory.get("highest", 0.0))
        low = rate <= self.vanished * highest
        return {
            "highest": highest,
            "saves": memory.get("saves", 0) + 1,
            "low": memory.get("low", 0) + 1 if low else 0,
        }

    def _still(self, memory: Memory) -> bool:
        return bool(memory["low"] >= max(self.patience, memory["saves"] / 10))

    def _judge(self, before: Memory, after: Memory, point: Point, still: bool) -> Verdict:
        rate, name = point.value, point.tensor.name
        if not 0 <= rate < math.inf:
            detail = f"{name} is {rate:.3g}, which is no learning rate"
            return violation(Reason.OUT_OF_RANGE, detail, point.tensor, learning_rate=rate)
        highest = before.get("highest", 0.0)
        if after["saves"] > self.warmup and 0 < self.jump * highest < rate:
            detail = f"{name} jumped to {rate:.3g}; the highest before was {highest:.3g}"
            evidence = {"learning_rate": rate, "highest_before": highest}
            return violation(Reason.CHANGED_TOO_MUCH, detail, point.tensor, **evidence)
        if still:
            detail = f"{name} was at {rate:.3g} for {after['low']} saves, and at most {highest:.3g}"
            evidence = {"learning_rate": rate, "highest": highest, "saves": after["low"]}
            return violation(Reason.BELOW_THRESHOLD, detail, point.tensor, **evidence)
        return HEALTHY if after["highest"] > 0 else UNDECIDED
