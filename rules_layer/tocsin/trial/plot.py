"""A run as a chart of Altair."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from tocsin.trial.rows import NUMBERS, Row

_POINTS = 5000  # what Altair draws


def plot(
    rows: Sequence[Row],
    x: str,
    y: str | None = None,
    *,
    title: str = "",
    log: bool = False,
    fired: Mapping[str, int] | None = None,
) -> Any:
    """Lines of column ``y`` over the steps, one for each tensor (and worker).

    ``y`` is by default ``value`` where there are any, else ``mean``. Long lines are thinned to
    5,000 points altogether; a number that is not finite is a gap, and with ``log`` one that is not
    positive. ``fired``: rule -> step, marked by a vertical line. Raises ValueError where no row has
    a ``y``, ModuleNotFoundError where Altair is not installed.
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
    points = [_point(row, x, y, log) for line in lines.values() for row in _thin(line, len(lines))]
    chart = alt.Chart(alt.Data(values=points)).mark_line(point=len(points) <= 100 * len(lines))
    encoding: dict[str, Any] = {
        "x": alt.X(f"{x}:Q", title="step"),
        "y": alt.Y(f"{y}:Q", scale=alt.Scale(type="log") if log else alt.Scale(zero=False)),
        "color": "tensor:N",
        "tooltip": [f"{x}:Q", f"{y}:Q", "tensor:N", "worker:N", "mode:N"],
    }
    if len({worker for _, worker in lines}) > 1:
        encoding["strokeDash"] = "worker:N"
    chart = chart.encode(**encoding).interactive()
    marked = alt.layer(chart, *_marks(alt, x, fired)) if fired else chart
    return marked.properties(title=title)


def fired_steps(found: Mapping[str, Any], mode: str | None = None) -> dict[str, int]:
    """Rule -> step at which it fired, of a document of ``tocsin check`` or of such a mapping.

    With ``mode``, the mode steps of the rules that fired in it.
    """
    if "rules" not in found:
        return dict(found)
    fired = {rule["RuleConfigurationName"]: rule.get("FiredAt") for rule in found["rules"]}
    return {
        rule: at["step"] if mode is None else at["mode_step"]
        for rule, at in fired.items()
        if at is not None and mode in (None, at["mode"])
    }


def _marks(alt: Any, x: str, fired: Mapping[str, int]) -> tuple[Any, Any]:
    """A dashed line at each step at which rules fired, with their names."""
    by_step: dict[int, list[str]] = {}
    for rule, step in fired.items():
        by_step.setdefault(step, []).append(rule)
    marks = [{x: step, "rules": ", ".join(rules)} for step, rules in sorted(by_step.items())]
    at = alt.Chart(alt.Data(values=marks)).encode(x=f"{x}:Q", tooltip="rules:N")
    line = at.mark_rule(strokeDash=[4, 4], color="firebrick")
    text = at.mark_text(align="left", dx=4, y=8, color="firebrick").encode(text="rules:N")
    return line, text


def _thin(line: Sequence[Row], lines: int) -> Sequence[Row]:
    """Every n-th point, and the last one."""
    stride = math.ceil(len(line) / max(1, _POINTS // lines - 1))
    return line if stride == 1 else [*line[::stride], line[-1]]


def _point(row: Row, x: str, y: str, log: bool) -> Row:
    number = row[y]
    gap = not math.isfinite(number) or (log and number <= 0)
    return {x: row[x], y: None if gap else number} | {
        key: row[key] for key in ("tensor", "worker", "mode")
    }
