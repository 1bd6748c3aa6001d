"""Look: what is new in a run: a restart, the end, index files, and the steps that are ready."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from tocsin.evaluation.checkpoint import Checkpoint
from tocsin.evaluation.status_changes import restarted, superseding
from tocsin.evaluation.unit_of_work import UnitOfWork
from tocsin.rules import Step
from tocsin.tensors import (
    END_MARKER,
    INDEX,
    BadIndex,
    End,
    IndexFile,
    NotFound,
    Object,
    RefusedFile,
    Storage,
    first_of_start,
    index_at,
    index_objects,
    parse_index_key,
    read_end,
    read_index,
    settled_workers,
    starts_of,
)

GRACE_SECONDS = 5.0  # for runs without prev_step: how long an older step may still arrive
HOLD_SECONDS = 60.0  # how long a gap or a missing worker may hold all later steps
BATCH_BYTES = 8 << 20  # of index files; decoded they are several times as large
STEP_INDEX_BYTES = 64 << 20  # of one step, all workers together
_THREADS = 16


@dataclass(frozen=True)
class FoundFile:
    """An index file in the bucket, and when it was written (seconds since the epoch)."""

    file: IndexFile
    modified: float


@dataclass(frozen=True)
class ReadyStep:
    """A step to evaluate: its files in the order of workers, and how many workers are missing.

    A lost step has no files.
    """

    step: int
    files: Sequence[FoundFile]
    missing: int

    @property
    def without_tensors(self) -> Step:
        """The step as rules see it, if it has files, without its tensors."""
        first, times = self.files[0].file, {f.file.worker: f.modified for f in self.files}
        return Step(self.step, first.mode, first.mode_step, max(times.values()), times=times)


@dataclass(frozen=True)
class StepPlan:
    """The steps to evaluate, in order, and when to look again if some are held."""

    ready: Sequence[ReadyStep]
    wake_at: float | None = None


@dataclass(frozen=True)
class NewFiles:
    """Whole steps of index files after the frontier.

    more: whether the bucket has further ones.
    ended: whether the run ends with these and those that were evaluated.
    """

    files: Sequence[FoundFile]
    more: bool
    ended: bool


def find_restart(work: UnitOfWork, keys: Iterable[str]) -> None:
    """Take the run back to before a restart, if one of ``keys`` shows one.

    The listing begins at the frontier. So a start of the job that overwrites earlier steps shows
    only in the notification of a file at or before the frontier. So does a worker that has been
    given up, and is only slow.
    """
    for key in keys:
        place = parse_index_key(key)
        if place is None or place[0] > work.checkpoint.frontier:
            continue
        _wait_again(work, *place)
        found = _newer_start(work.checkpoint, key, work.storage)
        if found is not None:
            first = first_of_start(found.file, partial(index_at, work.storage))
            since = work.checkpoint.last_time + GRACE_SECONDS
            work.replace(restarted(work.checkpoint, first, since))
            return


def _wait_again(work: UnitOfWork, step: int, worker: str) -> None:
    """Steps wait for a worker again that has delivered the last step late."""
    checkpoint = work.checkpoint
    known = worker in checkpoint.workers and worker not in checkpoint.absent
    if checkpoint.waits and step == checkpoint.last_step and not known:
        work.replace(replace(checkpoint, waits=0))


def find_end(work: UnitOfWork) -> End | None:
    """The run's end marker."""
    try:
        return read_end(work.storage)
    except RefusedFile as error:
        work.refuse_file(END_MARKER, str(error))
        return None


def find_files(work: UnitOfWork, end: End | None, most: int, deadline: float) -> NewFiles:
    """About ``most`` index files after the frontier, without those of earlier starts of the job.

    Files of earlier starts are skipped until ``deadline``.
    """
    after = work.checkpoint.frontier
    while True:
        listed, last, more = _list_after(work, most, after)
        files, superseded = _of_last_start(work.checkpoint, listed, work.storage)
        work.replace(replace(work.checkpoint, superseded=superseded))
        if not files and more and work.ports.now() < deadline:
            after = last
            continue
        # Past the deadline without a file: nothing to go on with, whatever there is after them.
        return NewFiles(files, more and bool(files), _is_over(end, work.checkpoint, files))


