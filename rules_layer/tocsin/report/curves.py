"""Losses, metrics and learning rates over the steps of a run."""

from __future__ import annotations

import numpy as np

from tocsin.model import Role
from tocsin.report.history import History
from tocsin.report.page import Curve, Kind
from tocsin.report.thin import Array, envelope, merged

MOST_CURVES = 24

_KINDS: dict[Role | None, Kind] = {
    Role.LOSS: "loss",
    Role.METRIC: "metric",
    Role.LEARNING_RATE: "learning_rate",
}


def curves_of(history: History, last: int, marks: list[int]) -> list[Curve]:
    """The scalars of a run up to a step: losses first, at most MOST_CURVES."""
    parts: dict[tuple[Kind, str, str, str], list[tuple[Array, Array]]] = {}
    for saves in history.saves:
        chosen = saves.steps <= last
        value, size, lost = (saves.field(name) for name in ("value", "size", "lost"))
        for at, place in enumerate(saves.tensors):
            kind = _KINDS.get(history.place(place)[0])
            if kind is None:
                continue
            there = chosen & ~(np.isnan(value[:, at]) & ~(lost[:, at] > 0))
            if not there.any() or np.nanmax(np.where(there, size[:, at], np.nan)) > 1:
                continue
            key = (kind, saves.mode.name, place[0], saves.worker)
            series = saves.steps[there], value[there, at].astype(np.float64)
            parts.setdefault(key, []).append(series)
    order = {"loss": 0, "metric": 1, "learning_rate": 2}
    keys = sorted(parts, key=lambda key: (order[key[0]], key[1] != "TRAIN", key[2:]))
    return [_curve(key, parts[key], marks) for key in keys[:MOST_CURVES]]


def _curve(
    key: tuple[Kind, str, str, str], parts: list[tuple[Array, Array]], marks: list[int]
) -> Curve:
    kind, mode, name, worker = key
    x, y, low, high = envelope(*merged(parts), marks=marks)
    return Curve(name=name, mode=mode, worker=worker, kind=kind, x=x, y=y, lo=low, hi=high)
