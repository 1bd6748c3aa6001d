"""Losses, metrics and learning rates over the steps of a run."""

from __future__ import annotations

import numpy as np

from tocsin.evaluation import Trace
from tocsin.evaluation.trace import MOST_SCALARS, SCALARS
from tocsin.model import Mode, Role, TensorSummary
from tocsin.report.history import History
from tocsin.report.legend import labelled
from tocsin.report.parts import Curve, Kind, Phase
from tocsin.report.thin import Array, envelope, merged
from tocsin.rules import Tensor, classify_loss

MOST_CURVES = MOST_SCALARS

_Named = tuple[Kind, str, str, str]  # with mode, name and worker, as a Scalar

_RANKS: dict[Kind, int] = {
    "loss": 0,
    "metric": 1,
    "learning_rate": 2,
    "utilization": 3,
    "seconds": 4,
}
_OF_MACHINES: dict[str | None, Kind] = {
    **dict.fromkeys(
        ("gpu_utilization", "gpu_memory", "cpu", "cpu_busiest", "memory"), "utilization"
    ),
    **dict.fromkeys(("step", "wait"), "seconds"),
}
"""By the kind of a series in a machine's minute."""


def curves_of(history: History, last: int, marks: list[int]) -> list[Curve]:
    """Return the scalars of a run up to a step, of a machine the means of each minute: losses
    first, at most MOST_CURVES.
    """
    parts: dict[_Named, list[tuple[Array, Array]]] = {}
    kinds: dict[_Named, str | None] = {}
    for saves in history.saves:
        inside = saves.steps <= last
        value, size, lost = (saves.field(name) for name in ("value", "size", "lost"))
        for at, place in enumerate(saves.tensors):
            role, series = history.place(place)
            measured = _OF_MACHINES.get(series) if role in (Role.SYSTEM, Role.DURATION) else None
            kind = measured or SCALARS.get(role)
            if kind is None:
                continue
            there = inside & ~(np.isnan(value[:, at]) & ~(lost[:, at] > 0))
            several = np.nanmax(np.where(there, size[:, at], np.nan), initial=0) > 1
            if not there.any() or (several and not measured):
                continue
            named = (kind, saves.mode.name, place[0], saves.worker)
            found = saves.steps[there], value[there, at].astype(np.float64)
            parts.setdefault(named, []).append(found)
            kinds[named] = series
    chosen = sorted(parts, key=_order)[:MOST_CURVES]
    return labelled(
        [_curve(named, *merged(parts[named]), None, marks, kinds[named]) for named in chosen]
    )


def traced_curves(trace: Trace, marks: list[int]) -> list[Curve]:
    """Return the same from a trace, which has the scalars that rules read."""
    lanes = {of: lane for of, lane in trace.lanes.items() if not isinstance(of, str)}
    return labelled(
        [
            _curve(of, np.array(lane.steps), np.array(lane.values), lane.envelope, marks)
            for of, lane in sorted(lanes.items(), key=lambda each: _order(each[0]))
        ]
    )


def _order(named: _Named) -> tuple[int, bool, str, str]:
    kind, mode, name, worker = named
    return _RANKS[kind], mode != "TRAIN", name, worker


def _curve(
    named: _Named,
    steps: Array,
    values: Array,
    extremes: tuple[Array, Array] | None,
    marks: list[int],
    data: str | None = None,
) -> Curve:
    """``data``: whether the data set is a held-out one, where the hook knows that."""
    kind, mode, name, worker = named
    x, y, low, high = envelope(steps, values, *(extremes or ()), marks=marks)
    phase, measure = _measure(named, data)
    return Curve(
        name=name,
        mode=mode,
        worker=worker,
        kind=kind,
        x=x,
        y=y,
        lo=low,
        hi=high,
        phase=phase,
        measure=measure,
    )


def _measure(named: _Named, data: str | None) -> tuple[Phase, str]:
    """Return the phase of a curve, and its name without that of the phase."""
    kind, mode, name, worker = named
    if kind in ("utilization", "seconds"):
        return "", name
    validates, measure = classify_loss(Mode[mode], Tensor(name, worker, TensorSummary(), kind=data))
    if validates is None:
        return "predict", name
    return "eval" if validates else "train", measure or name