def plan(
    found: Sequence[FoundFile],
    *,
    frontier: int,
    num_workers: int | None,
    now: float,
    ended: bool,
    refused: Collection[tuple[int, str]] = (),
    given_up: int = 0,
) -> StepPlan:
    """The steps after ``frontier`` that are complete, given up, or closed by the run's end.

    A step is complete when all workers are settled there; a file that was ``refused`` (step and
    worker) settles its worker, too. A run without ``prev_step`` does not show what is missing: its
    steps wait for GRACE_SECONDS after they, or later ones, have all workers. ``num_workers`` None
    means that no collections file has been read yet. So many workers as are ``given_up`` are
    missing without a wait.
    """
    workers = num_workers or 1
    files: dict[int, dict[str, FoundFile]] = {}
    for item in sorted(found, key=lambda item: item.file.worker):
        files.setdefault(item.file.step, {})[item.file.worker] = item
        before = item.file.meta.prev_step if item.file.meta else None
        if before is not None and before > frontier:
            files.setdefault(before, {})  # uploaded, but not there
    present: dict[int, dict[str, IndexFile | None]] = {step: {} for step in files}
    for step, worker in refused:
        if step in present:
            present[step][worker] = None
    for item in found:
        present[item.file.step][item.file.worker] = item.file
    settled = settled_workers(present)
    awaited = None if num_workers is None else max(1, num_workers - given_up)
    due = dict(_due(files, settled, awaited))
    ready: list[ReadyStep] = []
    for step in sorted(files):
        if not ended and now < due[step]:
            return StepPlan(ready, wake_at=due[step])
        missing = max(0, workers - len(settled[step]))
        ready.append(ReadyStep(step, tuple(files[step].values()), missing))
    return StepPlan(ready)


def _due(
    files: Mapping[int, Mapping[str, FoundFile]],
    settled: Mapping[int, Collection[str]],
    num_workers: int | None,
) -> Iterator[tuple[int, float]]:
    """For each step, from the last one on, when it may be evaluated: 0 is at once."""
    earliest = complete = math.inf  # when a file of it or a later step was written, and a whole one
    chained = True  # whether all these files say what their workers uploaded before
    for step in sorted(files, reverse=True):
        here = files[step].values()
        times = [item.modified for item in here]
        earliest = min([earliest, *times])
        if len(here) >= (num_workers or 1):
            complete = min(complete, max(times))
        chained = chained and all(item.file.meta for item in here)
        give_up = earliest + HOLD_SECONDS
        if num_workers is None:
            yield step, give_up
        elif chained:
            yield step, 0.0 if len(settled[step]) >= num_workers else give_up
        else:
            yield step, min(give_up, complete + GRACE_SECONDS)


def count_late_files(work: UnitOfWork, deadline: float) -> bool:
    """Count index files that came after their step had been evaluated.

    False if that takes longer than until ``deadline``: the next look goes on where this one was.
    """
    checkpoint, storage = work.checkpoint, work.storage
    there = checkpoint.counted
    for item in storage.list(INDEX, checkpoint.counted_to):
        place = parse_index_key(item.key)
        there += place is not None and place[0] <= checkpoint.frontier
        if work.ports.now() >= deadline:
            work.replace(replace(checkpoint, counted_to=item.key, counted=there))
            return False
    late = max(0, there - checkpoint.files - checkpoint.refused_files)
    work.report.late += max(0, late - checkpoint.late_files)
    work.replace(replace(checkpoint, late_files=late, counted_to="", counted=0))
    return True


def _is_over(end: End | None, checkpoint: Checkpoint, files: Sequence[FoundFile]) -> bool:
    """Whether the marker ends what is there now, and not an earlier start of the job.

    A marker that names one of the present starts does. Else the times decide; other workers may
    still be at their last files when one writes the marker.
    """
    if end is None:
        return False
    starts = {item.file.worker: item.file.run_id for item in files if item.file.run_id}
    present = {**checkpoint.run_ids, **starts}
    replaced = {old for worker, old in checkpoint.run_ids.items() if present[worker] != old}
    current = {*present.values()} - replaced - {*checkpoint.superseded}
    if end.run_id in current:
        return True
    newest = max([checkpoint.last_time, *(item.modified for item in files)])
    return end.ends(current, newest) and end.modified + HOLD_SECONDS >= newest


