"""Runs a rule over a history of steps, as the engine does, for the tests of rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from tocsin.model import Measure, Outcome, Reason, Role, Verdict
from tocsin.rules import Read, Rule, Step, Tensor, build
from tocsin.tensors import detailed, summarize

HEALTHY, VIOLATION = Outcome.HEALTHY, Outcome.VIOLATION
UNDECIDED, NOT_APPLICABLE = Outcome.UNDECIDED, Outcome.NOT_APPLICABLE

UNMEASURED = {
    *("BrokenContract", "GPUErrors"),  # something is so, or it is not
    *("LearningRateSchedule", "NoBetterThanGuessing", "PoorWeightInitialization"),  # at some signs
}
LINGERING = {"NoBetterThanGuessing", "NoSkill", "SkillLost"}
"""Rules that judge by bounds of what they measure, and resolve late: the measure may be better."""


def made(name: str, profile: str = "recommended", **parameters: Any) -> Any:
    """A rule from parameters as on the wire."""
    return build(name, parameters, profile)[0]


def judged(rule: Rule, steps: Iterable[Step]) -> list[Verdict]:
    """The verdict on each step. Between two steps the state is stored as JSON.

    Asserts that violations have a measure, on the wrong side of its limit, and that the first
    number of their evidence, which names it in charts, is that measure.
    """
    state: Any = {}
    verdicts = []
    for step in steps:
        after, verdict = rule.evaluate(state, step)
        state = msgspec.json.decode(msgspec.json.encode(after))
        if verdict.violation:
            name, measure = type(rule).__name__, verdict.measure
            assert measure or name in UNMEASURED or verdict.reason is Reason.NOT_FINITE
            assert not measure or name in LINGERING or measure.excess >= 0
            assert not measure or is_named(measure, verdict)
        verdicts.append(verdict)
    return verdicts


def is_named(measure: Measure, verdict: Verdict) -> bool:
    """Whether the first number of the evidence is the measure; evidence may be rounded."""
    first = next(iter(verdict.evidence.values()))
    near = pytest.approx(measure.value, rel=0.02, abs=0.5 if isinstance(first, int) else 1e-3)
    return bool(first == near or math.isnan(measure.value))


def judging(name: str) -> Callable[..., list[Verdict]]:
    """Judges steps by a rule; profile and parameters are arguments."""

    def judge(steps: Iterable[Step], profile: str = "recommended", **given: Any) -> list[Verdict]:
        return judged(made(name, profile, **given), steps)

    return judge


def outcomes(rule: Rule, steps: Iterable[Step]) -> list[Outcome]:
    return [verdict.outcome for verdict in judged(rule, steps)]


def decided(rule: Rule, steps: Iterable[Step]) -> dict[int, Verdict]:
    """The verdicts of the steps, by number, that are healthy or in violation."""
    known = list(steps)
    found = zip(known, judged(rule, known), strict=True)
    return {step.step: v for step, v in found if v.outcome in (HEALTHY, VIOLATION)}


def violations(rule: Rule, steps: Iterable[Step]) -> dict[int, Verdict]:
    """The violations, by the position of the step."""
    return {at: verdict for at, verdict in enumerate(judged(rule, steps)) if verdict.violation}


def fired(verdicts: Iterable[Verdict]) -> list[int]:
    """The positions of the violations."""
    return [at for at, verdict in enumerate(verdicts) if verdict.violation]


def first(verdicts: Iterable[Verdict]) -> int | None:
    """The position of the first violation."""
    return next(iter(fired(verdicts)), None)


def valued(
    name: str,
    value: Any,
    worker: str = "worker_0",
    *,
    read: Read | None = None,
    role: Role | None = None,
    kind: str | None = None,
) -> Tensor:
    """A tensor with its value, and with the summary that a read asks for."""
    array: NDArray[Any] = np.asarray(value)
    summary = summarize(array)
    if read is not None and read.detail is not None:
        more = msgspec.structs.asdict(detailed(array, read.detail))
        known = {key: found for key, found in more.items() if found is not None}
        summary = msgspec.structs.replace(summary, **known)
    return Tensor(name, worker, summary, array.shape, str(array.dtype), role, kind, array)
