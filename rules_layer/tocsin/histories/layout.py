"""The meaning of a table's columns: step, phase, time, name of a training, scalar."""

from __future__ import annotations

from collections import Counter as Counts
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from tocsin.histories.cells import has_decimal_comma, is_empty, number
from tocsin.histories.counters import (
    Counter,
    Entry,
    Steps,
    best_counter,
    candidates,
    counter_key,
    is_counter,
)
from tocsin.histories.names import is_loss, is_phase
from tocsin.histories.scalar import BadHistory, Row, Scalar
from tocsin.words import clean

BY_ROW = "row"
"""The name of the step that counts rows, for ``--step``."""

_TIMES = {"timestamp", "walltime", "time", "datetime", "date", "createdat", "ts"}
_NOT_SCALARS = {"relativetimeprocess", "relativetimewall", "runtime", "id", "pid"}
_PHASES = {"mode", "split", "phase", "subset", "partition", "stage", "set", "dataset", "trainval"}
_TRAININGS = {
    "run", "runid", "runname", "fold", "seed", "trial", "trialid", "model", "modelname", "exp",
    "experiment", "experimentid", "client", "clientid", "worker", "rank", "cv", "kfold", "config",
}  # fmt: skip
_NAMES = {"tag", "metric", "metricname", "name", "key", "variable", "scalar"}
_VALUES = {"value", "val", "metricvalue", "scalarvalue"}
_MOST_GROUPS = 200
_BY_GROUPS = 5  # times fewer values that overwrite others: the table has several trainings
_LOOKED_AT = 20_000  # rows, by which a table is laid out
_EARLIEST = 1e9  # seconds since the epoch; smaller numbers are durations


@dataclass
class Column:
    """The cells of a column: numbers, texts that are none with an example, and different texts."""

    numbers: int = 0
    others: int = 0
    example: str = ""
    texts: set[str] = field(default_factory=set)

    def add(self, value: object, found: float | None) -> None:
        if found is not None:
            self.numbers += 1
        elif not is_empty(value):
            self.others += 1
            text = value if isinstance(value, str) else type(value).__name__
            self.example = self.example or clean(text, 20)
            if len(self.texts) <= _MOST_GROUPS:
                self.texts.add(text)


@dataclass(frozen=True)
class Layout:
    """The meaning of each column of a table.

    phase: the column that says whether a row is of training or of an evaluation.
    trainings: the columns that say which training a row belongs to.
    names: the column with the names of the scalars, whose numbers are in the column ``values``.
    main: the phase of most rows: its rows count the steps of an epoch.
    """

    counter: Counter
    comma: bool = False
    phase: str | None = None
    trainings: tuple[str, ...] = ()
    names: str | None = None
    values: str | None = None
    main: str = ""

    def entry(self, row: Row) -> Entry:
        """Return the numbers of a row, and its series."""
        numbers = {
            name: found
            for name, value in row.items()
            if value is not None and (found := number(value, comma=self.comma)) is not None
        }
        training = ", ".join(str(row[name]) for name in self.trainings if name in row)
        if self.names and self.values:
            name = str(row.get(self.names, "")).strip()
            values = {name: numbers[self.values]} if name and self.values in numbers else {}
            return Entry(numbers, values, training)
        phase = self.phase_of(row)
        prefix = f"{phase}/" if phase else ""
        values = {
            prefix + name: value
            for name, value in numbers.items()
            if name not in self.trainings and is_scalar(name, value)
        }
        return Entry(numbers, values, training)

    def phase_of(self, row: Row) -> str:
        return str(row.get(self.phase, "")).strip().lower() if self.phase else ""


def is_scalar(name: str, value: float) -> bool:
    """Return whether a number is neither of a counter nor a time."""
    key = counter_key(name)
    if key == "time":
        return not value >= _EARLIEST  # else it is how long something took
    return not (is_counter(name) or key in _NOT_SCALARS or key in _TIMES)


def time_of(row: Row) -> float | None:
    """Return the time at which a row was recorded, in seconds since the epoch; None if not
    known."""
    for name, value in row.items():
        if counter_key(name) not in _TIMES:
            continue
        found = number(value)
        if found is None and isinstance(value, str):
            try:
                return datetime.fromisoformat(value.strip().replace(",", ".")).timestamp()
            except (ValueError, OverflowError, OSError):
                continue
        if found is not None and found >= _EARLIEST:
            return found / 1000 if found >= 1000 * _EARLIEST else found
    return None