def _list_after(work: UnitOfWork, most: int, after: int) -> tuple[list[FoundFile], int, bool]:
    """Index files after a step, the last step of them, and whether there are still more.

    They are about ``most``, fewer if they are large. Of a single step there are no more than may
    be in memory at once; the others are refused.
    """
    found: list[Object] = []
    more, last, size, of_step = False, after, 0, 0
    for item in index_objects(work.storage, after):
        if item.modified < work.checkpoint.since:
            continue
        place = parse_index_key(item.key)
        step = place[0] if place else -1
        if step != last:
            if len(found) >= most or size > BATCH_BYTES:
                more = True
                break
            last, of_step = step, 0
        of_step += item.size
        if of_step > STEP_INDEX_BYTES:
            work.refuse_file(item.key, f"the step's index files have over {STEP_INDEX_BYTES} bytes")
            continue
        size += item.size
        found.append(item)
    fresh = [item for item in found if item.key not in work.checkpoint.refused]
    return list(_read_all(work, fresh)), last, more


def _read_all(work: UnitOfWork, objects: Sequence[Object]) -> Iterator[FoundFile]:
    """Their contents, fetched at once; those that cannot be used are refused."""

    def read(item: Object) -> FoundFile | Exception:
        try:
            return FoundFile(read_index(work.storage, item), item.modified)
        except (BadIndex, RefusedFile, NotFound, PermissionError) as error:
            return error

    if len(objects) < 2:
        answers = list(map(read, objects))
    else:
        with ThreadPoolExecutor(min(_THREADS, len(objects))) as pool:
            answers = list(pool.map(read, objects))
    denied = [answer for answer in answers if isinstance(answer, PermissionError)]
    if denied and len(denied) == len(answers):
        raise denied[0]  # of the deployment more likely than of a file, and it can be granted
    for item, answer in zip(objects, answers, strict=True):
        if isinstance(answer, FoundFile):
            yield answer
        elif not isinstance(answer, NotFound):
            work.refuse_file(item.key, str(answer))


def _of_last_start(
    checkpoint: Checkpoint, found: Sequence[FoundFile], storage: Storage
) -> tuple[list[FoundFile], tuple[str, ...]]:
    """The files that belong to the last start of the job or that it resumed from, and the starts
    that are superseded.

    ``found`` is a part of the run. To compare a start that the checkpoint does not know with those
    earlier ones, the index files just before its first file are read.
    """
    found = [item for item in found if item.file.run_id not in checkpoint.superseded]
    new = {
        item.file.worker
        for item in found
        if item.file.run_id not in (None, checkpoint.run_ids.get(item.file.worker))
    }
    if not new:
        return found, checkpoint.superseded
    last = _last_evaluated(checkpoint, sorted(new), storage)
    starts = starts_of([*last, *(item.file for item in found)], partial(index_at, storage))
    kept = [item for item in found if starts.keeps(item.file)]
    gone = {item.file.run_id for item in found} - {item.file.run_id for item in kept}
    return kept, superseding(checkpoint, sorted(run_id for run_id in gone if run_id is not None))


def _last_evaluated(
    checkpoint: Checkpoint, workers: Iterable[str], storage: Storage
) -> list[IndexFile]:
    """The files of these workers at the last step that was evaluated, unless superseded."""
    if checkpoint.last_step is None:
        return []
    files = (index_at(storage, checkpoint.last_step, worker) for worker in workers)
    return [file for file in files if file and file.run_id not in checkpoint.superseded]


def _newer_start(checkpoint: Checkpoint, key: str, storage: Storage) -> FoundFile | None:
    """The file, if another start of the job wrote it after all that was evaluated."""
    try:
        found = storage.head(key)
        if found.modified < math.floor(checkpoint.last_time):  # HEAD knows whole seconds only
            return None
        file = read_index(storage, found)
    except (NotFound, BadIndex, RefusedFile):
        return None
    if file.run_id is None:
        is_new = _is_written_again(checkpoint, file, found.modified)
    else:
        other = checkpoint.run_ids.get(file.worker) not in (None, file.run_id)
        is_new = other and file.run_id not in checkpoint.superseded
    return FoundFile(file, found.modified) if is_new else None


def _is_written_again(checkpoint: Checkpoint, file: IndexFile, modified: float) -> bool:
    """Whether a file without a run id is its worker's second of that step, and not only late."""
    return (
        modified > checkpoint.last_time + GRACE_SECONDS
        and checkpoint.delivered.get(file.worker, -1) >= file.step
        and file.step not in checkpoint.incomplete
    )
