"""Rows of names and values, as CSV and JSON lines have them: which is the step, the time, a scalar.

Weights & Biases writes ``_step`` and ``_timestamp``, Keras ``epoch``, the Trainer of Hugging Face
and Lightning ``step`` beside ``epoch``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tocsin.histories.scalar import BadHistory, Note, Scalar, number, whole

STEPS = ("step", "_step", "Step", "global_step", "trainer/global_step", "epoch", "Epoch")
_TIMES = ("_timestamp", "timestamp")
_NOT_SCALARS = {*STEPS, *_TIMES, "_runtime", "Relative Time (Process)", "Relative Time (Wall)"}

Row = Mapping[str, object]


def scalars_of_rows(rows: Iterable[Row], path: Path, note: Note) -> Iterator[Scalar]:
    """The scalars of rows. A row without a step is skipped; without any step raises BadHistory."""
    found = without = 0
    for row in rows:
        step = next((step for key in STEPS if (step := whole(row.get(key))) is not None), None)
        if step is None:
            without += 1
            continue
        found += 1
        time = next((time for key in _TIMES if (time := number(row.get(key))) is not None), None)
        for name, value in row.items():
            if name not in _NOT_SCALARS and (scalar := number(value)) is not None:
                yield Scalar(name, step, scalar, time)
    if not found:
        raise BadHistory(
            f"{path}: no row has a step, a whole number under one of these names: "
            f"{', '.join(STEPS)}; name a column so"
        )
    if without:
        note(f"{path}: skipped {without:,} rows without a step")
