from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, pstdev
from typing import Annotated, Any, ClassVar

from tocsin.model import Outcome, Reason, TensorSummary, Verdict
from tocsin.rules import (
    HEALTHY,
    UNDECIDED,
    Baseline,
    Meta,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    measured,
    not_applicable,
    register,
    violation,
)
from tocsin.rules._baseline import COMPARED, EVALUATED, GRADIENTS, SECONDS, observed, seconds
from tocsin.rules._loss_names import without_prefix
from tocsin.rules._series import TRAINING
from tocsin.rules._verdicts import worst_verdict
from tocsin.rules._window import in_digits
from tocsin.rules.loss._beside import Level, level_at, own_level, remembered, same_scale

_MOST_RUNS = 8  # each is read as a whole
_MOST_SERIES = 16  # losses of a run: more are losses of single classes
_ERRORS = 3.0  # standard errors: one run in 700 differs by as much without a cause
_ORDER = (Outcome.VIOLATION, Outcome.HEALTHY, Outcome.UNDECIDED)
_OF_START = 0.1  # of the gradient norm at the start: a smaller difference does not count

Beside = tuple[Level, Sequence[tuple[str, Level]]]
"""The run's own level, and those of baselines by the names of these."""


@register
@dataclass(frozen=True)
class WorseThanBaseline(Rule):
    """The run is worse than runs that are known to be good.

    Compares losses and the norm of all gradients with those of each baseline at equal steps of the
    same mode, by medians over the last third of the steps (at least three saves). Fires when a
    training or evaluation loss exceeds that of every baseline by more than ``share`` of the
    baseline's improvement since its start, and by three standard errors. Fires, too, when the
    gradient norm is ``gradients`` times above or below every baseline's; with ``slower``, also when
    a step takes that many times as long as in every baseline. Losses that start at more than three
    times a baseline's, or less than a third of it, are not compared.

    Parameters
    ----------
    runs: the runs that are known to be good: URLs, or names of jobs beside this one. The watch
        file's ``baseline`` and the option ``--baseline`` set them.
    share: share of the baseline's improvement that may be missing.
    gradients: smallest factor between gradient norms that fires.
    slower: factor between the durations of a step; none, as machines differ, unless you set one.

    Example: labels are shuffled by accident, and the loss is 2.3 at step 500, where the last run of
    the main branch had fallen from 2.3 to 0.4.
    """

    profiles: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[Mapping[str, Any]] = {"for_steps": 2, "resolve": 2}
    causes: ClassVar[str] = (
        "A change since the baseline: of data or labels, augmentation, the model, the loss, the "
        "learning rate or another setting; or another machine, if steps are slower."
    )
    advice: ClassVar[str] = (
        "Compare code, data and settings with those of the baseline. If only the evaluation loss "
        "is worse, look at the evaluation data and at augmentation first. If the change is "
        "intended, name a newer run as the baseline."
    )

    runs: tuple[str, ...] = ()
    share: Annotated[float, Meta(gt=0)] = 0.25
    gradients: Annotated[float, Meta(gt=1)] = 10.0
    slower: Annotated[float, Meta(gt=1)] | None = None

    def reads(self) -> Reads:
        return Reads(COMPARED, baselines=self.runs[:_MOST_RUNS])

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        known = [baseline for baseline in step.baselines if baseline.steps]
        if not known:
            problems = "; ".join(f"{each.run}: {each.problem}" for each in step.baselines)
            why = f"baseline {problems}" if problems else "no baseline: name one with --baseline"
            return state, not_applicable(Reason.NO_TENSOR, why)
        here = observed(step)
        if not here.numbers:
            return state, not_applicable(Reason.NO_TENSOR, "no loss whose level is known")
        numbers, last = dict(here.numbers), state.get("last")
        if here.mode in TRAINING:
            numbers |= seconds(last, here)
            last = [here.step, here.time]
        series = dict(state.get("series", {}))
        for name, number in numbers.items():
            if name in series or len(series) < _MOST_SERIES:
                series[name] = remembered(series.get(name, {}), here.at, number)
        return {"series": series, "last": last}, self._verdict(series, known)

    def _verdict(self, series: Mapping[str, Any], known: Sequence[Baseline]) -> Verdict:
        """Return the verdict on the losses; if they are not worse, on gradients, then on times."""
        beside = dict(_beside(series, known))
        times, norms = beside.pop(SECONDS, None), beside.pop(GRADIENTS, None)
        losses = {name: alike for name in beside if (alike := _alike(name, beside, known))[1]}
        if beside and not losses:
            why = "the losses start on a different scale than those of the baseline"
            return not_applicable(Reason.OUT_OF_RANGE, why)
        found = [worst_verdict(self._loss(name, *each) for name, each in losses.items())]
        found += [self._norm(*norms)] if norms else []
        found += [self._time(self.slower, *times)] if times and self.slower else []
        found.sort(key=lambda verdict: _ORDER.index(verdict.outcome))
        return found[0]

    def _loss(self, name: str, own: Level, others: Sequence[tuple[str, Level]]) -> Verdict:
        run, base = max(others, key=lambda each: each[1].now)
        spread = pstdev([level.now for _, level in others])
        error = math.hypot(own.error, base.error, spread)
        improved = base.start - base.now
        if improved <= _ERRORS * base.error:
            return UNDECIDED
        missing, errors = (own.now - base.now) / improved, _in_errors(own.now - base.now, error)
        if missing <= self.share or errors <= _ERRORS:
            return measured(HEALTHY, min(missing, self.share), self.share)
        phase, _, loss = name.partition("/")
        now, there, start = in_digits(own.now, base.now, base.start)
        what = "evaluation" if phase == EVALUATED else "training"
        detail = (
            f"{loss}: {what} loss is {now}; at this step, {run} had fallen from {start} to "
            f"{there}. {100 * min(missing, 1):.0f} % of that improvement is missing"
        )
        confidence = round(NormalDist().cdf(min(errors, 8.0)), 6)
        evidence = {"loss": own.now, "baseline": base.now, "confidence": confidence}
        fault = violation(Reason.DIFFERENT, detail, _named(loss), **evidence)
        return measured(fault, missing, self.share, name="missing")

    def _norm(self, own: Level, others: Sequence[tuple[str, Level]]) -> Verdict:
        ratios = {run: own.now / level.now if level.now else math.inf for run, level in others}
        run, ratio = min(ratios.items(), key=lambda each: abs(math.log(each[1] or 1e-300)))
        base = dict(others)[run]
        apart = abs(own.now - base.now)
        enough = max(_OF_START * base.start, _ERRORS * math.hypot(own.error, base.error))
        factor = max(ratio, 1 / ratio) if ratio else math.inf
        sides = {each > 1 for each in ratios.values()}
        if factor <= self.gradients or apart <= enough or len(sides) > 1:
            return measured(HEALTHY, min(factor, self.gradients), self.gradients)
        now, there = in_digits(own.now, base.now)
        detail = f"the norm of all gradients is {now}; at this step, it was {there} in {run}"
        evidence = {"norm": own.now, "baseline": base.now}
        fault = violation(Reason.DIFFERENT, detail, _named(GRADIENTS), **evidence)
        return measured(fault, min(factor, 1e300), self.gradients, name="factor")

    def _time(self, slower: float, own: Level, others: Sequence[tuple[str, Level]]) -> Verdict:
        run, base = max(others, key=lambda each: each[1].now)
        factor = own.now / base.now
        apart = own.now - base.now
        if factor <= slower or apart <= _ERRORS * math.hypot(own.error, base.error):
            return measured(HEALTHY, min(factor, slower), slower)
        now, there = in_digits(own.now, base.now)
        detail = f"a step takes {now} s; it took {there} s in {run}"
        evidence = {"seconds": own.now, "baseline": base.now}
        fault = violation(Reason.DIFFERENT, detail, _named(SECONDS), **evidence)
        return measured(fault, factor, slower, name="factor")


