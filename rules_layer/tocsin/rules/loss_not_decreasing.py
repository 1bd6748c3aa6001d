"""LossNotDecreasing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, ClassVar

from tocsin.model import Mode, Outcome, Reason, Role, Verdict
from tocsin.rules._registry import register
from tocsin.rules._rule import (
    HEALTHY,
    UNDECIDED,
    Read,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    not_applicable,
    violation,
)

Point = Sequence[float]  # [step, loss]
_BETWEEN = 16  # saves remembered between two comparisons: the state stays small at any interval


@register
@dataclass(frozen=True)
class LossNotDecreasing(Rule):
    """The loss does not go down as it should.

    Every ``num_steps`` steps a loss is set against its newest save at least that many steps
    back. Fires when it fell by less than ``diff_percent`` %, unless it rose by no more than
    ``increase_threshold_percent`` % (Amazon's documents name both numbers and not how they
    combine; this is the reading under which both have a use), or when it is not finite. Of
    several losses none may have been in violation when it was last judged.

    Profile ``recommended`` compares medians of ``smooth`` saves, lets a loss level off once it
    has fallen by ``settled_percent`` % of its first value, and fires at the second time in a
    row. Profile ``sagemaker`` keeps Amazon's documented defaults, which fire on every loss that
    has converged.

    Parameters
    ----------
    collection_names, tensor_regex: which tensors are losses, instead of those with role loss.
    use_losses_collection: false asks for an explicit selection.
    num_steps: distance of the comparison, in steps, at least 1.
    diff_percent, increase_threshold_percent: % of the older loss, 0 to 100.
    mode: TRAIN or EVAL judges one mode, GLOBAL all steps as one series, none each by itself.
    smooth: how many saves the median is taken of.
    settled_percent: % of the first loss. Having fallen by so much, a loss may level off, but not
        rise from its best by as much again; none never lets it.

    Example: a loss of 2.30 that is 2.30 after 100 and after 200 steps.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 2}
    sagemaker: ClassVar[Mapping[str, Any]] = {
        "num_steps": 10,
        "diff_percent": 0.1,
        "increase_threshold_percent": 5.0,
        "mode": Mode.GLOBAL.name,
        "smooth": 1,
        "settled_percent": None,
    }
    advice: ClassVar[str] = (
        "Check the learning rate (too high oscillates or grows, too low stands still), whether "
        "gradients reach every layer and are applied, and whether inputs and labels fit together."
    )

    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()
    use_losses_collection: bool = True
    num_steps: int = 100
    diff_percent: float = 1.0
    increase_threshold_percent: float = 0.0
    mode: str | None = None
    smooth: int = 5
    settled_percent: float | None = 20.0

    def __post_init__(self) -> None:
        for name in ("num_steps", "smooth"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, but must be at least 1")
        for name in ("diff_percent", "increase_threshold_percent", "settled_percent"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 100:
                raise ValueError(f"{name} is {value}, but must be from 0 to below 100")
        if self.mode is not None and self.mode not in Mode.__members__:
            raise ValueError(
                f"mode is {self.mode!r}, but must be one of {', '.join(Mode.__members__)}"
            )
        if not (self.use_losses_collection or self.collection_names or self.tensor_regex):
            raise ValueError(
                "use_losses_collection is false: name collection_names or tensor_regex"
            )

    def reads(self) -> Reads:
        read = Read(roles=(Role.LOSS,), fields=("mean", "nan", "posinf", "neginf"))
        return Reads({"losses": read.explicitly(self.collection_names, self.tensor_regex)})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        together = self.mode == Mode.GLOBAL.name
        if not together and self.mode not in (None, step.mode.name):
            return state, not_applicable(Reason.NO_TENSOR, f"a step of mode {step.mode.name}")
        now = step.step if together else step.mode_step
        series = dict(state)
        verdicts = []
        for tensor in step.tensors["losses"]:
            if (loss := _loss(tensor)) is None:
                continue
            mode = Mode.GLOBAL if together else step.mode
            key = f"{mode.name}/{tensor.worker}/{tensor.name}"
            series[key], verdict = self._judge(series.get(key, {}), tensor, now, loss)
            verdicts.append(verdict)
        if not verdicts:
            return state, not_applicable(Reason.NO_TENSOR, "no loss whose value is known")
        verdict = min(verdicts, key=_urgency)
        if verdict is HEALTHY and any(memory["violated"] for memory in series.values()):
            verdict = UNDECIDED  # losses come due at different steps: the other is not well yet
        return series, verdict

    def _judge(
        self, past: Mapping[str, Any], tensor: Tensor, now: int, loss: float
    ) -> tuple[Mapping[str, Any], Verdict]:
        """One loss against its own past: what to remember of it, and the verdict."""
        if not math.isfinite(loss):
            detail = f"{tensor.name} is {loss} and cannot decrease any more"
            verdict = violation(Reason.NOT_FINITE, detail, tensor, loss=loss)
            return {**past, "violated": True}, verdict
        due = now + self.num_steps
        if "points" not in past:
            begun = {"first": loss, "best": loss, "due": due, "points": [[now, loss]]}
            return {**begun, "violated": False}, UNDECIDED
        points = _extended(past["points"], [now, loss], self.smooth, self.num_steps / _BETWEEN)
        if now < past["due"]:
            return {**past, "points": points}, UNDECIDED
        after = _typical(points, self.smooth)
        best = min(after, past["best"])
        verdict = self._compare(past["first"], best, after, points, tensor)
        kept = points[-self.smooth :]
        memory = {"due": due, "best": best, "points": kept, "violated": verdict.violation}
        return {**past, **memory}, verdict

    def _compare(
        self, first: float, best: float, after: float, points: Sequence[Point], tensor: Tensor
    ) -> Verdict:
        if self.settled_percent is not None and _percent_down(first, best) >= self.settled_percent:
            if after - best < abs(first) * self.settled_percent / 100:
                return HEALTHY
            detail = f"{tensor.name} rose from its best of {best:.4g} to {after:.4g}"
            evidence = {"after": after, "best": best, "first": first}
            return violation(Reason.INCREASING, detail, tensor, **evidence)
        old = [point for point in points if point[0] <= points[-1][0] - self.num_steps]
        before = _typical(old, self.smooth)
        fell = _percent_down(before, after)
        if fell >= self.diff_percent or -self.increase_threshold_percent <= fell < 0:
            return HEALTHY
        span = f"from {before:.4g} to {after:.4g} in {points[-1][0] - old[-1][0]:.0f} steps"
        evidence = {"after": after, "before": before, "decrease_percent": fell}
        if fell < 0:
            detail = f"{tensor.name} rose {span}"
            return violation(Reason.INCREASING, detail, tensor, **evidence)
        detail = f"{tensor.name} fell by less than {self.diff_percent:g} %: {span}"
        return violation(Reason.NOT_DECREASING, detail, tensor, **evidence)


def _loss(tensor: Tensor) -> float | None:
    """The tensor's mean, or what keeps it from having one; None if nothing is known."""
    summary = tensor.summary
    if summary.nan:
        return math.nan
    if summary.posinf or summary.neginf:
        return math.inf if summary.posinf else -math.inf
    return summary.mean


def _typical(points: Sequence[Point], smooth: int) -> float:
    """The median of the newest losses."""
    return median(loss for _, loss in points[-smooth:])


def _percent_down(before: float, after: float) -> float:
    """By how many percent of ``before`` the loss fell; of a loss of 0, a rise is without bound."""
    if before == 0:
        return 0.0 if after == 0 else math.copysign(100.0, -after)
    return 100.0 * (before - after) / abs(before)


def _extended(points: Sequence[Point], new: Point, ends: int, apart: float) -> list[Point]:
    """``points`` and a new one. Between the ``ends`` oldest and newest only those that are
    ``apart`` steps from the one before are kept.
    """
    leaves = len(points) - ends  # the one that is no more among the newest
    if leaves >= ends and points[leaves][0] - points[leaves - 1][0] < apart:
        points = [*points[:leaves], *points[leaves + 1 :]]
    return [*points, new]


def _urgency(verdict: Verdict) -> int:
    order = (Outcome.VIOLATION, Outcome.HEALTHY, Outcome.UNDECIDED)
    return order.index(verdict.outcome)
