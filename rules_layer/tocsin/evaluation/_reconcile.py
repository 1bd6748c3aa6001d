"""One look at a run: find what is new in its bucket, fold it in, commit, publish."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tocsin.evaluation._checkpoint import Checkpoint
from tocsin.evaluation._configuration import Configuration, configuration
from tocsin.evaluation._desk import Desk, Hint, Report
from tocsin.evaluation._fold import configure, finish, fold, reopen, skip
from tocsin.evaluation._frontier import HOLD_SECONDS, Ready, plan
from tocsin.evaluation._listing import new_files
from tocsin.evaluation._loader import Loaded, load
from tocsin.evaluation._ports import Job, World
from tocsin.evaluation._restart import restarted
from tocsin.evaluation._selection import Selection
from tocsin.rules import Step
from tocsin.tensors import (
    END_MARKER,
    BadCollections,
    Collections,
    NotFound,
    Storage,
    job_name,
    parse_index_key,
    read_collections,
)
from tocsin.watch import Watch

BATCH_FILES = 500
SILENCE_SECONDS = 24 * 3600.0
RECHECK_SECONDS = 300.0
CAREFUL_ATTEMPTS = 2  # after so many that did not finish: one step per invocation
SKIP_ATTEMPTS = 4  # after so many: that step is given up
_MOST_RESTARTS = 20  # remembered


@dataclass(frozen=True)
class Progress:
    """Where a look ended: when to look again (None: not for that), and whether time ran out."""

    due_at: float | None
    wake_at: float | None = None
    out_of_time: bool = False


@dataclass(frozen=True)
class _Limits:
    """How far one look may go, and whom it tells of each step."""

    deadline: float
    attempts: int
    on_step: Callable[[int], None]

    @property
    def steps(self) -> int | None:
        return 1 if self.attempts > CAREFUL_ATTEMPTS else None

    @property
    def skips_first(self) -> bool:
        return self.attempts > SKIP_ATTEMPTS


def reconcile(
    hint: Hint,
    world: World,
    report: Report,
    *,
    deadline: float,
    attempts: int = 1,
    watch: Watch | None = None,
    on_step: Callable[[int], None] = lambda step: None,
) -> Progress:
    """Evaluate all that is new in the run until ``deadline``, with ``watch`` or the run's own.

    Raises Conflict if somebody else committed meanwhile; then nothing of this look's uncommitted
    work has been published.
    """
    desk = _opened(hint, world, report)
    # The end marker is looked for before the listing: then a run that has ended is listed whole.
    ended = _exists(desk.storage, END_MARKER)
    collections = _collections(desk)
    job = _first_look(desk) if desk.version is None else None
    rules = configuration(desk.checkpoint, job, world, desk.storage, watch)
    for problem in rules.problems:
        desk.refuse(*problem)
    desk.checkpoint = configure(
        restarted(replace(desk.checkpoint, job_watch=rules.job_watch), hint.keys, desk.storage),
        rules.watched,
        rules.refused,
    )
    selection = Selection(rules.watched, collections)
    limits = _Limits(deadline, attempts, on_step)
    batch = BATCH_FILES
    while True:
        seen, more = new_files(desk, batch)
        planned = plan(
            seen,
            frontier=desk.checkpoint.frontier,
            num_workers=collections.num_workers if collections else None,
            now=world.now(),
            ended=ended,
            refused=[at for key in desk.checkpoint.refused if (at := parse_index_key(key))],
        )
        done, held_until = _work_off(desk, planned.ready, selection, rules, limits, ended)
        desk.commit()
        wake_at = planned.wake_at if held_until is None else held_until
        left = more or done < len(planned.ready)
        if left and held_until is None and (done == limits.steps or world.now() >= deadline):
            return Progress(world.now() + RECHECK_SECONDS, out_of_time=True)
        if not more or held_until is not None:
            break
        batch = BATCH_FILES if planned.ready else 2 * batch
    if job and job.ended_at and not ended and job.ended_at >= desk.checkpoint.last_time:
        desk.storage.write(END_MARKER, b"")  # over before anybody looked; this wakes us again
    _close(desk, rules, hint, ended)
    desk.commit()
    desk.commit()  # that the last changes are published
    due_at = None if desk.checkpoint.ended else world.now() + RECHECK_SECONDS
    return Progress(due_at, wake_at)


def _opened(hint: Hint, world: World, report: Report) -> Desk:
    """The run as it was left; changes that a crash left unpublished are published first."""
    stored = world.checkpoints.load(hint.run)
    desk = Desk(
        world, world.storage(hint.run), stored.checkpoint, stored.version, report, stored.checkpoint
    )
    if desk.checkpoint.outbox:
        world.publisher.publish(hint.run, desk.checkpoint.outbox)
        desk.checkpoint = desk.checkpoint.published()
    return desk


def _first_look(desk: Desk) -> Job | None:
    """What SageMaker knows of the run's job; and how its later news will find the run."""
    name = job_name(desk.checkpoint.run)
    desk.world.coordination.remember_job(name, desk.checkpoint.run)
    return desk.world.jobs.describe(name)


