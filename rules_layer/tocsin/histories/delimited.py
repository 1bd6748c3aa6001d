"""A CSV: exported from Weights & Biases, written by Keras' CSVLogger or Lightning, or any other."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path

from tocsin.histories.cells import number
from tocsin.histories.counters import counter_key, is_counter
from tocsin.histories.lines import Lines
from tocsin.histories.names import is_loss
from tocsin.histories.scalar import BadHistory, Note, Row

_MOST_COLUMNS = 2000
_OF_A_RUN = re.compile(r"(.+?) - (.+)")  # a chart of Weights & Biases: "NAME OF RUN - loss"
_BOUND = re.compile(r"__(?:MIN|MAX)$")
_OF_A_TAG = re.compile(r"(?:.*?[-_])?tag[-_](.+)")  # run-train-tag-epoch_loss.csv of TensorBoard
_OF_ONE_SCALAR = {"walltime", "step", "value"}  # of TensorBoard, whose file has the scalar's name
_RULE = re.compile(r"[\s|+=-]+")  # the line below the header of a table in Markdown
_NAME = re.compile(r"\s*[A-Za-z][\w/. :-]*\s*")
_SPACES = "  "
_MOST_SERIES = 8  # lines, each of which may be a series
_LONG = 20  # numbers for each line, from which on it is
_OF_A_LONG_TABLE = ("step", "name", "value")


class Delimited:
    """Columns divided by commas, semicolons, tabs, bars or spaces; the first line names them."""

    form = "CSV"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = Lines(path)
        self._header: list[str] = []
        self._names: Sequence[str | None] = ()
        self._runs = False  # whether the columns are of several runs
        self._delimiter = ","
        self._ahead: list[str] = []  # lines that were looked at
        self._headers: dict[int, list[str]] = {}  # the newest of each length
        self._turned: list[Row] = []  # of a file whose lines are series

    def read(self, note: Note, *, growing: bool = False) -> Iterator[Row]:
        begins = self._lines.begins()
        lines = (
            part
            for line in self._lines.read(growing=growing)
            for part in (line.split("\r") if "\r" in line.rstrip("\r\n") else (line,))
            if not _is_comment(part)
        )
        try:
            if begins and not self._read_names(lines, growing):
                return
            if self._turned:
                yield from self._turned
            else:
                yield from self._rows(chain(self._ahead, lines), note)
        except csv.Error as error:
            at = self._lines.number
            raise BadHistory(f"{self.path}, line {at}: not a CSV: {error}") from None

    def _read_names(self, lines: Iterator[str], growing: bool) -> bool:
        """Return whether there is a first line yet."""
        first = next((line for line in lines if line.strip()), "")
        if first:
            self._delimiter = delimiter(first)
            self._header = next(self._split(chain([first], lines)))
            if _is_long(self._header):
                self._ahead, self._header = [first], [*_OF_A_LONG_TABLE]
            elif all(map(_is_number, _without_last(self._header))):
                self._ahead = [first, *islice(lines, 1 if growing else _MOST_SERIES)]
                if not growing and self._is_turned():
                    return True
                self._header = _of_numbers(self._ahead, self._delimiter, self.path)
            self._use(self._header)
        elif not growing:
            raise BadHistory(f"{self.path} is empty: the first line of a CSV names its columns")
        return bool(first)

    def _is_turned(self) -> bool:
        """Return whether the lines are series: a few long ones of numbers, in a file of losses."""
        lines = [_without_last(_cells(line, self._delimiter)) for line in self._ahead]
        few = len(lines) <= _MOST_SERIES and min(map(len, lines)) >= _LONG * len(lines)
        if not few or not is_loss(self.path.stem):
            return False
        names = _different([self.path.stem] * len(lines))
        self._turned = [
            {str(name): cell for name, cell in zip(names, cells, strict=True) if cell is not None}
            for cells in zip_longest(*lines)
        ]
        self.form = "CSV (each line is a series)"
        return True

    def _use(self, header: list[str]) -> None:
        """Read the next rows with these names: a file may have several tables in turns."""
        self._header = header
        self._names, self._runs = _columns(header, self.path)

    def _split(self, lines: Iterator[str]) -> Iterator[list[str]]:
        if self._delimiter == _SPACES:
            return (line.split() for line in lines)
        return csv.reader(lines, delimiter=self._delimiter, skipinitialspace=True)

    def _rows(self, lines: Iterator[str], note: Note) -> Iterator[Row]:
        longer = 0
        counts = any(map(is_counter, self._header))
        for cells in self._split(lines):
            if self._delimiter == "|" and _RULE.fullmatch("".join(cells)):
                continue
            if cells in (self._header, self._headers.get(len(cells))) or _is_header(
                cells, self._header
            ):
                self._headers[len(self._header)] = self._header
                self._use(cells)
                continue
            if len(cells) != len(self._header) and (other := self._headers.get(len(cells))):
                self._headers[len(self._header)] = self._header
                self._use(other)
            names = self._names
            cells = _without_blanks(cells, len(names))
            if len(cells) == len(self._header) + 1 and cells[-1].strip() and not counts:
                names = ["", *names]  # R leaves out the name of the index
            longer += len(cells) > len(names) and any(cell.strip() for cell in cells[len(names) :])
            pairs = zip(names, cells, strict=False)
            if row := {name: cell for name, cell in pairs if name is not None and cell}:
                yield from _of_runs(row) if self._runs else (row,)
        if longer:
            note(f"{self.path}: {longer:,} lines have more cells than columns: the rest is skipped")


def _without_blanks(cells: list[str], columns: int) -> list[str]:
    """Return a row without its empty cells, if these are as many as it has cells too many: its
    writer divided columns by two delimiters."""
    filled = [cell for cell in cells if cell.strip()]
    return filled if columns == len(filled) < len(cells) else cells


def _without_last(cells: Sequence[str]) -> Sequence[str]:
    """Return a row without its last cell, if that is empty: its line ends with the delimiter."""
    return cells[:-1] if len(cells) > 1 and not cells[-1].strip() else cells


def looks_delimited(first: str, second: str) -> bool:
    """Return whether two lines look like the header of a CSV with a step, and a row."""
    at = delimiter(first)
    names, cells = _cells(first, at), _cells(second, at)
    if len(names) < 2 or sum(map(_is_number, names)) > 1:
        return False
    numbers = sum(map(_is_number, cells)) if len(cells) == len(names) else 0
    if at == _SPACES:
        return 0 < numbers == len(cells)
    return any(name and is_counter(name) for name in names) or numbers * 2 > len(cells)


def lacks_names(first: str, second: str) -> bool:
    """Return whether two lines are rows of a table whose columns have no names: numbers, or a step
    with the name and the value of a scalar."""
    one, other = (_cells(line, delimiter(line)) for line in (first, second))
    of_numbers = all(map(_is_number, (*one, *other)))
    return (of_numbers and len(one) == len(other) > 0) or (_is_long(one) and _is_long(other))


def _is_long(cells: Sequence[str]) -> bool:
    """Return whether a row without names has a step, the name of a scalar and its value."""
    return [_is_number(cell) for cell in cells] == [True, False, True] and bool(
        _NAME.fullmatch(cells[1])
    )


def _of_numbers(lines: Sequence[str], at: str, path: Path) -> list[str]:
    """Return names for a table that has none: scalars have the file's name, as losses have in
    ``loss.csv``; what rises by whole numbers beside one or more is the step.

    Raises BadHistory for several columns that the file's name does not call losses, and for a
    single row of them.
    """
    first, *rest = ([number(cell) or 0.0 for cell in _cells(line, at)] for line in lines)
    if len(first) > 2 and not (rest and is_loss(path.stem)):
        raise BadHistory(
            f"{path}: its first line has numbers, not column names: add a line such as epoch,loss"
        )
    second = rest[0] if rest and len(rest[0]) == len(first) else first
    rises = [b.is_integer() and a < b for a, b in zip(first, second, strict=True)]
    step = rises.index(True) if any(rises) and len(first) > 1 else None
    return ["step" if at == step else path.stem for at in range(len(first))]


def delimiter(line: str) -> str:
    """Return the character that divides a line into columns; two spaces stand for any space."""
    found = max(",;\t|", key=line.count)
    return found if found in line else _SPACES


def _cells(line: str, at: str) -> list[str]:
    cells = line.split() if at == _SPACES else line.split(at)
    return [cell.strip(' "\r\n') for cell in cells]


def _is_comment(line: str) -> bool:
    return line.startswith("#") and not re.match(r"#\s*\w+\s*[,;\t|]", line)


def _is_number(cell: str) -> bool:
    return number(cell) is not None


def _is_header(cells: Sequence[str], header: Sequence[str]) -> bool:
    """Return whether a line names the columns again, perhaps others."""
    if len(cells) < 2 or not all(map(_NAME.fullmatch, cells)):
        return False
    same = sum(cell in header for cell in cells)
    return len(cells) != len(header) or (same > 1 and 2 * same > len(cells))


def _of_runs(row: Row) -> Iterator[Row]:
    """A row for each run of a chart, whose columns are RUN - NAME beside the step."""
    runs: dict[str, dict[str, object]] = {}
    shared: dict[str, object] = {}
    for name, cell in row.items():
        if found := None if is_counter(name) else _OF_A_RUN.fullmatch(name):
            runs.setdefault(found[1], {})[found[2]] = cell
        else:
            shared[name] = cell
    return ({**shared, "run": run, **cells} for run, cells in runs.items())


def _columns(header: Sequence[str], path: Path) -> tuple[list[str | None], bool]:
    """The names of columns, None for one to leave out, and whether they are of several runs."""
    if len(header) > _MOST_COLUMNS:
        raise BadHistory(f"{path} has {len(header):,} columns, more than {_MOST_COLUMNS:,}")
    names = [None if _BOUND.search(name) else name.strip().lstrip("# ") for name in header]
    if len(_without_last(header)) < len(header):
        names[-1] = None
    if names and names[0] is None and not header[0].strip():
        names[0] = ""
    parts = {name: _OF_A_RUN.fullmatch(name) for name in names if name and not is_counter(name)}
    runs = {found[1] for found in parts.values() if found}
    if not all(parts.values()):  # it is no chart
        runs, parts = set(), {}
    if len(runs) > 1:
        return names, True
    named = [
        found[2] if name is not None and (found := parts.get(name)) else name for name in names
    ]
    keys = {counter_key(name) for name in named if name is not None}
    if keys == _OF_ONE_SCALAR:
        tag = _OF_A_TAG.fullmatch(path.stem)
        only = tag[1] if tag else path.stem
        return [
            only if name is not None and counter_key(name) == "value" else name for name in named
        ], False
    return _different(named), False


def _different(names: Sequence[str | None]) -> list[str | None]:
    """The names, numbered where one comes again."""
    count: dict[str, int] = {}
    found: list[str | None] = []
    for name in names:
        if name is None:
            found.append(None)
            continue
        count[name] = count.get(name, 0) + 1
        found.append(name if count[name] == 1 else f"{name}.{count[name] - 1}")
    return found
