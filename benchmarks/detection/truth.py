"""The truth about a run, healthy or harmful, by its skill on held-out data, without any rule.

What is neither is undecided, and excluded before any rule runs.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Literal

from benchmarks.detection.case import Case
from benchmarks.detection.runs import Run

Truth = Literal["healthy", "harmful", "undecided"]

HEALTHY = 0.95
"""A healthy run has at least this share of the skill of its reference."""

HARMFUL = 0.80
"""A harmful run has at most this share."""


def references(cases: Mapping[str, Case], runs: Iterable[Run]) -> dict[tuple[str, str], float]:
    """The median skill of each case that is a reference, by its group and name."""
    skills = defaultdict[tuple[str, str], list[float]](list)
    for run in runs:
        case = cases[run.case]
        if case.is_reference:
            skill = run.ending.skill
            assert skill is not None, f"{run.folder}: the reference has no skill"
            skills[case.group, case.name].append(skill)
    return {key: statistics.median(found) for key, found in skills.items()}


def truth(case: Case, skill: float | None, reference: float) -> Truth:
    """Of a run with that skill, beside the reference's."""
    if case.healthy:
        return "healthy" if skill is not None and skill >= HEALTHY * reference else "undecided"
    if case.certain or skill is None or skill <= HARMFUL * reference:
        return "harmful"
    return "undecided"
