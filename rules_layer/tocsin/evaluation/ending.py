"""End a run: by its marker, by its job, or after a day of silence."""

from __future__ import annotations

from msgspec.structs import replace

from tocsin.evaluation.careful import Care, judge_tick
from tocsin.evaluation.configuration import Configuration
from tocsin.evaluation.looking import count_late_files
from tocsin.evaluation.status_changes import finish, reopen
from tocsin.evaluation.unit_of_work import UnitOfWork
from tocsin.tensors import END_MARKER, End, encode_end

SILENCE_SECONDS = 24 * 3600.0
QUIET_SECONDS = 300.0  # without a step; then a marker ends a run again that went on after it


def end_if_job_ended(work: UnitOfWork, rules: Configuration, end: End | None) -> None:
    """Write the end marker of a job that ended before its run was first looked at.

    The marker's notification brings the next look.
    """
    job, checkpoint = rules.job, work.checkpoint
    if end is None and job and job.ended_at and job.ended_at >= checkpoint.last_time:
        marker = encode_end(None, job.ended_at, checkpoint.run_ids.values(), job.status)
        work.storage.write(END_MARKER, marker)


def fold_end_or_tick(
    work: UnitOfWork,
    rules: Configuration,
    tick: float | None,
    end: End | None,
    deadline: float,
    care: Care,
) -> bool:
    """Fold what follows when all files have been evaluated: the run's ``end``, or a tick.

    The marker's time is a tick, too: a run that hung until its end has stalled. False if there
    was not time enough for the end of a large run.
    """
    ended, quiet = work.checkpoint.ended, work.ports.now() - work.checkpoint.quiet_since
    # Workers may go on after the end. Each of their steps reopens the run, and none ends it again.
    is_new = end is not None and end.modified > work.checkpoint.ended_by
    if end is not None and ended != "marker" and (is_new or quiet >= QUIET_SECONDS):
        if not count_late_files(work, deadline):
            return False
        if ended:
            work.replace(reopen(work.checkpoint))
        judge_tick(work, rules.watched, end.modified, care)
        checkpoint = finish(work.checkpoint, rules.watched, "marker", rules.watch)
        work.replace(replace(checkpoint, ended_by=end.modified, job_status=end.status))
    elif ended:
        return True
    elif quiet >= SILENCE_SECONDS:
        work.replace(finish(work.checkpoint, rules.watched, "silence", rules.watch))
    elif tick is not None:
        judge_tick(work, rules.watched, tick, care)
    return True
