"""Distributions of tensors over steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tocsin.model import Role, TensorSummary
from tocsin.report.history import History, Saves
from tocsin.report.parts import Fan
from tocsin.report.thin import digits
from tocsin.tensors import IndexFile, index_at

COLUMNS = 160
MOST_FANS = 64

_LINES = ("min", "mean − σ", "mean", "mean + σ", "max")
_ROLES = (Role.GRADIENT, Role.WEIGHT, Role.ACTIVATION_OUTPUT, Role.ACTIVATION_INPUT, Role.BIAS)


def fans_of(history: History, last: int, first: Sequence[str]) -> dict[str, Fan]:
    """Return the distributions of at most MOST_FANS tensors: those named ``first``, then one per
    layer.

    Reads at most COLUMNS index files again.
    """
    chosen = _chosen(history, first)
    if not chosen:
        return {}
    saves = max(history.saves, key=lambda saves: _hits(saves, chosen))
    steps = saves.steps[saves.steps <= last]
    if not len(steps):
        return {}
    places = np.unique(np.linspace(0, len(steps) - 1, COLUMNS).round().astype(int))
    files = [index_at(history.storage, int(step), saves.worker) for step in steps[places]]
    return dict(_fans(chosen, [file for file in files if file is not None]))


def _chosen(history: History, first: Sequence[str]) -> list[str]:
    by_layer: dict[str, str] = {}
    roles = {place[0]: history.place(place)[0] for s in history.saves for place in s.tensors}
    for role in _ROLES:
        for name in (name for name in history.names if roles.get(name) is role):
            by_layer.setdefault(name.rpartition(".")[0] or name, name)
    names = dict.fromkeys([*(name for name in first if name in roles), *by_layer.values()])
    return list(names)[:MOST_FANS]


def _hits(saves: Saves, chosen: Iterable[str]) -> int:
    return len({name for name, _, _ in saves.tensors}.intersection(chosen)) * len(saves.steps)


def _fans(chosen: Sequence[str], files: Sequence[IndexFile]) -> Iterable[tuple[str, Fan]]:
    summaries: dict[str, list[tuple[int, TensorSummary]]] = {}
    wanted = set(chosen)
    for file in files:
        for entry in file.entries:
            if entry.name in wanted and entry.summary is not None:
                summaries.setdefault(entry.name, []).append((file.step, entry.summary))
    for name in chosen:
        found = summaries.get(name, [])
        if found and any((summary.size or 2) > 1 for _, summary in found):
            yield name, _fan(found)


def _fan(found: Sequence[tuple[int, TensorSummary]]) -> Fan:
    keys = {key for _, summary in found for key in (summary.quantiles or {})}
    names = sorted(keys, key=float)
    rows = [_quantiles(summary, names) if names else _spread(summary) for _, summary in found]
    lines = list(zip(*rows, strict=True))
    labels = [f"{100 * float(name):g} %" for name in names]
    return Fan(
        x=[step for step, _ in found],
        q=["min", *labels, "max"] if names else list(_LINES),
        v=[digits(line) for line in lines],
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _quantiles(summary: TensorSummary, names: Sequence[str]) -> list[float]:
    known: Mapping[str, float] = summary.quantiles or {}
    middle = [_number(known.get(name)) for name in names]
    return [_number(summary.min), *middle, _number(summary.max)]


def _spread(summary: TensorSummary) -> list[float]:
    mean = _number(summary.mean)
    deviation = math.sqrt(summary.variance) if summary.variance is not None else math.nan
    least, most = _number(summary.min), _number(summary.max)
    return [least, max(mean - deviation, least), mean, min(mean + deviation, most), most]
