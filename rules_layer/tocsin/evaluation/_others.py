"""Runs that a rule compares this one with."""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.tensors import (
    BadIndex,
    IndexFile,
    NotFound,
    Storage,
    TooLarge,
    decode_index,
    index_key,
    job_name,
)

_INDEX_BYTES = 64 << 20


def beside(run: str, other: str) -> str:
    """The URL of a run that is named by one, or by the name of a job beside this run's.

    The other job's run lies where this one's does, with its own job's name in the path.
    """
    if "/" in other:
        return other.rstrip("/")
    head, _, tail = run.rpartition(job_name(run))
    return f"{head}{other}{tail}"


def files_of(storage: Storage, files: Sequence[IndexFile]) -> list[IndexFile]:
    """The index files of the same step and workers, as far as they are there and can be used."""
    found = []
    for file in files:
        try:
            data = storage.read(index_key(file.step, file.worker), limit=_INDEX_BYTES)
            found.append(decode_index(data, file.step, file.worker))
        except (NotFound, BadIndex, TooLarge):
            continue
    return found
