"""A history of rows: whatever wrote them, they are read in one way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tocsin.histories.counters import Steps
from tocsin.histories.layout import Column, Layout, columns_left_out, layout_of, scalars_of
from tocsin.histories.scalar import Note, Row, Rows, Scalar

BY_ORDER = "row number"
_MOST_ROWS = 2_000_000


class Table:
    """The scalars of rows. How they are read is decided by the rows of the first reading."""

    def __init__(self, rows: Rows, step: str | None = None) -> None:
        self.path: Path = rows.path
        self._rows, self._step = rows, step
        self._layout: Layout | None = None
        self._steps: Steps | None = None
        self._columns = defaultdict[str, Column](Column)

    def read(self, note: Note, *, growing: bool = False) -> Iterator[Scalar]:
        rows: list[Row] = list(islice(self._rows.read(note, growing=growing), _MOST_ROWS))
        if self._layout is None or self._steps is None:
            if not rows:
                return
            self._layout = layout_of(rows, self.path, self._step)
            self._steps = Steps(self._layout.counter)
        yield from scalars_of(rows, self._layout, self._steps, self._columns)

    def describe(self) -> tuple[str, str, list[str]]:
        if self._layout is None or self._steps is None:
            return self._rows.form, "", []
        left_out = columns_left_out(self._columns, self._layout)
        if self._steps.carried:
            rows = "1 row" if self._steps.carried == 1 else f"{self._steps.carried:,} rows"
            left_out.append(f"{rows} without a step: the step of the row before is used")
        if (copies := self._layout.counter.copies) > 1:
            left_out.append(
                f"{copies} rows of each step, as {copies} processes write: the first counts"
            )
        counter = self._layout.counter.columns
        return self._rows.form, " and ".join(counter) or BY_ORDER, left_out
