"""A run as a chart of Altair."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tocsin.trial.rows import NUMBERS, Row

_POINTS = 5000  # what Altair draws


def plot(rows: Sequence[Row], x: str, y: str | None = None) -> Any:
    """Lines of column ``y`` over the steps, one for each tensor (and worker).

    ``y`` is by default ``value`` where there are any, else ``mean``. Long lines are thinned to
    5,000 points altogether; a number that is not finite is a gap. Raises ValueError where no row
    has a ``y``, ModuleNotFoundError where Altair is not installed.
    """
    try:
        alt = import_module("altair")
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            "trial.plot needs Altair: pip install altair", name=missing.name
        ) from None
    there = [column for column in NUMBERS if any(column in row for row in rows)]
    y = y or next((column for column in ("value", "mean") if column in there), "value")
    if y not in there:
        raise ValueError(f"nothing to plot: no tensor has {y!r}, there are {there or 'no numbers'}")
    lines: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if y in row:
            lines.setdefault((row["tensor"], row["worker"]), []).append(row)
    points = [_point(row, x, y) for line in lines.values() for row in _thin(line, len(lines))]
    chart = alt.Chart(alt.Data(values=points)).mark_line(point=len(points) <= 100 * len(lines))
    encoding: dict[str, Any] = {
        "x": alt.X(f"{x}:Q", title="step"),
        "y": alt.Y(f"{y}:Q", scale=alt.Scale(zero=False)),
        "color": "tensor:N",
        "tooltip": [f"{x}:Q", f"{y}:Q", "tensor:N", "worker:N", "mode:N"],
    }
    if len({worker for _, worker in lines}) > 1:
        encoding["strokeDash"] = "worker:N"
    return chart.encode(**encoding).interactive()


def _thin(line: Sequence[Row], lines: int) -> Sequence[Row]:
    """Every n-th point, and the last one."""
    stride = math.ceil(len(line) / max(1, _POINTS // lines - 1))
    return line if stride == 1 else [*line[::stride], line[-1]]


def _point(row: Row, x: str, y: str) -> Row:
    number = row[y]
    shown = None if isinstance(number, float) and not math.isfinite(number) else number
    return {x: row[x], y: shown} | {key: row[key] for key in ("tensor", "worker", "mode")}
