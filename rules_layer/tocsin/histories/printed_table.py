"""A table that a training prints: names, a line of dashes below them, and a row for each step."""

from __future__ import annotations

import re

from tocsin.histories.cells import is_empty, number
from tocsin.histories.counters import is_counter
from tocsin.histories.names import is_loss
from tocsin.histories.scalar import Row

_RULE = re.compile(r"[\s|+:=─-]*[=─-]{3}[\s|+:=─-]*")
_COLUMN = re.compile(r"[=─-]+")
_MEANT = {"#": "step", "E": "epoch"}  # of spaCy


class PrintedTable:
    """Reads the rows of tables line by line, as spaCy, skorch and MATLAB print them.

    Bars divide the columns, or they stand below the dashes. Names may have two lines.
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._above = ["", ""]  # lines

    def row(self, line: str) -> Row | None:
        """Return the cells of a line by their names; None if it is not a row of a table."""
        if _RULE.fullmatch(line):
            names = _names(self._above, line)
            if any(map(is_counter, names)) and any(map(is_loss, names)):
                self._names = names
        cells = _cells(line)
        self._above = [self._above[1], line]
        of_numbers = all(is_empty(cell) or number(cell) is not None for cell in cells)
        if not of_numbers or not cells or len(cells) != len(self._names):
            return None
        return dict(zip(self._names, cells, strict=True))


def _names(lines: list[str], rule: str) -> list[str]:
    """Return the names above a line of dashes."""
    if "|" in lines[1]:
        barred = [_cells(line) for line in lines if line.count("|") == lines[1].count("|")]
        return [" ".join(filter(None, parts)) for parts in zip(*barred, strict=True)]
    starts = [dashes.start() for dashes in _COLUMN.finditer(rule)]
    places = zip(starts, [*starts[1:], None], strict=True)
    found = [lines[1][start:end].strip() for start, end in places]
    return [_MEANT.get(name, name) for name in found]


def _cells(line: str) -> list[str]:
    if "|" not in line:
        return line.split()
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