def _beside(series: Mapping[str, Any], known: Sequence[Baseline]) -> Iterator[tuple[str, Beside]]:
    """Yield each series that this run and baselines have at the same step."""
    for name, memory in series.items():
        own, at = own_level(memory), memory["saves"][-1][0]
        others = [
            (each.run, level)
            for each in known
            if (level := level_at(each.series.get(name, ()), at)) is not None
        ]
        if own is not None and others:
            yield name, (own, others)


def _alike(name: str, beside: Mapping[str, Beside], known: Sequence[Baseline]) -> Beside:
    """Return a loss beside baselines whose losses start on the same scale.

    An evaluation comes after some training, so the improvement of its loss counts from the start of
    the training loss of the same name, if that is higher.
    """
    own, others = beside[name]
    phase, _, loss = name.partition("/")
    paired = [
        dict(others)
        for other, (_, others) in beside.items()
        if other != name and without_prefix(other.partition("/")[2]) == without_prefix(loss)
    ]
    found = []
    for run, level in others:
        if not same_scale(own.start, level.start):
            continue
        starts = [each[run].start for each in paired if run in each and phase == EVALUATED]
        found.append((run, replace(level, start=max(level.start, *starts, level.now))))
    return own, found


def _in_errors(difference: float, error: float) -> float:
    return difference / error if error else math.copysign(math.inf, difference)


def _named(name: str) -> Tensor:
    return Tensor(name, "", TensorSummary())
