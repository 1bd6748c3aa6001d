"""A CSV: exported from Weights & Biases, written by Keras' CSVLogger or Lightning, or any other."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from tocsin.histories.lines import Lines
from tocsin.histories.scalar import BadHistory, Note, Scalar
from tocsin.histories.table import STEPS, Row, Table

_MOST_COLUMNS = 2000
_OF_A_RUN = re.compile(r"(.+?) - (.+)")  # a chart of Weights & Biases: "NAME OF RUN - loss"
_BOUND = re.compile(r"__(?:MIN|MAX)$")
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+(?:[eE][+-]?\d+)?\s*")


class CsvFile:
    """Columns divided by commas, semicolons or tabs; the first line names them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines, self._table = Lines(path), Table(path)
        self._names: Sequence[str] = ()
        self._delimiter = ","

    def read(self, note: Note, *, growing: bool = False) -> Iterator[Scalar]:
        begins = self._lines.begins()
        lines = self._lines.read(growing=growing)
        try:
            if begins and not self._read_names(lines, growing):
                return
            rows = csv.reader(lines, delimiter=self._delimiter)
            found = _rows(rows, self._names, self._delimiter)
            yield from self._table.scalars(found, note, growing=growing)
        except csv.Error as error:
            at = self._lines.number
            raise BadHistory(f"{self.path}, line {at}: not a CSV: {error}") from None

    def _read_names(self, lines: Iterator[str], growing: bool) -> bool:
        """Whether there is a first line yet."""
        first = next((line for line in lines if line.strip()), "")
        if first:
            self._delimiter = _delimiter(first)
            header = next(csv.reader(chain([first], lines), delimiter=self._delimiter))
            self._names = _columns(header, self.path)
        elif not growing:
            raise BadHistory(f"{self.path} is empty: the first line of a CSV names its columns")
        return bool(first)


def names_a_step(line: str) -> bool:
    """Whether a line looks like the first of a CSV: one of its columns is the step."""
    return not {*STEPS}.isdisjoint(name.strip(' "\r') for name in line.split(_delimiter(line)))


def _delimiter(line: str) -> str:
    return max(",;\t", key=line.count)


def _rows(rows: Iterator[list[str]], names: Sequence[str], delimiter: str) -> Iterator[Row]:
    for row in rows:
        cells = ((name, cell) for name, cell in zip(names, row, strict=False) if name and cell)
        if delimiter == ";":  # where a number has a decimal comma
            cells = ((name, _with_point(cell)) for name, cell in cells)
        if found := dict(cells):
            yield found


def _with_point(cell: str) -> str:
    return cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell) else cell


def _columns(header: Sequence[str], path: Path) -> list[str]:
    """The names of columns, empty for one to leave out."""
    if len(header) > _MOST_COLUMNS:
        raise BadHistory(f"{path} has {len(header):,} columns, more than {_MOST_COLUMNS:,}")
    names = ["" if _BOUND.search(name) else name.strip() for name in header]
    if not {*names} & {*STEPS}:
        shown = ", ".join(name for name in names if name)[:80]
        raise BadHistory(f"{path}: no column is the step: name one {STEPS[0]} (columns: {shown})")
    parts = {name: _OF_A_RUN.fullmatch(name) for name in names if name and name not in STEPS}
    runs = sorted({found[1] for found in parts.values() if found})
    if len(runs) > 1:
        raise BadHistory(
            f"{path} has columns of {len(runs)} runs ({', '.join(runs)[:80]}): export one run"
        )
    return [found[2] if (found := parts.get(name)) else name for name in names]
