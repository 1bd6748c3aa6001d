"""Maps of layers over steps, as bytes that the page colours."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tocsin.model import Role
from tocsin.report.history import History, Saves
from tocsin.report.parts import Heat
from tocsin.report.thin import Array

COLUMNS = 360
ROWS = 5000
_ROUNDING = 1e-6  # of float32: 0.01 is in the decade that begins with it
_BEYOND = 1e3  # times the 98th percentile: larger numbers share the last colour
_WITH_NAN = (Role.TREE, Role.SKILL)  # they contain NaN by design
_SATURATING = ("tanh", "sigmoid", "hardtanh", "hardsigmoid")


@dataclass(frozen=True)
class _Map:
    """A quantity that a map shows, and its tensors."""

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
    "nan": _Map(
        "NaN and infinite", "elements that are not finite", "lost", lambda r, k: r not in _WITH_NAN
    ),
}


def heats_of(history: History, last: int) -> dict[str, Heat]:
    """Return the maps that the run has numbers for, up to a step."""
    found = {kind: _heat(each, history, last) for kind, each in _MAPS.items()}
    return {kind: heat for kind, heat in found.items() if heat is not None}


@dataclass(frozen=True)
class _Part:
    """Saves that a map shows: which positions of their tensors in which rows."""

    saves: Saves
    inside: Array
    chosen: list[int]
    rows: list[int]


def _heat(wanted: _Map, history: History, last: int) -> Heat | None:
    rows: dict[str, int] = {}
    parts = list(_parts(wanted, history, last, rows))
    if not parts:
        return None
    steps = np.unique(np.concatenate([part.saves.steps[part.inside] for part in parts]))
    columns = min(COLUMNS, len(steps))
    x = steps[np.arange(columns) * len(steps) // columns]
    low = np.full((columns, len(rows)), np.nan, np.float32)
    high, lost = low.copy(), np.zeros(low.shape, np.bool_)
    for part in parts:
        _reduce(wanted, part, x, (low, high, lost))
    seen = np.flatnonzero(~np.isnan(high).all(axis=0) | lost.any(axis=0))
    if not len(seen):
        return None
    names = list(rows)
    end = int(steps[-1]) + (max(1, int(np.median(np.diff(steps)))) if len(steps) > 1 else 1)
    planes = low[:, seen], high[:, seen], lost[:, seen]
    return _encoded(wanted, [names[at] for at in seen], x, end, planes)


def _parts(wanted: _Map, history: History, last: int, rows: dict[str, int]) -> Iterator[_Part]:
    """The saves that have something to show. Numbers the rows in order of appearance."""
    for saves in history.saves:
        inside = saves.steps <= last
        numbers = saves.field(wanted.field)[inside]
        if not len(numbers):
            continue
        if wanted.field == "lost":
            shows = np.nan_to_num(numbers).max(axis=0) > 0
        else:
            shows = ~np.isnan(numbers).all(axis=0) | (saves.field("lost")[inside] > 0).any(axis=0)
        chosen = [
            at
            for at, place in enumerate(saves.tensors)
            if shows[at] and wanted.wanted(*history.place(place))
        ]
        chosen = [at for at in chosen if saves.tensors[at][0] in rows or len(rows) < ROWS]
        if chosen:
            at_row = [rows.setdefault(saves.tensors[at][0], len(rows)) for at in chosen]
            yield _Part(saves, inside, chosen, at_row)


def _reduce(wanted: _Map, part: _Part, x: Array, planes: tuple[Array, Array, Array]) -> None:
    """Add saves to the planes: least, greatest, whether not finite."""
    saves, inside = part.saves, part.inside
    column = np.searchsorted(x, saves.steps[inside], side="right") - 1
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    numbers = saves.field(wanted.field)[inside][:, part.chosen] * np.float32(wanted.scale)
    where = np.ix_(column[starts], np.array(part.rows))
    low, high, lost = planes
    finite = np.where(np.isfinite(numbers), numbers, np.nan)
    low[where] = np.fmin(low[where], np.fmin.reduceat(finite, starts, axis=0))
    high[where] = np.fmax(high[where], np.fmax.reduceat(finite, starts, axis=0))
    if wanted.field != "lost":
        bad = (saves.field("lost")[inside][:, part.chosen] > 0) | np.isinf(numbers)
        lost[where] |= np.maximum.reduceat(bad, starts, axis=0)


def _encoded(
    wanted: _Map, names: list[str], x: Array, end: int, planes: tuple[Array, Array, Array]
) -> Heat:
    low, high, lost = planes
    above_zero = np.isfinite(high) & (high > 0)
    positive = high[above_zero]
    floor, top, most = 1.0, 10.0, 1.0
    if len(positive):
        most = float(positive.max())
        top = min(most, float(np.percentile(positive, 98)) * _BEYOND)
        least = np.where(low > 0, low, high)[above_zero]
        floor = max(float(least.min()), float(np.percentile(positive, 2)) / _BEYOND)
    begin = math.floor(math.log10(floor) + _ROUNDING)
    finish = math.ceil(math.log10(top) - _ROUNDING)
    finish = max(finish, begin + 1)
    cells = np.stack([_quantised(plane, begin, finish) for plane in (low, high)])
    cells[1][lost] = 255
    return Heat(
        title=wanted.title,
        unit=wanted.unit,
        rows=names,
        x=[int(step) for step in x],
        end=end,
        lo=float(begin),
        hi=float(finish),
        over=most > 10.0**finish,
        cells=base64.b64encode(zlib.compress(cells.transpose(0, 2, 1).tobytes(), 6)).decode(),
    )


def _quantised(plane: Array, begin: float, end: float) -> Array:
    cells = np.zeros(plane.shape, np.uint8)
    known = ~np.isnan(plane)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = 2 + np.rint((np.log10(plane) - begin) / (end - begin) * 252)
    cells[known & (plane <= 0)] = 1
    positive = known & (plane > 0)
    cells[positive] = np.clip(scaled[positive], 2, 254)
    return cells
