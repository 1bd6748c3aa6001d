"""A job that was started again: which of its starts counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from tocsin.evaluation._checkpoint import Checkpoint
from tocsin.evaluation._frontier import Seen
from tocsin.tensors import (
    BadIndex,
    IndexFile,
    NotFound,
    RefusedFile,
    Storage,
    index_at,
    parse_index_key,
    read_index,
    starts_of,
)

_MOST_STARTS = 100  # remembered as over; a job that is started more often is in other trouble


def restarted(checkpoint: Checkpoint, keys: Iterable[str], storage: Storage) -> Checkpoint:
    """The checkpoint taken back to before the restart, if one of ``keys`` tells of one.

    The listing starts at the frontier, so a start that overwrites earlier steps shows only in
    the notification of a file behind it. Rules begin anew from there, and say so.
    """
    for key in keys:
        place = parse_index_key(key)
        if place is None or place[0] > checkpoint.frontier:
            continue
        file = _newer_start(checkpoint, key, storage)
        if file is not None:
            return _taken_back(checkpoint, _first_of_start(file, storage))
    return checkpoint


def of_last_start(
    checkpoint: Checkpoint, seen: Sequence[Seen], storage: Storage
) -> tuple[list[Seen], Checkpoint]:
    """The files among ``seen`` that belong to the last start of the job or that it resumed from,
    and the checkpoint, in which the starts that no file is kept of are superseded.

    ``seen`` is a part of the run. To compare a start that the checkpoint does not know with those
    before, the index files that lie before its first file are read.
    """
    seen = [item for item in seen if _run_id(item.file) not in checkpoint.superseded]
    new = {
        item.file.worker
        for item in seen
        if _run_id(item.file) not in (None, checkpoint.run_ids.get(item.file.worker))
    }
    if not new:
        return seen, checkpoint
    last = _last_evaluated(checkpoint, sorted(new), storage)
    starts = starts_of([*last, *(item.file for item in seen)], partial(index_at, storage))
    kept = [item for item in seen if starts.keeps(item.file)]
    over = {_run_id(item.file) for item in seen} - {_run_id(item.file) for item in kept}
    gone = sorted(run_id for run_id in over if run_id is not None)
    return kept, replace(checkpoint, superseded=superseding(checkpoint, gone))


def _last_evaluated(
    checkpoint: Checkpoint, workers: Iterable[str], storage: Storage
) -> list[IndexFile]:
    """The files of these workers at the last step that was evaluated, unless superseded."""
    if checkpoint.last_step is None:
        return []
    files = (index_at(storage, checkpoint.last_step, worker) for worker in workers)
    return [file for file in files if file and _run_id(file) not in checkpoint.superseded]


def _newer_start(checkpoint: Checkpoint, key: str, storage: Storage) -> IndexFile | None:
    """The file, if another start of the job wrote it after all that was evaluated."""
    try:
        found = storage.head(key)
        if found.modified < math.floor(checkpoint.last_time):  # HEAD knows whole seconds only
            return None
        file = read_index(storage, found)
    except (NotFound, BadIndex, RefusedFile):
        return None
    if file.meta is None or file.meta.run_id in checkpoint.superseded:
        return None
    return file if checkpoint.run_ids.get(file.worker) not in (None, file.meta.run_id) else None


def _first_of_start(file: IndexFile, storage: Storage) -> IndexFile:
    """The first file of the start that wrote ``file``, along ``prev_step`` as far as it leads."""
    while file.meta and (before := file.meta.prev_step) is not None and before < file.step:
        earlier = index_at(storage, before, file.worker)
        if earlier is None or _run_id(earlier) != file.meta.run_id:
            break
        file = earlier
    return file


def _taken_back(checkpoint: Checkpoint, first: IndexFile) -> Checkpoint:
    """Rules keep their records until ``configure`` gives them new ones and tells of it.

    Of a start that did not resume the counters begin again, too.
    """
    step = first.step
    if first.meta is not None and first.meta.resumed_from is None:
        checkpoint = replace(
            checkpoint, steps=0, first_step=None, first_time=None, files=0, workers=()
        )
    return replace(
        checkpoint,
        frontier=step - 1,
        superseded=superseding(checkpoint, checkpoint.run_ids.values()),
        rules={name: replace(old, fingerprint="") for name, old in checkpoint.rules.items()},
        references={},
        ended=None,
        refused={},
        note=f"begun anew at step {step}: the job was started again",
    )


def superseding(checkpoint: Checkpoint, starts: Iterable[str]) -> tuple[str, ...]:
    """The starts that are over, with these."""
    return tuple(dict.fromkeys([*checkpoint.superseded, *starts]))[-_MOST_STARTS:]


def _run_id(file: IndexFile) -> str | None:
    return None if file.meta is None else file.meta.run_id
