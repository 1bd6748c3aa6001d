"""LossTooGoodTooSoon."""

from __future__ import annotations

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
from tocsin.rules._series import SCALAR_FIELDS, Direction, Point, points
from tocsin.rules._window import Memory, extended, followed, known, start, worst

_SAVES = 4  # in a row that must be too good


@register
@dataclass(frozen=True)
class LossTooGoodTooSoon(Rule):
    """The model is next to perfect before it can have learned anything.

    Fires within the first ``steps`` steps of a mode when four saves in a row of a loss are
    at most ``percent`` % of its first value, or of an accuracy or another metric from 0 to 1
    ``perfect`` or more. A problem that is easy does the same as a leak, so this rule watches
    only where it is asked for: by somebody who knows that the problem is hard.

    Parameters
    ----------
    steps: how many steps of its mode count as soon, from the first save on, at least 1.
    percent: % of the first loss (that must be above 0), from 0 to below 100.
    perfect: a metric's value, above 0, at most 1.
    collection_names, tensor_regex: which tensors to watch instead of losses and metrics.
    direction: falls or rises says what is good; none goes by the name (accuracy rises).

    Example: a loss of 6.9 for a thousand classes that is 0.01 after 60 steps.
    """

    profiles: ClassVar[tuple[str, ...]] = ()
    causes: ClassVar[str] = (
        "The label, or something made of it, is among the inputs; the evaluation set is part of "
        "the training set; or labels are masked so that nothing is left to predict."
    )
    advice: ClassVar[str] = (
        "Train without one group of inputs at a time to find the one that gives the label away, "
        "and look for samples that training and evaluation share."
    )

    steps: int = 100
    percent: float = 1.0
    perfect: float = 0.999
    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()
    direction: Direction | None = None

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps is {self.steps}, but must be at least 1")
        if not 0 <= self.percent < 100:
            raise ValueError(f"percent is {self.percent}, but must be from 0 to below 100")
        if not 0 < self.perfect <= 1:
            raise ValueError(f"perfect is {self.perfect}, but must be above 0 and at most 1")

    def reads(self) -> Reads:
        read = Read(roles=(Role.LOSS, Role.METRIC), fields=SCALAR_FIELDS)
        return Reads({"scalars": read.explicitly(self.collection_names, self.tensor_regex)})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        series = dict(state)
        verdicts = []
        for point in followed(state, points(step, step.tensors["scalars"], self.direction)):
            memory = state.get(point.key) or {"begun": step.mode_step}
            if step.mode_step - memory["begun"] > self.steps:  # nothing is too soon any more
                verdicts.append(HEALTHY)
                continue
            series[point.key] = memory = extended(memory, point.cost, _SAVES, _SAVES)
            verdicts.append(self._judge(memory, point, step))
        if not verdicts:
            return state, not_applicable(Reason.NO_TENSOR, "no loss or metric whose value is known")
        return series, worst(verdicts)

    def _judge(self, memory: Memory, point: Point, step: Step) -> Verdict:
        if len(memory["last"]) < _SAVES:
            return UNDECIDED
        costs, first = known(memory["last"]), start(memory)
        now, name = max(costs), point.tensor.name
        after = f"{step.mode_step - memory['begun']} steps"
        if point.rises:
            if not all(self.perfect <= -cost <= 1 for cost in costs):
                return HEALTHY
            detail = f"{name} is {-now:.4g}, next to perfect, after {after}"
            return violation(Reason.ABOVE_THRESHOLD, detail, point.tensor, value=-now, first=-first)
        if not (first > 0 and now <= first * self.percent / 100):
            return HEALTHY
        detail = f"{name} fell from {first:.3g} to {now:.3g} within {after}"
        return violation(Reason.BELOW_THRESHOLD, detail, point.tensor, loss=now, first=first)