def layout_of(rows: Sequence[Row], path: Path, step: str | None = None) -> Layout:
    """Decides how a table is read. Raises BadHistory where its rows have no order.

    step: the name of the column that is the step, or ``row``; None: by the columns.
    """
    rows = rows[:_LOOKED_AT]
    comma = _has_decimal_comma(rows)
    columns = _columns(rows, comma)
    names = _one_of(columns, _NAMES, texts=True)
    values = _one_of(columns, _VALUES, texts=False)
    plain = Layout(
        Counter(()),
        comma,
        phase=_phase_column(columns),
        names=names if names and values else None,
        values=values if names and values else None,
    )
    phases = Counts(plain.phase_of(row) for row in rows)
    main = max(phases, key=lambda phase: phases[phase], default="")
    plain = replace(plain, main=main)
    if step is not None:
        if step != BY_ROW and step not in columns:
            shown = clean(", ".join(columns), 200)
            raise BadHistory(f"{path}: no column {step!r} for --step; there are: {shown}")
        known = [] if step == BY_ROW else [(step,)]
        return _with_trainings(plain, rows, columns, known, given=True)
    found = _with_trainings(plain, rows, columns, candidates(columns), given=False)
    named = [
        name
        for name, column in columns.items()
        if len(column.texts) > 1
        and counter_key(name) not in _TIMES
        and name != plain.phase
        and not column.example.startswith("[")  # an array
    ]
    uncounted = not (found.counter.columns or found.names or found.trainings)
    if uncounted and named and any(found.entry(row).scalars for row in rows):
        shown = clean(", ".join(columns), 120)
        raise BadHistory(
            f"{path}: no column counts steps; {named[0]!r} only names the rows, such as "
            f"{columns[named[0]].example!r}. Name the step column with --step NAME, or number "
            f"the rows with --step row (columns: {shown})"
        )
    return found


def _with_trainings(
    plain: Layout,
    rows: Sequence[Row],
    columns: Mapping[str, Column],
    known: Sequence[tuple[str, ...]],
    *,
    given: bool,
) -> Layout:
    """The layout with its counter, and with columns of trainings if these explain what repeats.

    If rows have losses, these decide: others may have no step, such as those of a class.
    """
    rows = [row for row in rows if any(map(is_loss, plain.entry(row).scalars))] or rows
    counter = best_counter(known, [plain.entry(row) for row in rows], given=given)
    cost = counter.cost + counter.same if counter else len(rows)
    if cost and known:
        groups = [
            name
            for name, column in columns.items()
            if name != plain.phase and name != plain.names and _may_name_trainings(name, column)
        ]
        for group in [*((name,) for name in groups), tuple(groups)]:
            grouped = replace(plain, counter=counter or Counter(()), trainings=group)
            found = best_counter(known, [grouped.entry(row) for row in rows], given=given)
            if group and found and _BY_GROUPS * (found.cost + found.same) <= cost:
                return replace(plain, counter=found, trainings=group)
    return replace(plain, counter=counter or Counter(()), trainings=())


def _may_name_trainings(name: str, column: Column) -> bool:
    key = counter_key(name)
    if not column.numbers:
        return 1 < len(column.texts) <= _MOST_GROUPS and key not in _TIMES
    return key in _TRAININGS and not column.others


def _columns(rows: Iterable[Row], comma: bool) -> dict[str, Column]:
    columns = defaultdict[str, Column](Column)
    for row in rows:
        for name, value in row.items():
            columns[name].add(value, number(value, comma=comma))
    return columns


def _phase_column(columns: Mapping[str, Column]) -> str | None:
    for name, column in columns.items():
        phases = [text for text in column.texts if is_phase(text.strip())]
        surely = len(phases) == len(column.texts) or counter_key(name) in _PHASES
        if not column.numbers and phases and surely:
            return name
    return None


def _one_of(columns: Mapping[str, Column], keys: set[str], *, texts: bool) -> str | None:
    for name, column in columns.items():
        if counter_key(name) in keys and (
            column.others > column.numbers if texts else column.numbers > column.others
        ):
            return name
    return None


def _has_decimal_comma(rows: Sequence[Row]) -> bool:
    """Return whether the table has decimal commas: more cells show one than the opposite.

    ``1,234`` shows neither; in a table without any decimal point it has one, if others are small.
    """
    shown: Counts[bool | None] = Counts()
    for row in rows[:5000]:
        for value in row.values():
            if isinstance(value, str) and "," in value:
                shown[has_decimal_comma(value)] += 1
    return shown[True] > shown[False]


def columns_left_out(columns: Mapping[str, Column], layout: Layout) -> list[str]:
    """Describe the cells that are not numbers, once for each column."""
    used = {layout.phase, layout.names, *layout.trainings}
    found = []
    for name, column in columns.items():
        if not column.others or name in used or counter_key(name) in _TIMES:
            continue
        example = f"as {column.example!r}"
        if column.numbers:
            cells = "1 cell" if column.others == 1 else f"{column.others:,} cells"
            found.append(f"{cells} of {clean(name, 40)} ({example})")
        else:
            found.append(f"{clean(name, 40)} ({example})")
    return found


def scalars_of(
    rows: Iterable[Row], layout: Layout, steps: Steps, columns: defaultdict[str, Column]
) -> Iterator[Scalar]:
    """Yield the scalars of rows. Counts the cells of ``columns``."""
    for row in rows:
        entry = layout.entry(row)
        for name, value in row.items():
            columns[name].add(value, entry.numbers.get(name))
        if not entry.scalars:
            continue
        beside = len(layout.counter.columns) > 1 and layout.phase_of(row) != layout.main
        step, borrowed = steps.beside() if beside else steps.of(entry.numbers)
        if step is None:
            continue
        steps.carried += borrowed and not beside
        time = time_of(row)
        for name, value in entry.scalars.items():
            if steps.is_copy(name, step):
                continue
            yield Scalar(name, step, value, time, entry.training, borrowed and not beside)
