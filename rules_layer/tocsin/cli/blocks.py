"""A curve in blocks, for a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from rich.text import Text

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_LOG = 30.0  # from this ratio of the ends on, the scale is logarithmic
_MOST = 1000.0  # times the median; higher columns are cut, or one step would flatten all others
_LOST = "×"
_LOST_STYLE, _CUT_STYLE, _STYLE = "red", "red", "blue"


@dataclass(frozen=True)
class Chart:
    """Lines of a chart, the highest first, with the numbers at its ends. Empty without numbers."""

    lines: Sequence[Text]
    low: float | None
    high: float | None
    log: bool


def chart(values: Sequence[float | None], width: int, height: int) -> Chart:
    """Each column is the last of its values.

    One that is not finite (None) is a red ``×``, one beyond the chart is red up to its top.
    """
    columns = _last_of_each(values, max(1, width))
    finite = [value for value in columns if value is not None]
    if not finite:
        return Chart(
            [Text(_LOST * len(columns), _LOST_STYLE)] if columns else [], None, None, False
        )
    low, middle = min(finite), median(finite)
    high = min(max(finite), _MOST * middle) if middle > 0 else max(finite)
    log = low > 0 and high / low > _LOG
    drawn = [_column(value, low, high, log, height) for value in columns]
    lines = [_line([column[row] for column in drawn]) for row in range(height)]
    return Chart(lines, low, high, log)


def _last_of_each(values: Sequence[float | None], width: int) -> list[float | None]:
    count = len(values)
    if count <= width:
        return list(values)
    return [values[(at + 1) * count // width - 1] for at in range(width)]


def _column(
    value: float | None, low: float, high: float, log: bool, height: int
) -> list[tuple[str, str]]:
    """The characters of a column with their styles, the highest first."""
    if value is None:
        return [("", " ")] * (height - 1) + [(_LOST_STYLE, _LOST)]
    style = _CUT_STYLE if value > high else _STYLE
    eighths = max(1, round(_share(min(value, high), low, high, log) * height * 8))
    return [(style, _EIGHTHS[max(0, min(8, eighths - 8 * row))]) for row in reversed(range(height))]


def _share(value: float, low: float, high: float, log: bool) -> float:
    if log:
        value, low, high = math.log(value), math.log(low), math.log(high)
    if high <= low:
        return 0.5
    return (value / 2 - low / 2) / (high / 2 - low / 2)  # halved: a distance may be infinite


def _line(characters: Sequence[tuple[str, str]]) -> Text:
    line = Text()
    for style, run in groupby(characters, lambda character: character[0]):
        line.append("".join(character for _, character in run), style)
    return line
