"""Rows of names and values, as CSV and JSON lines have them: which is the step, the time, a scalar.

Weights & Biases writes ``_step`` and ``_timestamp``, Keras ``epoch``, the Trainer of Hugging Face
and Lightning ``step`` beside ``epoch``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tocsin.histories.scalar import BadHistory, Note, Scalar, number, whole

STEPS = ("step", "_step", "Step", "global_step", "trainer/global_step", "epoch", "Epoch")
_TIMES = ("_timestamp", "timestamp")
_NOT_SCALARS = {*STEPS, *_TIMES, "_runtime", "Relative Time (Process)", "Relative Time (Wall)"}

Row = Mapping[str, object]


@dataclass
class Table:
    """Counts the rows of a file: with a step, and without."""

    path: Path
    _with_step: int = 0

    def scalars(self, rows: Iterable[Row], note: Note, *, growing: bool) -> Iterator[Scalar]:
        """The scalars of rows. A row without a step is skipped.

        Raises BadHistory if no row has one, and without any row, unless there may come one.
        """
        without = 0
        for row in rows:
            step = next((step for key in STEPS if (step := whole(row.get(key))) is not None), None)
            if step is None:
                without += 1
                continue
            self._with_step += 1
            time = next(
                (time for key in _TIMES if (time := number(row.get(key))) is not None), None
            )
            for name, value in row.items():
                if name not in _NOT_SCALARS and (scalar := number(value)) is not None:
                    yield Scalar(name, step, scalar, time)
        if not self._with_step and (without or not growing):
            raise BadHistory(
                f"{self.path}: no row has a step, a whole number under one of these names: "
                f"{', '.join(STEPS)}; name a column so"
            )
        if without:
            note(f"{self.path}: skipped {without:,} rows without a step")
