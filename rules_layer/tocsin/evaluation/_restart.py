"""A job that started again behind the frontier, from a checkpoint of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from tocsin.evaluation._checkpoint import Checkpoint
from tocsin.tensors import (
    BadIndex,
    IndexFile,
    NotFound,
    Storage,
    TooLarge,
    index_key,
    parse_index_key,
    read_index,
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


def _newer_start(checkpoint: Checkpoint, key: str, storage: Storage) -> IndexFile | None:
    """The file, if another start of the job wrote it after all that was evaluated."""
    try:
        found = storage.head(key)
        if found.modified < math.floor(checkpoint.last_time):  # HEAD knows whole seconds only
            return None
        file = read_index(storage, found)
    except (NotFound, BadIndex, TooLarge):
        return None
    if file.meta is None or file.meta.run_id in checkpoint.superseded:
        return None
    return file if checkpoint.run_ids.get(file.worker) not in (None, file.meta.run_id) else None


def _first_of_start(file: IndexFile, storage: Storage) -> int:
    """The first step of the start that wrote ``file``, along ``prev_step`` as far as it leads."""
    while file.meta and (before := file.meta.prev_step) is not None and before < file.step:
        try:
            earlier = read_index(storage, storage.head(index_key(before, file.worker)))
        except (NotFound, BadIndex, TooLarge):
            break
        if earlier.meta is None or earlier.meta.run_id != file.meta.run_id:
            break
        file = earlier
    return file.step


def _taken_back(checkpoint: Checkpoint, step: int) -> Checkpoint:
    """Rules keep their records until ``configure`` gives them new ones and tells of it."""
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
