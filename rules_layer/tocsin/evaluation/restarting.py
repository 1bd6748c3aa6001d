"""Look: a start of the job that overwrites steps which were evaluated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice

from msgspec.structs import replace

from tocsin.evaluation.checkpoint import Checkpoint
from tocsin.evaluation.planning import GRACE_SECONDS, FoundFile
from tocsin.evaluation.status_changes import restarted, without_start
from tocsin.evaluation.unit_of_work import UnitOfWork
from tocsin.tensors import (
    BadIndex,
    IndexFile,
    NotFound,
    RefusedFile,
    Storage,
    first_of_start,
    index_at,
    index_key,
    index_objects,
    is_older,
    parse_index_key,
    read_index,
)

_MOST_KEYS = 200  # files that are looked at for a restart: those of one start are alike


def find_restart(work: UnitOfWork, keys: Iterable[str]) -> bool:
    """Take the run back to before a restart, if one of ``keys`` shows one; whether it did.

    The listing begins at the frontier. So a start of the job that overwrites steps that were judged
    shows only in a file at or before the frontier, or of the step that was judged in part: in one
    that a notification names, and for the case that these are lost, in those of ``first_files``,
    ``partly_judged_files`` and ``files_before``. So does a worker that has been given up, and is
    only slow.
    """
    checkpoint = work.checkpoint
    judged = checkpoint.frontier if checkpoint.partly is None else checkpoint.partly.step
    places = ((key, parse_index_key(key)) for key in keys)
    before = ((key, at) for key, at in places if at and at[0] <= judged)
    for key, place in islice(before, _MOST_KEYS):
        _wait_again(work, *place)
        found = _other_start(work.checkpoint, key, work.files)
        if found is not None and is_left_out(work.checkpoint, found.file):
            work.replace(without_start(work.checkpoint, found))
        elif found is not None:
            first = first_of_start(found.file, partial(index_at, work.files))
            since = work.checkpoint.last_time + GRACE_SECONDS
            work.replace(restarted(work.checkpoint, found.file, first, since))
            return True
    return False


def first_files(work: UnitOfWork) -> Iterator[str]:
    """Yield the files of the run's first step, if they were written after all that was evaluated. A
    job that starts again from its beginning overwrites them.
    """
    first: int | None = None
    for found in index_objects(work.files):
        step, _ = parse_index_key(found.key) or (-1, "")
        first = step if first is None else first
        if step != first:
            return
        if found.modified > work.checkpoint.last_time:
            yield found.key


def partly_judged_files(checkpoint: Checkpoint) -> Iterator[str]:
    """Yield the files of the step that some rules have judged."""
    if checkpoint.partly is not None:
        yield from (index_key(checkpoint.partly.step, worker) for worker in checkpoint.run_ids)


def files_before(checkpoint: Checkpoint, found: Iterable[FoundFile]) -> Iterator[str]:
    """Yield the files that starts unknown so far have written before these, at or before the
    frontier."""
    known = {*checkpoint.run_ids.values(), *checkpoint.superseded}
    for file in (item.file for item in found):
        before = file.meta.prev_step if file.meta else None
        if before is not None and before <= checkpoint.frontier and file.run_id not in known:
            yield index_key(before, file.worker)


def _wait_again(work: UnitOfWork, step: int, worker: str) -> None:
    """Steps wait for a worker again that has delivered the last step late."""
    checkpoint = work.checkpoint
    known = worker in checkpoint.workers and worker not in checkpoint.absent
    if checkpoint.waits and step == checkpoint.last_step and not known:
        work.replace(replace(checkpoint, waits=0))


def is_left_out(checkpoint: Checkpoint, file: IndexFile) -> bool:
    """Return whether a file is of a start that is superseded, or older than its worker's present
    one."""
    if file.meta is None:
        return False
    run_id, present = file.meta.run_id, checkpoint.run_ids.get(file.worker)
    if run_id in checkpoint.superseded:
        return True
    return run_id != present and is_older(file.meta.started, checkpoint.began.get(present or ""))


def _other_start(checkpoint: Checkpoint, key: str, storage: Storage) -> FoundFile | None:
    """The file, if another start of the job wrote it after all that was evaluated."""
    try:
        found = storage.head(key)
        if found.modified < math.floor(checkpoint.last_time):  # HEAD knows whole seconds only
            return None
        file = read_index(storage, found)
    except (NotFound, BadIndex, RefusedFile):
        return None
    if file.run_id is None:
        is_other = _is_written_again(checkpoint, file, found.modified)
    else:
        is_other = checkpoint.run_ids.get(file.worker) not in (None, file.run_id)
    return FoundFile(file, found.modified) if is_other else None


def _is_written_again(checkpoint: Checkpoint, file: IndexFile, modified: float) -> bool:
    """Return whether a file without a run id is its worker's second of that step, and not only
    late."""
    return (
        modified > checkpoint.last_time + GRACE_SECONDS
        and checkpoint.delivered.get(file.worker, -1) >= file.step
        and file.step not in checkpoint.incomplete
    )
