"""Losses, metrics and learning rates over the steps of a run."""

from __future__ import annotations

import numpy as np

from tocsin.evaluation import Trace
from tocsin.evaluation.trace import MOST_SCALARS, SCALARS, Scalar
from tocsin.report.history import History
from tocsin.report.page import Curve
from tocsin.report.thin import Array, envelope, merged

MOST_CURVES = MOST_SCALARS

_RANKS = {"loss": 0, "metric": 1, "learning_rate": 2}


def curves_of(history: History, last: int, marks: list[int]) -> list[Curve]:
    """The scalars of a run up to a step: losses first, at most MOST_CURVES."""
    parts: dict[Scalar, list[tuple[Array, Array]]] = {}
    for saves in history.saves:
        inside = saves.steps <= last
        value, size, lost = (saves.field(name) for name in ("value", "size", "lost"))
        for at, place in enumerate(saves.tensors):
            kind = SCALARS.get(history.place(place)[0])
            if kind is None:
                continue
            there = inside & ~(np.isnan(value[:, at]) & ~(lost[:, at] > 0))
            if not there.any() or np.nanmax(np.where(there, size[:, at], np.nan)) > 1:
                continue
            scalar = (kind, saves.mode.name, place[0], saves.worker)
            series = saves.steps[there], value[there, at].astype(np.float64)
            parts.setdefault(scalar, []).append(series)
    chosen = sorted(parts, key=_order)[:MOST_CURVES]
    return [_curve(scalar, *merged(parts[scalar]), None, marks) for scalar in chosen]


def traced_curves(trace: Trace, marks: list[int]) -> list[Curve]:
    """The same from a trace, which has the scalars that rules read."""
    lanes = {of: lane for of, lane in trace.lanes.items() if not isinstance(of, str)}
    return [
        _curve(of, np.array(lane.steps), np.array(lane.values), lane.envelope, marks)
        for of, lane in sorted(lanes.items(), key=lambda each: _order(each[0]))
    ]


def _order(scalar: Scalar) -> tuple[int, bool, str, str]:
    kind, mode, name, worker = scalar
    return _RANKS[kind], mode != "TRAIN", name, worker


def _curve(
    scalar: Scalar,
    steps: Array,
    values: Array,
    extremes: tuple[Array, Array] | None,
    marks: list[int],
) -> Curve:
    kind, mode, name, worker = scalar
    x, y, low, high = envelope(steps, values, *(extremes or ()), marks=marks)
    return Curve(name=name, mode=mode, worker=worker, kind=kind, x=x, y=y, lo=low, hi=high)
