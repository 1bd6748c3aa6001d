"""Look: what is new in a run: the end, index files, and those that came late."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

from msgspec.structs import replace

from tocsin.evaluation.checkpoint import Checkpoint
from tocsin.evaluation.messages import Hint
from tocsin.evaluation.planning import HOLD_SECONDS, FoundFile, held_until
from tocsin.evaluation.restarting import find_restart, is_left_out
from tocsin.evaluation.status_changes import superseding, without_start
from tocsin.evaluation.unit_of_work import UnitOfWork
from tocsin.tensors import (
    END_MARKER,
    INDEX,
    BadIndex,
    End,
    IndexFile,
    MemoryStorage,
    NotFound,
    Object,
    RefusedFile,
    has_more_digits,
    in_parallel,
    index_at,
    index_objects,
    parse_index_key,
    places_before,
    read_end,
    read_index,
    starts_of,
)

BATCH_BYTES = 8 << 20  # of index files; decoded they are several times as large
STEP_INDEX_BYTES = 64 << 20  # of one step, all workers together
STEP_FILES = 5000  # index files of one step: one of each worker


@dataclass(frozen=True)
class NewFiles:
    """Whole steps of index files after the frontier.

    more: whether the bucket has further ones.
    ended: whether the run ends with these and those that were evaluated.
    held_until: None, or until when none of them can be ready; then they are not read.
    """

    files: Sequence[FoundFile]
    more: bool
    ended: bool
    held_until: float | None = None


def find_end(work: UnitOfWork) -> End | None:
    """Return the run's end marker."""
    try:
        return read_end(work.files)
    except RefusedFile as error:
        work.refuse_file(END_MARKER, str(error))
        return None


def find_files(
    work: UnitOfWork,
    hint: Hint,
    end: End | None,
    most: int,
    deadline: float,
    workers: int | None = None,
    *,
    skips: bool = False,
) -> NewFiles:
    """About ``most`` index files after the frontier, without those of earlier starts of the job.

    Files of earlier starts are skipped until ``deadline``. To find steps of more digits than the
    frontier takes a long listing. They are looked for if the hint names one, at a tick, which comes
    every five minutes, and at the end. ``workers`` are those that a step waits for, if known: as
    long as one has no file, none is read, or each would be read at the notification of each other.
    ``skips``: of each step only one file is read, which says which step it is.
    """
    after, of_step = work.checkpoint.frontier, 1 if skips else STEP_FILES
    named = [place[0] for key in hint.keys if (place := parse_index_key(key))]
    longer = hint.tick is not None or end is not None
    longer = longer or any(has_more_digits(step, after) for step in named)
    while True:
        objects, last, more = _list_after(work, most, after, longer=longer, of_step=of_step)
        if workers is not None and not more:
            held = _held_until(work, objects, workers)
            if held is not None:
                return NewFiles((), False, False, held)
        listed = list(_read_all(work, objects))
        files = _of_last_start(work, listed)
        if not files and more and work.ports.now() < deadline:
            after = last
            continue
        # Past the deadline without a file: nothing to go on with, whatever there is after them.
        return NewFiles(files, more and bool(files), _is_over(end, work.checkpoint, files))


def count_late_files(work: UnitOfWork, deadline: float) -> bool:
    """Count index files that came after their step had been evaluated.

    False if the run has not ended for that: another start of the job has written some of them; or
    if it takes longer than until ``deadline``: the next look goes on where this one was.
    """
    checkpoint, storage = work.checkpoint, work.files
    there, out_of_time = checkpoint.counted, False
    first, last = dict[str, str](), dict[str, str]()  # newer files by worker: some may be copies
    for item in storage.list(INDEX, checkpoint.counted_to):
        place = parse_index_key(item.key)
        if place is not None and place[0] <= checkpoint.frontier:
            there += 1
            if item.modified > checkpoint.last_time:
                first.setdefault(place[1], item.key)
                last[place[1]] = item.key
        if out_of_time := work.ports.now() >= deadline:
            work.replace(replace(checkpoint, counted_to=item.key, counted=there))
            break
    if find_restart(work, (*first.values(), *last.values())) or out_of_time:
        return False
    late = max(0, there - checkpoint.files - checkpoint.refused_files)
    work.report.late += max(0, late - checkpoint.late_files)
    work.replace(replace(checkpoint, late_files=late, counted_to="", counted=0))
    return True


def _is_over(end: End | None, checkpoint: Checkpoint, files: Sequence[FoundFile]) -> bool:
    """Return whether the marker ends what is there now, and not an earlier start of the job.

    A marker that names one of the present starts does. Else the times decide; other workers may
    still be at their last files when one writes the marker.
    """
    if end is None:
        return False
    starts = {item.file.worker: item.file.run_id for item in files if item.file.run_id}
    present = {**checkpoint.run_ids, **starts}
    replaced = {old for worker, old in checkpoint.run_ids.items() if present[worker] != old}
    current = {*present.values()} - replaced - {*checkpoint.superseded}
    if end.names(current):
        return True
    if end.named and end.named <= {*checkpoint.superseded}:
        return False  # a copy of an older start's, or that start is late
    newest = max([checkpoint.last_time, *(item.modified for item in files)])
    return end.ends(current, newest) and end.modified + HOLD_SECONDS >= newest


