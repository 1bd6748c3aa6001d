"""The trace of an evaluation: what each rule found at each step, and what it measured."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from dataclasses import dataclass, field

import numpy as np

from tocsin.model import Outcome, RuleStatus, Verdict
from tocsin.report.page import Series, Span
from tocsin.report.thin import digit, digits, envelope
from tocsin.rules import Step

MOST_SPANS = 200
MOST_VIOLATIONS = 400

UNDECIDED, HEALTHY, VIOLATION, FIRING = "uhvf"


@dataclass
class RuleTrace:
    """One rule at the steps that it has seen, in order."""

    label: str = ""
    steps: array[int] = field(default_factory=lambda: array("q"))
    found: bytearray = field(default_factory=bytearray)
    values: array[float] = field(default_factory=lambda: array("d"))
    limits: array[float] = field(default_factory=lambda: array("d"))
    side: str = "above"

    def forget_from(self, step: int) -> None:
        """A restarted job is evaluated again from this step on."""
        at = bisect_left(self.steps, step)
        for column in (self.steps, self.found, self.values, self.limits):
            del column[at:]


@dataclass
class Trace:
    """Gathers verdicts: ``add`` is the ``on_verdict`` of ``check`` and ``reconcile``."""

    rules: dict[str, RuleTrace] = field(default_factory=dict)

    def add(self, rule: str, step: Step, verdict: Verdict, status: RuleStatus) -> None:
        if step.tick or verdict.outcome is Outcome.NOT_APPLICABLE:
            return
        trace = self.rules.setdefault(rule, RuleTrace())
        if trace.steps and step.step <= trace.steps[-1]:
            trace.forget_from(step.step)
        kind = {Outcome.HEALTHY: HEALTHY, Outcome.UNDECIDED: UNDECIDED}.get(verdict.outcome)
        if kind is None:
            kind = FIRING if status is RuleStatus.ISSUES_FOUND else VIOLATION
            trace.label = next(iter(verdict.evidence), trace.label)
        measure = verdict.measure
        trace.steps.append(step.step)
        trace.found.append(ord(kind))
        trace.values.append(math.nan if measure is None else measure.value)
        trace.limits.append(math.nan if measure is None else measure.limit)
        trace.side = trace.side if measure is None else measure.side


def spans_of(trace: RuleTrace | None, last: int | None) -> list[Span]:
    """Run-length of what the rule found: at most MOST_SPANS, of which the worst of a slice counts.

    Each span ends where the next one begins, the last at the run's ``last`` step.
    """
    if trace is None or not trace.steps or last is None:
        return []
    found = bytes(trace.found).decode()
    steps = list(trace.steps)
    runs = [at for at in range(len(found)) if at == 0 or found[at] != found[at - 1]]
    if len(runs) > MOST_SPANS:
        width = math.ceil(len(found) / MOST_SPANS)
        rank = "uhvf".index
        found = "".join(
            max(found[at : at + width], key=rank) * len(found[at : at + width])
            for at in range(0, len(found), width)
        )
        runs = [at for at in range(len(found)) if at == 0 or found[at] != found[at - 1]]
    ends = [steps[at] for at in runs[1:]] + [max(last, steps[-1])]
    return [(steps[at], end, found[at]) for at, end in zip(runs, ends, strict=True)]


def violations_of(trace: RuleTrace | None) -> list[int]:
    if trace is None:
        return []
    bad = (ord(VIOLATION), ord(FIRING))
    found = (step for step, kind in zip(trace.steps, trace.found, strict=True) if kind in bad)
    return [step for step, _ in zip(found, range(MOST_VIOLATIONS), strict=False)]


def series_of(trace: RuleTrace | None, marks: list[int]) -> Series | None:
    """What the rule measured against its limit; None if it measured nothing."""
    if trace is None:
        return None
    values, limits = np.array(trace.values), np.array(trace.limits)
    known = ~np.isnan(limits)
    if not known.any():
        return None
    steps, values, limits = np.array(trace.steps)[known], values[known], limits[known]
    x, y, low, high = envelope(steps, values, marks=marks)
    fixed = bool((limits == limits[0]).all())
    finite = values[np.isfinite(values)]
    wide = bool(len(finite) and finite.min() > 0 and finite.max() > 100 * finite.min())
    return Series(
        label=(trace.label or "measure").replace("_", " "),
        side="above" if trace.side == "above" else "below",
        log=wide and bool((limits > 0).all()),
        x=x,
        y=y,
        limit=digit(float(limits[0])) if fixed else None,
        limits=None if fixed else digits(limits[np.searchsorted(steps, x)]),
        lo=low,
        hi=high,
    )
