"""Single numbers and summaries of a run as rows of a table."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Any

from tocsin.model import Mode
from tocsin.trial.catalog import Catalog
from tocsin.trial.table import Member, Place, StepFile
from tocsin.trial.values import Values

KEYS = ("step", "mode", "mode_step", "worker", "tensor")
NUMBERS = (
    "value",
    "size",
    "nan",
    "posinf",
    "neginf",
    "zeros",
    "min",
    "max",
    "mean",
    "abs_mean",
    "variance",
    "l1",
    "l2",
    "update_l1",
    "update_l2",
)
_REDUCTIONS = {
    "min": ("min", False),
    "max": ("max", False),
    "mean": ("mean", False),
    "abs_mean": ("mean", True),
    "variance": ("variance", False),
    "l1": ("l1", False),
    "l2": ("l2", False),
}
_SMALL = 1024  # bytes of a record that may hold a single number

Row = dict[str, Any]


def rows(
    catalog: Catalog,
    reader: Values,
    names: Collection[str],
    mode: Mode,
    worker: str | None,
) -> list[Row]:
    """Return one row for each of these tensors, complete step and worker with a single number, a
    summary, or reductions.
    """
    found: list[Row] = []
    cells: list[tuple[Row, str]] = []
    places: list[Place] = []
    for step in catalog.complete_steps(mode):
        for file in catalog.files(step, mode):
            if worker is not None and worker != file.worker:
                continue
            for name, member in file.layout.members.items():
                if name not in names:
                    continue
                found.append(_row(file, name, member))
                for column, position in _numbers(file, member):
                    cells.append((found[-1], column))
                    places.append((file, position))
    for (row, column), value in zip(cells, reader.read_many(places), strict=True):
        if isinstance(value, Exception):
            continue  # what is damaged leaves a hole
        if value.size == 1 and value.dtype.kind in "biuf":
            row[column] = value.item()
    return [row for row in found if len(row) > len(KEYS)]


def _row(file: StepFile, name: str, member: Member) -> Row:
    place = (file.step, file.mode.name, file.mode_step, file.worker, name)
    row: Row = dict(zip(KEYS, place, strict=True))
    summary = file.summary(member.position)
    if summary is not None:
        numbers = ((column, getattr(summary, column)) for column in NUMBERS[1:])
        row |= {column: number for column, number in numbers if number is not None}
    return row


def _numbers(file: StepFile, member: Member) -> Iterator[tuple[str, int]]:
    """Columns of a row that are read from the event file, and the entries that hold them."""
    own = member.position
    if file.has_record(own):
        shape = file.shape(own)
        if math.prod(shape) == 1 if shape is not None else file.places.lengths[own] <= _SMALL:
            yield "value", own
    for column, key in _REDUCTIONS.items():
        position = member.reductions.get(key)
        if file.has_record(position):
            yield column, position
