"""The lanes of a trace: spans and measures."""

from __future__ import annotations

import math

import pytest
from tocsin.evaluation import Trace
from tocsin.model import Measure, Mode, Outcome, Reason, RuleStatus, Verdict
from tocsin.report.lanes import MOST_SPANS, series_of, spans_of, violations_of
from tocsin.rules import Step

OUTCOMES = {
    "u": Outcome.UNDECIDED,
    "h": Outcome.HEALTHY,
    "v": Outcome.VIOLATION,
    "f": Outcome.VIOLATION,
    "n": Outcome.NOT_APPLICABLE,
}


def traced(found: str, *, limits: tuple[float, ...] = (2.0,), first: int = 0) -> Trace:
    trace = Trace()
    for at, kind in enumerate(found):
        measure = Measure(float(at), limits[at % len(limits)]) if kind != "u" else None
        verdict = Verdict(OUTCOMES[kind], Reason.WITHIN_BOUNDS, measure=measure)
        status = RuleStatus.ISSUES_FOUND if kind == "f" else RuleStatus.IN_PROGRESS
        trace.add("A", Step(first + at, Mode.TRAIN, at, 0.0), verdict, status)
    return trace


@pytest.mark.parametrize(
    ("found", "spans"),
    [
        ("", []),
        ("h", [(0, 9, "h")]),
        ("uuhhvff", [(0, 2, "u"), (2, 4, "h"), (4, 5, "v"), (5, 9, "f")]),
        ("nhnh", [(1, 9, "h")]),
    ],
)
def test_spans(found: str, spans: list[tuple[int, int, str]]) -> None:
    assert spans_of(traced(found).lanes.get("A"), 9) == spans


def test_many_changes_are_few_spans_that_keep_the_worst() -> None:
    spans = spans_of(traced("hv" * 2000).lanes["A"], 3999)

    assert len(spans) <= MOST_SPANS
    assert {kind for _, _, kind in spans} == {"v"}


def test_restarted_job_forgets_what_it_evaluates_again() -> None:
    trace = traced("hhhhvvvv")
    verdict = Verdict(Outcome.HEALTHY, Reason.WITHIN_BOUNDS)
    trace.add("A", Step(3, Mode.TRAIN, 3, 0.0), verdict, RuleStatus.IN_PROGRESS)

    assert spans_of(trace.lanes["A"], 3) == [(0, 3, "h")]
    assert violations_of(trace.lanes["A"]) == []


def test_measure_against_a_fixed_and_a_moving_limit() -> None:
    fixed = series_of(traced("uhhv").lanes["A"], [])
    moving = series_of(traced("uhhv", limits=(2.0, 3.0)).lanes["A"], [])

    assert fixed is not None
    assert moving is not None
    assert (fixed.x, fixed.y, fixed.limit, fixed.limits) == ([1, 2, 3], [1, 2, 3], 2.0, None)
    assert (moving.limit, moving.limits) == (None, [3.0, 2.0, 3.0])
    assert series_of(traced("uu").lanes["A"], []) is None


@pytest.mark.parametrize(
    ("measure", "excess"),
    [
        (Measure(3, 2), 0.5),
        (Measure(1, 2), -0.5),
        (Measure(1, 2, "below"), 0.5),
        (Measure(3, 0), 3.0),
        (Measure(math.nan, 2), -math.inf),
    ],
)
def test_excess_of_a_measure(measure: Measure, excess: float) -> None:
    assert measure.excess == excess