def _work_off(
    desk: Desk,
    steps: Sequence[Ready],
    selection: Selection,
    rules: Configuration,
    limits: _Limits,
    ended: bool,
) -> tuple[int, float | None]:
    """Fold steps in until all are, or time is up, or one waits for its event file: how many were,
    and until when that one waits.
    """
    done = 0
    for ready in steps:
        loaded = None
        if ready.files and not (limits.skips_first and done == 0):
            loaded = load(ready, selection, desk.storage, desk.checkpoint.references)
            due = 0.0 if ended else _event_files_due(desk, ready, loaded)
            if desk.world.now() < due:
                return done, due
        _evaluate(desk, ready, loaded, rules)
        limits.on_step(ready.step)
        done += 1
        if desk.checkpoint.outbox:  # an alert does not wait for the steps behind it
            desk.commit()
        if done == limits.steps or desk.world.now() >= limits.deadline:
            break
    return done, None


def _event_files_due(desk: Desk, ready: Ready, loaded: Loaded) -> float:
    """Until when to wait for event files that are not there yet; 0 if all are."""
    if not loaded.unreadable:
        return 0.0
    keys = {seen.file.event_key: seen.modified for seen in ready.files}
    missing = [at for key, at in keys.items() if key and not _exists(desk.storage, key)]
    return max(missing) + HOLD_SECONDS if missing else 0.0


def _evaluate(desk: Desk, ready: Ready, loaded: Loaded | None, rules: Configuration) -> None:
    """Fold one step in; a lost one is only counted, one that was not loaded is given up."""
    before = desk.checkpoint
    after = replace(
        before,
        frontier=ready.step,
        missing_workers=before.missing_workers + ready.missing,
        refused={
            key: why for key, why in before.refused.items() if not _at_or_before(key, ready.step)
        },
    )
    if not ready.files:
        desk.checkpoint = replace(after, lost_steps=before.lost_steps + 1)
        return
    first = ready.files[0].file
    time = max(seen.modified for seen in ready.files)
    if before.ended:
        after = reopen(after)
    desk.checkpoint = replace(
        after,
        **_starts(before, ready),
        steps=before.steps + 1,
        first_step=ready.step if before.first_step is None else before.first_step,
        first_time=time if before.first_time is None else before.first_time,
        last_step=ready.step,
        last_mode=first.mode,
        last_mode_step=first.mode_step,
        last_time=max(time, before.last_time),
        files=before.files + len(ready.files),
        workers=tuple(sorted({*before.workers, *(seen.file.worker for seen in ready.files)})),
    )
    if loaded is None:
        bare = Step(ready.step, first.mode, first.mode_step, time)
        reason = f"step {ready.step} was given up: {SKIP_ATTEMPTS} attempts at it did not finish"
        desk.checkpoint = skip(desk.checkpoint, rules.watched, bare, reason)
        return
    desk.checkpoint = replace(
        fold(desk.checkpoint, rules.watched, loaded.steps), references=loaded.references
    )
    desk.report.steps += 1
    desk.report.bytes_read += loaded.bytes_read
    desk.report.lag = max(desk.report.lag, desk.world.now() - time)
    desk.report.log += [f"{before.run}: unreadable: {what}" for what in loaded.unreadable]


def _starts(before: Checkpoint, ready: Ready) -> dict[str, Any]:
    """Each worker's start of the job as of this step, and the steps at which one changed."""
    starts = {s.file.worker: s.file.meta.run_id for s in ready.files if s.file.meta is not None}
    changed = any(before.run_ids.get(worker, start) != start for worker, start in starts.items())
    restarts = (*before.restarts, ready.step)[-_MOST_RESTARTS:] if changed else before.restarts
    return {"run_ids": {**before.run_ids, **starts}, "restarts": restarts}


def _collections(desk: Desk) -> Collections | None:
    try:
        return read_collections(desk.storage)
    except BadCollections as error:
        desk.refuse("collections/", str(error))
        return None


def _exists(storage: Storage, key: str) -> bool:
    try:
        storage.head(key)
    except NotFound:
        return False
    return True


def _close(desk: Desk, rules: Configuration, hint: Hint, ended: bool) -> None:
    """What follows when all there is has been evaluated: ticks, and the run's end."""
    checkpoint = desk.checkpoint
    if checkpoint.ended or checkpoint.last_step is None:
        return
    if ended:
        total = sum(1 for item in desk.storage.list("index/") if parse_index_key(item.key))
        late = max(0, total - checkpoint.files - checkpoint.refused_files)
        desk.report.late += late
        desk.checkpoint = finish(replace(checkpoint, late_files=late), rules.watched, "marker")
    elif desk.world.now() - checkpoint.last_time >= SILENCE_SECONDS:
        desk.checkpoint = finish(checkpoint, rules.watched, "silence")
    elif hint.tick is not None:
        tick = Step(
            checkpoint.last_step,
            checkpoint.last_mode,
            checkpoint.last_mode_step,
            hint.tick,
            tick=True,
        )
        steps = {rule.name: tick for rule in rules.watched if rule.reads.ticks}
        desk.checkpoint = fold(checkpoint, rules.watched, steps)


def _at_or_before(key: str, step: int) -> bool:
    place = parse_index_key(key)
    return place is not None and place[0] <= step
