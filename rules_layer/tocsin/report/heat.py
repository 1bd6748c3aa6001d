"""Maps of layers over steps, as bytes that the page colours."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tocsin.model import Role
from tocsin.report.history import History, Saves
from tocsin.report.page import Heat
from tocsin.report.thin import Array

COLUMNS = 360
ROWS = 5000
_BEYOND = 1e3  # times the 98th percentile: larger numbers share the last colour
_SATURATING = ("tanh", "sigmoid", "hardtanh", "hardsigmoid")


@dataclass(frozen=True)
class _Map:
    """What a map shows of which tensors."""

    title: str
    unit: str
    field: str
    wanted: Callable[[Role | None, str | None], bool]
    scale: float = 1.0


_MAPS = {
    "gradient": _Map("|gradient|", "mean |gradient|", "value", lambda r, k: r is Role.GRADIENT),
    "update": _Map(
        "update ÷ weight",
        "mean |update| ÷ mean |weight|",
        "ratio",
        lambda r, k: r in (Role.WEIGHT, Role.BIAS),
    ),
    "weight": _Map("|weight|", "mean |weight|", "value", lambda r, k: r is Role.WEIGHT),
    "dead": _Map(
        "dead units",
        "% of the units that are inactive",
        "share",
        lambda r, k: "relu" in (k or ""),
        100.0,
    ),
    "saturated": _Map(
        "saturated units",
        "% of the units that are saturated",
        "share",
        lambda r, k: (k or "") in _SATURATING,
        100.0,
    ),
    "nan": _Map("NaN and infinite", "elements that are not finite", "lost", lambda r, k: True),
}


def heats_of(history: History, last: int) -> dict[str, Heat]:
    """The maps that the run has numbers for."""
    steps = np.array([step for step in history.steps if step <= last], np.int64)
    if not len(steps):
        return {}
    edges = np.unique(np.arange(min(COLUMNS, len(steps))) * len(steps) // min(COLUMNS, len(steps)))
    found = {kind: _heat(each, history, steps, steps[edges]) for kind, each in _MAPS.items()}
    return {kind: heat for kind, heat in found.items() if heat is not None}


def _heat(wanted: _Map, history: History, steps: Array, x: Array) -> Heat | None:
    rows: dict[str, int] = {}
    parts: list[tuple[Saves, list[int], list[int]]] = []
    for saves in history.saves:
        chosen = [
            at
            for at, place in enumerate(saves.tensors)
            if wanted.wanted(*history.place(place)) and (place[0] in rows or len(rows) < ROWS)
        ]
        if wanted.field == "lost":
            bad = np.nan_to_num(saves.field("lost")).max(axis=0, initial=0) > 0
            chosen = [at for at in chosen if bad[at]]
        elif wanted.field in ("ratio", "share"):
            known = ~np.isnan(saves.field(wanted.field)).all(axis=0)
            chosen = [at for at in chosen if known[at]]
        if chosen:
            at_row = [rows.setdefault(saves.tensors[at][0], len(rows)) for at in chosen]
            parts.append((saves, chosen, at_row))
    if not rows:
        return None
    low = np.full((len(x), len(rows)), np.nan, np.float32)
    high, lost = low.copy(), np.zeros(low.shape, bool)
    for saves, chosen, at_row in parts:
        _reduce(wanted, saves, chosen, at_row, x, (low, high, lost), int(steps[-1]))
    seen = ~np.isnan(high).all(axis=0) | lost.any(axis=0)
    if not seen.any():
        return None
    names = [name for name, there in zip(rows, seen, strict=True) if there]
    return _encoded(
        wanted, names, x, int(steps[-1]) + _step(steps), low[:, seen], high[:, seen], lost[:, seen]
    )


def _reduce(
    wanted: _Map,
    saves: Saves,
    chosen: list[int],
    at_row: list[int],
    x: Array,
    planes: tuple[Array, Array, Array],
    last: int,
) -> None:
    """Adds saves to the planes: least, greatest, whether not finite."""
    inside = saves.steps <= last
    steps = saves.steps[inside]
    if not len(steps):
        return
    column = np.searchsorted(x, steps, side="right") - 1
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    numbers = saves.field(wanted.field)[inside][:, chosen] * np.float32(wanted.scale)
    where = np.ix_(column[starts], at_row)
    low, high, lost = planes
    finite = np.where(np.isfinite(numbers), numbers, np.nan)
    low[where] = np.fmin(low[where], np.fmin.reduceat(finite, starts, axis=0))
    high[where] = np.fmax(high[where], np.fmax.reduceat(finite, starts, axis=0))
    if wanted.field != "lost":
        bad = (saves.field("lost")[inside][:, chosen] > 0) | np.isinf(numbers)
        lost[where] |= np.maximum.reduceat(bad, starts, axis=0)


def _step(steps: Array) -> int:
    return max(1, int(np.median(np.diff(steps)))) if len(steps) > 1 else 1


def _encoded(
    wanted: _Map, names: list[str], x: Array, end: int, low: Array, high: Array, lost: Array
) -> Heat:
    positive = high[np.isfinite(high) & (high > 0)]
    floor, top, most = 1.0, 10.0, 1.0
    if len(positive):
        most = float(positive.max())
        top = min(most, float(np.percentile(positive, 98)) * _BEYOND)
        least = low[np.isfinite(low) & (low > 0)]
        floor = max(float(least.min()), float(np.percentile(positive, 2)) / _BEYOND)
    begin, finish = math.floor(math.log10(floor)), math.ceil(math.log10(top))
    finish = max(finish, begin + 1)
    planes = np.stack([_quantised(plane, begin, finish) for plane in (low, high)])
    planes[1][lost] = 255
    return Heat(
        title=wanted.title,
        unit=wanted.unit,
        rows=names,
        x=[int(step) for step in x],
        end=end,
        lo=float(begin),
        hi=float(finish),
        over=most > 10.0**finish,
        cells=base64.b64encode(zlib.compress(planes.transpose(0, 2, 1).tobytes(), 6)).decode(),
    )


def _quantised(plane: Array, begin: float, end: float) -> Array:
    cells = np.zeros(plane.shape, np.uint8)
    known = ~np.isnan(plane)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = 2 + np.rint((np.log10(plane) - begin) / (end - begin) * 252)
    cells[known] = np.clip(scaled[known], 2, 254)
    cells[known & (plane == 0)] = 1
    return cells
