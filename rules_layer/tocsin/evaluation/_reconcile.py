"""One look at a run: find what is new in its bucket, fold it in, commit, publish."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tocsin.evaluation._advance import Limits, work_off
from tocsin.evaluation._checkpoint import Checkpoint
from tocsin.evaluation._configuration import Configuration, configuration
from tocsin.evaluation._desk import Desk, Hint, Report
from tocsin.evaluation._fold import configure, finish, fold
from tocsin.evaluation._frontier import HOLD_SECONDS, Seen, plan
from tocsin.evaluation._listing import new_files
from tocsin.evaluation._ports import Job, World
from tocsin.evaluation._restart import restarted
from tocsin.evaluation._selection import Selection
from tocsin.events import Ending
from tocsin.rules import Step
from tocsin.tensors import (
    END_MARKER,
    BadCollections,
    Collections,
    End,
    RefusedFile,
    job_name,
    parse_index_key,
    read_collections,
    read_end,
)
from tocsin.watch import Watch

BATCH_FILES = 500
SILENCE_SECONDS = 24 * 3600.0
RECHECK_SECONDS = 300.0


@dataclass(frozen=True)
class Progress:
    """Where a look ended: when to look again (None: not for that), and whether time ran out."""

    due_at: float | None
    wake_at: float | None = None
    out_of_time: bool = False


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
    desk.checkpoint = restarted(desk.checkpoint, hint.keys, desk.storage)
    limits = Limits(deadline, attempts, on_step)
    most = limits.steps or BATCH_FILES
    # The end marker is looked for before the listing: then a run that has ended is listed whole.
    end = _end(desk)
    seen, more = new_files(desk, most, deadline)
    ended = _is_over(end, desk.checkpoint, seen)
    known = desk.version is not None
    if (
        known
        and not (seen or more or hint.tick or desk.is_uncommitted)
        and ended == _is_ended(desk)
    ):
        return _ended_or_due(desk)  # a duplicate: nothing to read, nothing to write
    collections = _collections(desk)
    job = None if known else _first_look(desk)
    rules = configuration(desk.checkpoint, job, world, desk.storage, watch)
    desk.refuse_parts(rules.problems)
    desk.checkpoint = configure(
        replace(desk.checkpoint, job_watch=rules.job_watch), rules.watched, rules.refused
    )
    selection = Selection(rules.watched, collections)
    while True:
        planned = plan(
            seen,
            frontier=desk.checkpoint.frontier,
            num_workers=collections.num_workers if collections else None,
            now=world.now(),
            ended=ended,
            refused=[at for key in desk.checkpoint.refused if (at := parse_index_key(key))],
        )
        done, held_until = work_off(desk, planned.ready, selection, rules, limits, ended)
        desk.commit()
        wake_at = planned.wake_at if held_until is None else held_until
        left = more or done < len(planned.ready)
        if left and held_until is None and (done == limits.steps or world.now() >= deadline):
            return Progress(world.now(), out_of_time=True)
        if not more or held_until is not None:
            break
        most = most if planned.ready else 2 * most
        seen, more = new_files(desk, most, deadline)
        ended = _is_over(end, desk.checkpoint, seen)
    if job and job.ended_at and end is None and job.ended_at >= desk.checkpoint.last_time:
        desk.storage.write(END_MARKER, b"")  # over before anybody looked; this wakes us again
    _close(desk, rules, hint, ended)
    send_wake = _remember_wake(desk, wake_at)
    desk.commit()
    desk.commit()  # that the last changes are published
    return replace(_ended_or_due(desk), wake_at=wake_at if send_wake else None)


def _end(desk: Desk) -> End | None:
    try:
        return read_end(desk.storage)
    except RefusedFile as error:
        desk.refuse(END_MARKER, str(error))
        return None


def _is_over(end: End | None, checkpoint: Checkpoint, seen: Sequence[Seen]) -> bool:
    """Whether the marker ends what lies there now, and not an earlier start of the job.

    Other workers may still be at their last files when one writes the marker.
    """
    if end is None:
        return False
    newest = max([checkpoint.last_time, *(item.modified for item in seen)])
    starts = {item.file.worker: item.file.meta.run_id for item in seen if item.file.meta}
    current = {**checkpoint.run_ids, **starts}.values()
    return end.ends(current, newest) and end.modified + HOLD_SECONDS >= newest


def _is_ended(desk: Desk) -> bool:
    return desk.checkpoint.ended is not None


def _ended_or_due(desk: Desk) -> Progress:
    """Patrol looks again at what goes on; not at what has ended, or has never begun."""
    now, checkpoint = desk.world.now(), desk.checkpoint
    waits = checkpoint.wake_at is not None and checkpoint.wake_at > now
    if checkpoint.ended or (checkpoint.last_step is None and not waits):
        return Progress(None)
    return Progress(now + RECHECK_SECONDS)


def _remember_wake(desk: Desk, wake_at: float | None) -> bool:
    """Whether a hint for ``wake_at`` is to be sent: not if an earlier one is on its way."""
    pending = desk.checkpoint.wake_at
    if wake_at is None or (pending is not None and desk.world.now() < pending <= wake_at):
        return False
    desk.checkpoint = replace(desk.checkpoint, wake_at=wake_at)
    return True


def _opened(hint: Hint, world: World, report: Report) -> Desk:
    """The run as it was left; changes that a crash left unpublished are published first."""
    stored = world.checkpoints.load(hint.run)
    desk = Desk(
        world, world.storage(hint.run), stored.checkpoint, stored.version, report, stored.checkpoint
    )
    if desk.checkpoint.unpublished:
        world.publisher.publish(desk.checkpoint.unpublished)
        desk.checkpoint = desk.checkpoint.published()
    return desk


def _first_look(desk: Desk) -> Job | None:
    """What SageMaker knows of the run's job; and how its later news will find the run."""
    name = job_name(desk.checkpoint.run)
    desk.world.coordination.remember_job(name, desk.checkpoint.run)
    return desk.world.jobs.describe(name)


def _collections(desk: Desk) -> Collections | None:
    try:
        return read_collections(desk.storage)
    except BadCollections as error:
        desk.refuse("collections/", str(error))
        return None


def _close(desk: Desk, rules: Configuration, hint: Hint, ended: bool) -> None:
    """What follows when all there is has been evaluated: ticks, and the run's end."""
    checkpoint = desk.checkpoint
    if checkpoint.ended or checkpoint.last_step is None:
        return
    if ended:
        places = (parse_index_key(item.key) for item in desk.storage.list("index/"))
        total = sum(1 for place in places if place and place[0] <= checkpoint.frontier)
        late = max(0, total - checkpoint.files - checkpoint.refused_files)
        desk.report.late += max(0, late - checkpoint.late_files)
        desk.checkpoint = _finished(replace(checkpoint, late_files=late), rules, "marker")
    elif desk.world.now() - checkpoint.last_time >= SILENCE_SECONDS:
        desk.checkpoint = _finished(checkpoint, rules, "silence")
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


def _finished(checkpoint: Checkpoint, rules: Configuration, ending: Ending) -> Checkpoint:
    return finish(checkpoint, rules.watched, ending, rules.watch)
