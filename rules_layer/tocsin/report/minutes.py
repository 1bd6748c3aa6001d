"""Reads the minutes of a machine run for its pictures."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tocsin.model import Mode
from tocsin.report.thin import Array
from tocsin.tensors import (
    BadIndex,
    IndexFile,
    LocalStorage,
    NotFound,
    Object,
    RefusedFile,
    Storage,
    index_objects,
    inline_value,
    parse_index_key,
    read_index,
)

MOST_FILES = 2000  # of a longer run each second, third … minute is read
STEPS = f"step/{Mode.TRAIN.name}"
_THREADS = 16


def read_minutes(storage: Storage) -> tuple[list[IndexFile], int]:
    """Return the minutes of all machines in order, and of how many one was read."""
    found = [item for item in index_objects(storage) if parse_index_key(item.key)]
    every = -(-len(found) // MOST_FILES) or 1
    steps = {item.key: (parse_index_key(item.key) or (0, ""))[0] for item in found}
    chosen = set(sorted(set(steps.values()))[::every])
    wanted = [item for item in found if steps[item.key] in chosen]

    def read(item: Object) -> IndexFile | None:
        try:
            return read_index(storage, item)
        except (BadIndex, RefusedFile, NotFound, PermissionError):
            return None

    if isinstance(storage, LocalStorage):
        return [minute for item in wanted if (minute := read(item))], every
    with ThreadPoolExecutor(_THREADS) as pool:
        return [minute for minute in pool.map(read, wanted) if minute], every


def total_of(minute: IndexFile, *names: str) -> float | None:
    """Return the seconds that a minute's durations make in all; None where they are not timed."""
    known = [entry.summary for name in names if (entry := minute.entry(name)) and entry.summary]
    return sum((each.size or 0) * (each.mean or 0.0) for each in known) if known else None


def length_of(minute: IndexFile) -> float:
    """Return the number of measured seconds."""
    entry = minute.entry("machine/minute")
    return (entry.summary.max or 0.0) if entry is not None and entry.summary else 0.0


def samples_of(minute: IndexFile, name: str) -> Array:
    """Return the finite samples of a series; empty where it has none."""
    entry = minute.entry(name)
    found = None if entry is None else inline_value(entry)
    if found is None:
        return np.empty(0)
    values = found.reshape(-1).astype(np.float64)
    finite: Array = values[np.isfinite(values)]
    return finite
