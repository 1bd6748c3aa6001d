"""Lanes of the page: verdicts and measures of a rule, step by step."""

from __future__ import annotations

import math

import numpy as np

from tocsin.evaluation import Lane
from tocsin.evaluation.trace import FIRING, VIOLATION
from tocsin.report.parts import Series, Span
from tocsin.report.thin import digit, digits, envelope

MOST_SPANS = 200
MOST_VIOLATIONS = 400


def spans_of(lane: Lane | None, last: int | None) -> list[Span]:
    """Run-length of what the rule found: at most MOST_SPANS, of which the worst of a slice counts.

    Each span ends where the next one begins, the last at the run's ``last`` step.
    """
    if lane is None or not lane.steps or last is None:
        return []
    found = bytes(lane.found).decode()
    steps = list(lane.steps)
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


def violations_of(lane: Lane | None) -> list[int]:
    if lane is None:
        return []
    bad = (ord(VIOLATION), ord(FIRING))
    found = (step for step, kind in zip(lane.steps, lane.found, strict=True) if kind in bad)
    return [step for step, _ in zip(found, range(MOST_VIOLATIONS), strict=False)]


def series_of(lane: Lane | None, marks: list[int], label: str = "") -> Series | None:
    """Return the rule's measure beside its limit; None if it measured nothing. ``label``: of
    what."""
    if lane is None:
        return None
    values, limits = np.array(lane.values), np.array(lane.limits)
    known = ~np.isnan(limits)
    if not known.any():
        return None
    steps, values, limits = np.array(lane.steps)[known], values[known], limits[known]
    extremes = [column[known] for column in lane.envelope or ()]
    x, y, low, high = envelope(steps, values, *extremes, marks=marks)
    fixed = bool((limits == limits[0]).all())
    shown = np.concatenate([values[np.isfinite(values)], limits[np.isfinite(limits)]])
    wide = bool(len(shown) and shown.min() > 0 and shown.max() > 100 * shown.min())
    return Series(
        label=(label or "measure").replace("_", " "),
        side="below" if lane.below else "above",
        log=wide,
        x=x,
        y=y,
        limit=digit(float(limits[0])) if fixed else None,
        limits=None if fixed else digits(limits[np.searchsorted(steps, x)]),
        lo=low,
        hi=high,
    )
