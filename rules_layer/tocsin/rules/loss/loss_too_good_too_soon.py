from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from tocsin.model import Reason, Role, Verdict
from tocsin.rules import Meta, Read, Reads, Rule, State, Step, register
from tocsin.rules._curve import Memory, curve, with_cost
from tocsin.rules._series import SCALAR_FIELDS, Direction, Point, points
from tocsin.rules._verdicts import (
    HEALTHY,
    UNDECIDED,
    measured,
    not_applicable,
    violation,
    worst_verdict,
)
from tocsin.rules._window import as_numbers, tracked

_SAVES = 4  # in a row that must be too good


@register
@dataclass(frozen=True)
class LossTooGoodTooSoon(Rule):
    """The model is nearly perfect before it can have learned anything.

    Fires within the first ``steps`` steps of a mode when a loss is at most ``percent`` % of its
    first value in four saves in a row. Also fires when a metric between 0 and 1, such as accuracy,
    is at least ``perfect`` in four saves in a row. An easy problem looks the same as a leak of the
    label, so the rule watches only if a watch file names it. Use it if you know that the problem is
    hard.

    Parameters
    ----------
    steps: number of steps of a mode, from the first save on.
    percent: largest loss that is too good, in % of the first loss, which must be above 0.
    perfect: smallest value of a metric that is too good.
    collection_names, tensor_regex: which tensors to watch instead of losses and metrics.
    direction: ``falls`` or ``rises`` says which way is good; none decides by the name (accuracy
        rises).

    Example: a loss of 6.9 for a thousand classes that is 0.01 after 60 steps.
    """

    profiles: ClassVar[tuple[str, ...]] = ()
    causes: ClassVar[str] = (
        "The label, or something computed from it, is among the inputs; the evaluation set is part "
        "of the training set; or nearly all labels are masked."
    )
    advice: ClassVar[str] = (
        "Train without one group of inputs at a time to find the one that leaks the label, and "
        "look for samples that are both in the training data and in the evaluation data."
    )

    steps: Annotated[int, Meta(ge=1)] = 100
    percent: Annotated[float, Meta(ge=0, lt=100)] = 1.0
    perfect: Annotated[float, Meta(gt=0, le=1)] = 0.999
    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()
    direction: Direction | None = None

    def reads(self) -> Reads:
        read = Read(roles=(Role.LOSS, Role.METRIC), fields=SCALAR_FIELDS)
        return Reads({"scalars": read.explicitly(self.collection_names, self.tensor_regex)})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        series = dict(state)
        verdicts = []
        for point in tracked(state, points(step, step.tensors["scalars"], self.direction)):
            memory = state.get(point.key) or {"begun": step.mode_step}
            if step.mode_step - memory["begun"] > self.steps:  # no longer too soon
                verdicts.append(HEALTHY)
                continue
            series[point.key] = memory = with_cost(memory, point.cost, _SAVES, _SAVES)
            verdicts.append(self._judge(memory, point, step))
        if not verdicts:
            return state, not_applicable(Reason.NO_TENSOR, "no loss or metric whose value is known")
        return series, worst_verdict(verdicts)

    def _judge(self, memory: Memory, point: Point, step: Step) -> Verdict:
        if len(memory["last"]) < _SAVES:
            return UNDECIDED
        costs, first = as_numbers(memory["last"]), curve(memory).start
        now, name = max(costs), point.tensor.name
        after = f"{step.mode_step - memory['begun']} steps"
        if point.rises:
            if not all(self.perfect <= -cost <= 1 for cost in costs):
                return measured(HEALTHY, -now, self.perfect)
            detail = f"{name} is {-now:.4g}, nearly perfect, after {after}"
            found = violation(
                Reason.ABOVE_THRESHOLD, detail, point.tensor, value=-now, first=-first
            )
            return measured(found, -now, self.perfect)
        limit = first * self.percent / 100
        if not (first > 0 and now <= limit):
            return measured(HEALTHY, now, limit, "below")
        detail = f"{name} fell from {first:.3g} to {now:.3g} within {after}"
        found = violation(Reason.BELOW_THRESHOLD, detail, point.tensor, loss=now, first=first)
        return measured(found, now, limit, "below")
