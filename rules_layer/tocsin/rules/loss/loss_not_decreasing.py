from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, ClassVar

from tocsin.model import Mode, Outcome, Reason, Verdict
from tocsin.rules import PROFILES, Meta, Reads, Rule, State, Step, register
from tocsin.rules._advice import MORE_TREES
from tocsin.rules._curve import Memory, any_moved, curve
from tocsin.rules._series import Direction, Point, points
from tocsin.rules._verdicts import (
    HEALTHY,
    UNDECIDED,
    measured,
    not_applicable,
    violation,
    worst_verdict,
)
from tocsin.rules._window import (
    median_deviation,
    percent_decrease,
    recent_median,
    rounded,
    thinned,
    tracked,
)
from tocsin.rules.loss._known_skill import follow_skill, has_skill
from tocsin.rules.loss._losses import loss_reads, losses_with_level
from tocsin.rules.skill._pairing import SKILLS

_BETWEEN = 16  # saves in the memory between two comparisons, so the state stays small
_AHEAD = 10  # comparisons
_FIRST = 5  # saves whose median is the start


@register
@dataclass(frozen=True)
class LossNotDecreasing(Rule):
    """The loss does not fall as it should.

    Fires when a loss that is judged every ``num_steps`` steps fell by less than ``diff_percent`` %
    since its start, twice in a row, or is not finite. The start is the larger of the first save and
    the median of the first five. Stops judging once any loss of the run has fallen by
    ``settled_percent`` %. With several losses, it also waits while one is that far above its start,
    because competing losses (GAN) take turns. It does not fire if the noise is larger than that, or
    if comparisons with shuffled labels show skill. Nor does it while each save is below the one
    before, half as fast as since the start or faster, and fast enough for ``diff_percent`` in ten
    times ``num_steps``. Some losses do not show progress by their value: those below 0, and those
    of adversarial, reinforcement, metric, ranking and self-supervised learning. They are judged
    only if you name them.

    Profile ``sagemaker`` compares with the last save at least ``num_steps`` steps before, and
    allows a rise by ``increase_threshold_percent`` %. Amazon's documents name both numbers but not
    how they combine; its defaults fire on every loss that has converged.

    Parameters
    ----------
    collection_names, tensor_regex: which tensors are losses, instead of those with role loss.
    use_losses_collection: false: tensors must be named.
    num_steps: number of steps between two comparisons.
    diff_percent, increase_threshold_percent: % of the earlier loss.
    mode: TRAIN or EVAL judges one mode, GLOBAL all steps as one series, none each mode by itself.
    smooth: the loss is the median of this many saves.
    settled_percent: % of the loss at its beginning; none compares with a save ``num_steps`` before.
    direction: ``falls`` or ``rises`` says which way is good; none decides by the name (accuracy
        rises).

    Example: a loss of 2.30 that is 2.30 after 100 and after 200 steps.
    """

    profiles: ClassVar[tuple[str, ...]] = PROFILES
    options: ClassVar[Mapping[str, Any]] = {"for_steps": 2, "resolve": 2}
    sagemaker: ClassVar[Mapping[str, Any]] = {
        "num_steps": 10,
        "diff_percent": 0.1,
        "increase_threshold_percent": 5.0,
        "mode": Mode.GLOBAL.name,
        "smooth": 1,
        "settled_percent": None,
    }
    causes: ClassVar[str] = (
        "The learning rate is too low or too high, gradients do not reach the layers or are not "
        "applied, or inputs have the wrong labels."
    )
    advice: ClassVar[str] = (
        "Check the learning rate (too high: the loss oscillates or grows; too low: it stays), that "
        "gradients reach every layer and are applied, and that inputs have the right labels."
    )
    advice_for_trees: ClassVar[str] = MORE_TREES

    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()
    use_losses_collection: bool = True
    num_steps: Annotated[int, Meta(ge=1)] = 100
    diff_percent: Annotated[float, Meta(ge=0, lt=100)] = 2.0
    increase_threshold_percent: Annotated[float, Meta(ge=0, lt=100)] = 0.0
    mode: str | None = None
    smooth: Annotated[int, Meta(ge=1, le=20)] = 8
    settled_percent: Annotated[float, Meta(ge=0, lt=100)] | None = 10.0
    direction: Direction | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode is not None and self.mode not in Mode.__members__:
            raise ValueError(
                f"mode is {self.mode!r}, but must be one of {', '.join(Mode.__members__)}"
            )
        if not (self.use_losses_collection or self.collection_names or self.tensor_regex):
            raise ValueError(
                "use_losses_collection is false: name collection_names or tensor_regex"
            )

    def reads(self) -> Reads:
        losses = loss_reads(self)
        skilled = self.settled_percent is not None and not self._named
        return Reads({**losses.tensors, "skills": SKILLS}) if skilled else losses

    @property
    def _named(self) -> bool:
        return bool(self.collection_names or self.tensor_regex)

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if self.mode == Mode.GLOBAL.name:  # one series of all modes
            step = replace(step, mode=Mode.GLOBAL, mode_step=step.step)
        elif self.mode not in (None, step.mode.name):
            return state, not_applicable(Reason.NO_TENSOR, f"a step of mode {step.mode.name}")
        losses, why = losses_with_level(self, step)
        series = dict(state.get("series", {}))
        here = list(tracked(series, points(step, losses, self.direction)))
        if not here:
            return state, not_applicable(Reason.NO_TENSOR, why)
        compared = follow_skill(state.get("compared", {}), step)
        state = {"series": series, "compared": compared}
        verdicts = []
        for point in here:
            series[point.key], verdict = self._judge(series, point, step.mode_step)
            verdicts.append(verdict)
        verdict = worst_verdict(verdicts)
        if has_skill(compared) and self._is_slight(verdict):
            return state, HEALTHY
        if verdict.outcome is Outcome.HEALTHY and any(memory["bad"] for memory in series.values()):
            verdict = UNDECIDED  # losses are judged at different steps: another one is not healthy
        return state, verdict

    def _is_slight(self, verdict: Verdict) -> bool:
        """Return whether the loss fell too little, or rose by no more than noise does near an
        optimum."""
        fell = verdict.evidence.get("decrease_percent")
        return isinstance(fell, float) and fell > -(self.settled_percent or 0.0)

    def _judge(self, state: State, point: Point, now: int) -> tuple[Memory, Verdict]:
        """Return the memory of one loss, and its verdict."""
        past: Memory = state.get(point.key, {})
        cost = rounded(point.cost)
        if cost is None:
            detail = f"{point.tensor.name} is {point.value} and can no longer decrease"
            verdict = violation(Reason.NOT_FINITE, detail, point.tensor, loss=point.value)
            return {**past, "bad": True}, verdict
        begun = past.get("first", [])
        apart = self.num_steps / _BETWEEN if self.settled_percent is None else math.inf
        memory = {
            "due": now + self.num_steps,
            "bad": False,
            **past,
            "first": [*begun, cost] if len(begun) < _FIRST else begun,
            "count": past.get("count", 0) + 1,
            "saves": thinned(past.get("saves", []), [now, cost], self.smooth, apart),
        }
        if now < memory["due"]:
            return memory, UNDECIDED
        if self.settled_percent is None:
            verdict = self._since_last(memory, point)
        else:
            memory |= self._moved(memory, self.settled_percent)
            verdict = self._since_start({**state, point.key: memory}, point, self.settled_percent)
        due = {"due": now + self.num_steps, "saves": memory["saves"][-self.smooth :]}
        return {**memory, **due, "bad": verdict.violation}, verdict

    def _since_last(self, memory: Memory, point: Point) -> Verdict:
        saves = memory["saves"]
        old = [save for save in saves if save[0] <= saves[-1][0] - self.num_steps]
        span = f"in {saves[-1][0] - old[-1][0]} steps"
        return self._compared(
            point, recent_median(old, self.smooth), recent_median(saves, self.smooth), span
        )

    def _since_start(self, state: State, point: Point, settled: float) -> Verdict:
        memory = state[point.key]
        before, after = curve(memory).begun, recent_median(memory["saves"], self.smooth)
        healthy = self._measured(HEALTHY, before, after)
        if any_moved(state):
            return healthy
        if before < 0 and not point.rises:
            return healthy  # a likelihood: its zero means nothing, nor does a share of it
        if memory["count"] < 2 * self.smooth:
            return UNDECIDED
        if median_deviation([cost for _, cost in memory["saves"]]) > abs(before) * settled / 100:
            return healthy  # too noisy to judge
        speed = _speed(memory["saves"])
        then = before - _AHEAD * self.num_steps * speed
        as_fast = 2 * speed * memory["saves"][-1][0] >= before - after
        if as_fast and percent_decrease(before, then) >= self.diff_percent:
            return healthy
        return self._compared(point, before, after, "since its start")

    def _moved(self, memory: Memory, percent: float) -> dict[str, bool]:
        """Return whether the loss ever ``fell`` or ``rose`` by this % of its beginning."""
        fell = percent_decrease(curve(memory).begun, recent_median(memory["saves"], self.smooth))
        return {
            "fell": memory.get("fell", False) or fell >= percent,
            "rose": memory.get("rose", False) or fell <= -percent,
        }

    def _compared(self, point: Point, before: float, after: float, span: str) -> Verdict:
        fell = percent_decrease(before, after)
        if fell >= self.diff_percent or -self.increase_threshold_percent <= fell < 0:
            return self._measured(HEALTHY, before, after)
        if point.rises:
            before, after = -before, -after
        what = f"from {before:.4g} to {after:.4g} {span}"
        good, bad = ("rose", "fell") if point.rises else ("fell", "rose")
        if fell < 0:
            reason, what = Reason.INCREASING, f"{bad} {what}"
        else:
            reason, what = (
                Reason.NOT_DECREASING,
                f"{good} by less than {self.diff_percent:g} %: {what}",
            )
        evidence = {"after": after, "before": before, "decrease_percent": fell}
        found = violation(reason, f"{point.tensor.name} {what}", point.tensor, **evidence)
        return measured(found, fell, self.diff_percent, "below", "decrease_percent")

    def _measured(self, verdict: Verdict, before: float, after: float) -> Verdict:
        return measured(verdict, percent_decrease(before, after), self.diff_percent, "below")


def _speed(saves: Sequence[Sequence[float]]) -> float:
    """Return by how much the loss falls in a step; 0 unless each save is below the one before."""
    if any(after >= before for (_, before), (_, after) in pairwise(saves)):
        return 0.0
    return (saves[0][1] - saves[-1][1]) / max(1, saves[-1][0] - saves[0][0])