def _list_after(
    work: UnitOfWork, most: int, after: int, *, longer: bool, of_step: int
) -> tuple[list[Object], int, bool]:
    """Index files after a step, the last step of them, and whether there are still more.

    They are about ``most``, fewer if they are large. Of a single step there are no more than may
    be in memory at once, and at most ``of_step``; the others are refused.
    """
    found: list[Object] = []
    last, size = after, 0
    for step, files in _steps_after(work, after, longer, of_step):
        if len(found) >= most or size > BATCH_BYTES:
            return _fresh(work, found), last, True
        last = step
        size += sum(item.size for item in files)
        found += files
    return _fresh(work, found), last, False


def _fresh(work: UnitOfWork, found: Iterable[Object]) -> list[Object]:
    return [item for item in found if item.key not in work.checkpoint.refused]


def _steps_after(
    work: UnitOfWork, after: int, longer: bool, most: int
) -> Iterator[tuple[int, Sequence[Object]]]:
    """Each step after one, with its index files, as far as they may be read.

    The listing jumps over those that may not be: there may be very many.
    """
    since, jumps = work.checkpoint.since, True
    while jumps:
        jumps = False
        for step, listed in groupby(index_objects(work.files, after, longer=longer), _step_of):
            own = (item for item in listed if item.modified >= since)
            files = list(islice(own, most + 1))
            if jumps := len(files) > most:
                work.refuse_file(files.pop().key, f"step {step} has over {most} index files")
            yield step, list(_within(work, files))
            if jumps:
                after = step
                break


def _step_of(found: Object) -> int:
    step, _ = parse_index_key(found.key) or (-1, "")
    return step


def _within(work: UnitOfWork, files: Iterable[Object]) -> Iterator[Object]:
    """The index files of a step that may be in memory at once; the others are refused."""
    size = 0
    for found in files:
        size += found.size
        if size <= STEP_INDEX_BYTES:
            yield found
        else:
            why = f"the step's index files have over {STEP_INDEX_BYTES} bytes"
            work.refuse_file(found.key, why)


def _held_until(work: UnitOfWork, objects: Sequence[Object], workers: int) -> float | None:
    places = [(place, item) for item in objects if (place := parse_index_key(item.key))]
    if not objects or len(places) < len(objects):
        return None
    found = [(place[1], item.modified) for place, item in places]
    refused = [place[1] for key in work.checkpoint.refused if (place := parse_index_key(key))]
    return held_until(found, workers, refused, work.ports.now())


def _read_all(work: UnitOfWork, objects: Sequence[Object]) -> Iterator[FoundFile]:
    """Their contents, fetched at once; those that cannot be used are refused."""

    def read(item: Object) -> FoundFile | Exception:
        try:
            return FoundFile(read_index(work.files, item), item.modified)
        except (BadIndex, RefusedFile, NotFound, PermissionError) as error:
            return error

    in_memory = isinstance(work.storage, MemoryStorage)
    answers = [*map(read, objects)] if in_memory else in_parallel(read, objects)
    denied = [answer for answer in answers if isinstance(answer, PermissionError)]
    if denied and len(denied) == len(answers):
        raise denied[0]  # of the deployment more likely than of a file, and it can be granted
    for item, answer in zip(objects, answers, strict=True):
        if isinstance(answer, FoundFile):
            yield answer
        elif not isinstance(answer, NotFound):
            work.refuse_file(item.key, str(answer))


def _of_last_start(work: UnitOfWork, found: Iterable[FoundFile]) -> Sequence[FoundFile]:
    """The files that belong to the last start of the job or that it resumed from; the others are
    superseded.

    ``found`` is a part of the run. To compare a start that the checkpoint does not know with those
    earlier ones, the index files just before its first file are read.
    """
    fresh: list[FoundFile] = []
    for item in found:
        if is_left_out(work.checkpoint, item.file):
            work.replace(without_start(work.checkpoint, item))
        else:
            fresh.append(item)
    checkpoint = work.checkpoint
    new = {
        item.file.worker
        for item in fresh
        if item.file.run_id not in (None, checkpoint.run_ids.get(item.file.worker))
    }
    if not new:
        return fresh
    last = _last_evaluated(work, sorted(new))
    files = [*last, *(item.file for item in fresh)]
    before = _files_at(work, [*places_before(files)])
    starts = starts_of(files, lambda step, worker: before.get((step, worker)))
    kept = [item for item in fresh if starts.keeps(item.file)]
    gone = {item.file.run_id for item in fresh} - {item.file.run_id for item in kept}
    superseded = superseding(checkpoint, sorted(run_id for run_id in gone if run_id is not None))
    work.replace(replace(checkpoint, superseded=superseded))
    return kept


def _last_evaluated(work: UnitOfWork, workers: Iterable[str]) -> list[IndexFile]:
    """The files of these workers at the last step that was evaluated, unless superseded."""
    step = work.checkpoint.last_step
    if step is None:
        return []
    files = _files_at(work, [(step, worker) for worker in workers]).values()
    return [file for file in files if file and file.run_id not in work.checkpoint.superseded]


def _files_at(
    work: UnitOfWork, places: Sequence[tuple[int, str]]
) -> Mapping[tuple[int, str], IndexFile | None]:
    """The index files at these steps and workers; None where no file can be used."""
    found = in_parallel(lambda place: index_at(work.files, *place), places)
    return dict(zip(places, found, strict=True))
