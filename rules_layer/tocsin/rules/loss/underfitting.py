from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Mode, Outcome, Reason, Role, Verdict
from tocsin.rules import Meta, Read, Reads, Rule, State, Step, register
from tocsin.rules._advice import MORE_TREES
from tocsin.rules._curve import Memory, any_moved, better, curve, with_cost
from tocsin.rules._series import TRAINING, Direction, Point, points
from tocsin.rules._verdicts import (
    HEALTHY,
    UNDECIDED,
    measured,
    not_applicable,
    violation,
    worst_verdict,
)
from tocsin.rules._window import median_deviation, percent_decrease, rounded, tracked
from tocsin.rules.loss._known_skill import follow_skill, has_skill
from tocsin.rules.loss._losses import loss_reads, losses_with_level
from tocsin.rules.loss._stayed import Stayed, follow, has_fallen, stayed
from tocsin.rules.skill._pairing import SKILLS

_FIRST = 5  # saves whose median is the start
_BETWEEN = 64  # losses between two saves, whose mean tells more than those that are saved
_FEWEST = 8  # of these, at the start
_BY_NOISE = 6.0  # deviations by which a loss below zero must fall


@register
@dataclass(frozen=True)
class Underfitting(Rule):
    """Neither training nor validation loss has fallen: the model learns almost nothing.

    Fires after ``patience`` training steps when no loss of the run, in TRAIN or EVAL, was ever
    ``min_decrease_percent`` % below its start, noise allowing. A loss is the median of ``smooth``
    saves; its start is the larger of its first save and the median of the first five. Also fires,
    whatever the noise, when evaluations are on average no better than the first one and the last
    half of the training loss is not clearly below its first saves; with five evaluations, three
    fifths of ``patience`` are enough. Does not fire if one of several training losses has risen as
    much (competing losses do), or if comparisons with shuffled labels show that the model learns.
    Resolves when a loss falls, also if it does so between saves that are 64 losses or more apart:
    their mean is twice ``min_decrease_percent`` % below that of the first such losses.

    Parameters
    ----------
    patience: training steps before judging.
    min_decrease_percent: smallest fall of a loss that counts, in % of its start.
    smooth: the loss is the median of this many saves.
    collection_names, tensor_regex: which tensors are losses, instead of those with role loss.
    direction: ``falls`` or ``rises`` says which way is good; none decides by the name (accuracy
        rises).

    Example: a loss starts at 2.30 and is 2.25 after 500 steps, and the validation loss is 2.28.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 2}
    causes: ClassVar[str] = (
        "The model is too small or too strongly regularised, the inputs do not determine the "
        "labels (shuffled labels, lost columns), or the learning rate is far too low."
    )
    advice: ClassVar[str] = (
        "Check whether the model can overfit ten samples. If it cannot, check labels, gradients "
        "and learning rate; if it can, use a larger model or better inputs."
    )
    advice_for_trees: ClassVar[str] = MORE_TREES

    patience: Annotated[int, Meta(ge=1)] = 500
    min_decrease_percent: Annotated[float, Meta(gt=0, lt=100)] = 5.0
    smooth: Annotated[int, Meta(ge=4, le=32)] = 8
    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()
    direction: Direction | None = None

    def reads(self) -> Reads:
        losses = loss_reads(self)
        named = self.collection_names or self.tensor_regex
        between = Read(roles=(Role.INTERVAL,), kinds=("loss",), fields=("mean", "size"))
        return losses if named else Reads({**losses.tensors, "skills": SKILLS, "between": between})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if step.mode is Mode.PREDICT:
            return state, not_applicable(Reason.NO_TENSOR, "a step of mode PREDICT")
        losses, why = losses_with_level(self, step)
        here = list(tracked(state.get("series", {}), points(step, losses, self.direction)))
        if not here:
            return state, not_applicable(Reason.NO_TENSOR, why)
        series = dict(state.get("series", {}))
        courses = follow(state.get("courses", {}), step, losses, self.direction)
        compared = follow_skill(state.get("compared", {}), step)
        for point in here:
            memory = series.get(point.key) or {"begun": step.mode_step}
            series[point.key] = self._remembered(memory, point.cost)
        shown = state.get("stayed", False) and not has_fallen(courses)
        between = self._between(state.get("between", {}), step)
        state = {"series": series, "courses": courses, "compared": compared, "stayed": shown}
        state |= {"between": between}
        if step.mode not in TRAINING:
            return state, UNDECIDED
        if has_skill(compared) or between.get("fell"):
            return state, HEALTHY
        if (found := stayed(courses, step, losses, self.direction, self.patience)) is not None:
            return {**state, "stayed": True}, self._stayed(found, step.mode_step)
        verdict = worst_verdict(self._judge(series, point, step.mode_step) for point in here)
        return state, UNDECIDED if shown and verdict.outcome is Outcome.HEALTHY else verdict

    def _between(self, memory: Memory, step: Step) -> Memory:
        """Remember the mean of the first losses between two saves, and whether it ``fell``."""
        for each in step.tensors.get("between", ())[:1]:
            mean, count = each.summary.mean, each.summary.size or 0
            if mean is None or not 0 < mean < math.inf or count < _FEWEST or memory.get("fell"):
                continue
            first = memory.get("first", mean)
            fell = percent_decrease(first, mean) >= 2 * self.min_decrease_percent
            memory = {"first": rounded(first), "fell": fell and count >= _BETWEEN}
        return memory

    def _stayed(self, loss: Stayed, now: int) -> Verdict:
        detail = (
            f"{loss.tensor.name} started at {loss.start:.3g} and is {loss.now:.3g}: no change "
            f"beyond noise; {_evaluations(loss.evaluations)}"
        )
        evidence = {"first": loss.start, "now": loss.now, "steps": now}
        found = violation(Reason.NOT_DECREASING, detail, loss.tensor, **evidence)
        fell, least = percent_decrease(loss.start, loss.now), self.min_decrease_percent
        return measured(found, min(fell, 0.0), least, "below", "decrease_percent")

    def _remembered(self, memory: Memory, cost: float) -> Memory:
        if memory.get("fell"):
            return memory  # nothing else is needed
        after = with_cost(memory, cost, _FIRST, self.smooth)
        after["saves"] = memory.get("saves", 0) + 1
        if len(after["last"]) == self.smooth:
            now, begun = curve(after).now, curve(after).begun
            moved = abs(begun) * self.min_decrease_percent / 100
            if now <= begun - moved or _fell_below_zero(after, now, begun):
                return {"fell": True}
            after["best"] = better(memory.get("best"), now)
            after["rose"] = memory.get("rose", False) or now >= begun + moved
        return after

    def _judge(self, series: State, point: Point, now: int) -> Verdict:
        if any_moved(series):
            return HEALTHY
        memory, course = series[point.key], curve(series[point.key])
        best, begun = course.best, course.begun
        late = now - memory["begun"] >= self.patience and memory["saves"] >= 2 * self.smooth
        if not late or best is None or not math.isfinite(begun):
            return UNDECIDED
        fell = percent_decrease(begun, best)
        if course.noise > abs(begun) * self.min_decrease_percent / 50:
            return measured(HEALTHY, fell, self.min_decrease_percent, "below")
        name, percent = point.tensor.name, f"{self.min_decrease_percent:g} %"
        detail = (
            f"{name} never fell by {percent}: it started at {begun:.3g}, its best is {best:.3g}"
        )
        evidence = {"best": best, "first": begun, "steps": now - memory["begun"]}
        found = violation(Reason.NOT_DECREASING, detail, point.tensor, **evidence)
        return measured(found, fell, self.min_decrease_percent, "below", "decrease_percent")


def _fell_below_zero(memory: Memory, now: float, begun: float) -> bool:
    """Return whether a loss below 0, of which a share means nothing, fell by more than its
    noise."""
    noise = max(median_deviation(memory["first"]), median_deviation(memory["last"]))
    return begun < 0 and now < begun - _BY_NOISE * noise


def _evaluations(count: int) -> str:
    return (
        f"{count} evaluations were on average no better than the first one"
        if count
        else "no evaluation loss was captured"
    )
