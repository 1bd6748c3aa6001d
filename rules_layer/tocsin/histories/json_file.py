"""JSON: lines of objects, a list of objects, or objects of lists, of any tool."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from tocsin.histories.cells import number
from tocsin.histories.counters import is_counter
from tocsin.histories.lines import Lines
from tocsin.histories.scalar import BadHistory, Note, Row, check_size
from tocsin.words import clean

_MOST_BYTES = 64 << 20
_DEEPEST = 6
_INDEX = "index"  # the counter of values in lists
_FEWEST = 2  # rows, or values of a list, that are a history


class JsonLines:
    """One object a line. NaN and Infinity may be bare words or texts."""

    form = "JSON lines"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = Lines(path)

    def read(self, note: Note, *, growing: bool = False) -> Iterator[Row]:
        found = False
        for line in self._lines.read(growing=growing):
            text = line.strip().rstrip(",")
            if not text or text in "[]":
                continue
            place = f"{self.path}, line {self._lines.number}"
            try:
                row = json.loads(text)
            except (ValueError, RecursionError):
                if line.endswith("\n"):
                    raise BadHistory(f"{place}: not a JSON object; remove the line") from None
                note(f"{place}: the file breaks off, and everything before it is read")
                return
            if not isinstance(row, dict):
                raise BadHistory(f"{place}: not a JSON object; each line must be one")
            found = True
            yield dict(_flat(row))
        if not found and not growing:
            raise BadHistory(f"{self.path} has no row")


class JsonDocument:
    """A list of objects, an object of lists of numbers, or an object that holds one of these.

    So ``log_history`` of the Hugging Face Trainer, Keras' ``history.history``, results of LightGBM
    and XGBoost, and tables of pandas.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.form = "JSON"
        self._state: tuple[int, int] | None = None  # of the file that was read: size, time
        self._count = 0

    def read(self, note: Note, *, growing: bool = False) -> Iterator[Row]:
        check_size(self.path)
        found = self.path.stat()
        if self._state == (found.st_size, found.st_mtime_ns):
            return
        try:
            rows = [dict(row) for row in self._rows(found.st_size)]
        except BadHistory:
            if growing and self._state:  # it is being written
                return
            raise
        self._state = found.st_size, found.st_mtime_ns
        new = rows[self._count :] if len(rows) >= self._count else rows
        self._count = len(rows)
        yield from new

    def _rows(self, size: int) -> Iterable[Row]:
        if size > _MOST_BYTES:
            raise BadHistory(f"{self.path} has more than {_MOST_BYTES:,} bytes, and is not read")
        try:
            document = json.loads(self.path.read_bytes().decode("utf-8-sig", "replace"))
        except (ValueError, RecursionError) as error:
            raise BadHistory(f"{self.path}: not JSON: {error}") from None
        # A list of numbers alone has the file's name, as losses have in "loss.json".
        columns = dict(_columns(document, self.path.stem if isinstance(document, list) else ""))
        if found := rows_of(document, columns):
            if _INDEX in found[0] and len({len(values) for values in columns.values()}) > 1:
                self.form = "JSON (shorter lists are spread over the steps of the longest)"
            return found
        shown = _shown(document)
        raise BadHistory(
            f"{self.path}: no list of objects (one for each step), and no object of lists of "
            f"numbers (one for each scalar); it has {shown}"
        )


def rows_of(document: object, columns: Mapping[str, list[object]]) -> Sequence[Row]:
    """Return the rows of a JSON document with these lists of numbers; none if it is not a
    history."""
    if found := _of_catboost(document):
        return found
    lists = [each for each in _lists(document) if sum(isinstance(row, dict) for row in each) >= 1]
    best = max(lists, key=_worth, default=None)
    if best is not None and (len(best) >= _FEWEST or _worth(best) > 1):
        return [dict(_flat(row)) for row in best if isinstance(row, dict)]
    if columns and max(map(len, columns.values())) >= _FEWEST:
        return _of_columns(columns)
    if isinstance(document, dict) and (keyed := _of_keys(document)):
        return keyed
    return [dict(_flat(row)) for row in best or () if isinstance(row, dict)]


def _of_catboost(document: object) -> Sequence[Row]:
    """Rows of ``catboost_training.json``, which names its metrics apart from their values."""
    try:
        metrics = [metric["name"] for metric in document["meta"]["learn_metrics"]]  # type: ignore
        iterations = document["iterations"]  # type: ignore[index]
        return [
            {"iteration": row["iteration"]}
            | {
                f"{part}/{name}": value
                for part, values in row.items()
                if isinstance(values, list)
                for name, value in zip(metrics, values, strict=False)
            }
            for row in iterations
        ]
    except (KeyError, TypeError, IndexError, AttributeError):
        return []


def _worth(rows: Sequence[object]) -> int:
    """Return how many numbers a list of objects has."""
    return sum(
        sum(number(value) is not None for _, value in _flat(row))
        for row in rows
        if isinstance(row, dict)
    )


def _lists(document: object, depth: int = 0) -> Iterator[list[object]]:
    """The lists within a document that hold no numbers themselves."""
    if isinstance(document, list) and document and isinstance(document[0], dict):
        yield document
    elif isinstance(document, dict) and depth < _DEEPEST:
        for value in document.values():
            yield from _lists(value, depth + 1)


def _columns(
    document: object, name: str = "", depth: int = 0
) -> Iterator[tuple[str, list[object]]]:
    """The lists of numbers within a document, by their keys; pandas' objects of an index, too."""
    if isinstance(document, list):
        values = [
            each[0] if isinstance(each, list) and len(each) == 1 else each for each in document
        ]
        if len(values) >= 1 and all(each is None or number(each) is not None for each in values):
            yield name, values
        elif values and all(map(_is_pair, values)):
            yield name, [tuple(each) for each in values if isinstance(each, list)]
    elif isinstance(document, dict) and depth < _DEEPEST:
        keys = [found for key in document if (found := number(key)) is not None]
        if len(document) == len(keys) >= _FEWEST and keys == sorted(keys):
            values = [*document.values()]
            if all(each is None or number(each) is not None for each in values):
                yield name, [*zip(keys, values, strict=True)]
                return
        for key, value in document.items():
            yield from _columns(value, f"{name}/{key}" if name else str(key), depth + 1)


def _is_pair(value: object) -> bool:
    """Return whether a value is a step with a number, perhaps after a time."""
    return (
        isinstance(value, list)
        and len(value) in (2, 3)
        and all(number(part) is not None for part in value)
    )


def _of_columns(columns: Mapping[str, list[object]]) -> Sequence[Row]:
    """Rows of columns. A list of pairs has its steps; lists of other lengths are spread.

    A prefix that all names share is left out.
    """
    columns = _without_common(columns)
    paired = {name: values for name, values in columns.items() if isinstance(values[0], tuple)}
    if paired:
        by_step: dict[float, dict[str, object]] = {}
        for name, values in paired.items():
            for *_, step, value in (each for each in values if isinstance(each, tuple)):
                by_step.setdefault(float(step), {})[name] = value
        return [{"step": step, **by_step[step]} for step in sorted(by_step)]
    if any(is_counter(name) and len(values) > 1 for name, values in columns.items()):
        return [
            {name: value for name, value in zip(columns, row, strict=True) if value is not None}
            for row in zip_longest(*columns.values())
        ]
    longest = max(len(values) for values in columns.values())
    rows: list[dict[str, object]] = [{_INDEX: at} for at in range(longest)]
    for name, values in columns.items():
        for at, value in enumerate(values):
            rows[(at + 1) * longest // len(values) - 1][name] = value
    return rows


def _without_common(columns: Mapping[str, list[object]]) -> dict[str, list[object]]:
    first = {name.partition("/")[0] for name in columns}
    inner = all("/" in name for name in columns)
    if len(first) == 1 and inner and next(iter(first)).lower() in ("history", "metrics", "results"):
        return {name.partition("/")[2]: values for name, values in columns.items()}
    return dict(columns)


def _of_keys(document: Mapping[str, object]) -> Sequence[Row]:
    """Rows of an object whose keys count: ``{"0": {…}, "1": {…}}``, ``{"epoch_1": {…}}``."""
    rows: list[Row] = []
    for key, value in document.items():
        digits = "".join(character for character in key if character.isdigit())
        if not isinstance(value, dict) or not digits or len(digits) > 9:
            return []
        rows.append({"epoch": int(digits), **dict(_flat(value))})
    return rows if len(rows) >= _FEWEST else []


def _flat(
    row: Mapping[str, object], name: str = "", depth: int = 0
) -> Iterator[tuple[str, object]]:
    """The values of an object, those of objects in it under ``key/key``."""
    for key, value in row.items():
        path = f"{name}/{key}" if name else str(key)
        if isinstance(value, dict) and depth < _DEEPEST:
            yield from _flat(value, path, depth + 1)
        else:
            yield path, value


def _shown(document: object) -> str:
    if isinstance(document, dict):
        return f"the keys {clean(', '.join(map(str, document)), 100)}" if document else "no key"
    return f"a list of {len(document)}" if isinstance(document, list) else "neither"
