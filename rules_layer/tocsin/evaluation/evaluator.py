"""Wake up for a run: take its lease, look at it until nothing is new, give the lease back."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from functools import partial

from tocsin.evaluation.bounds import OutOfTime
from tocsin.evaluation.careful import Care
from tocsin.evaluation.messages import CONTINUE, Hint, JobEnded
from tocsin.evaluation.ports import (
    CheckpointConflict,
    EvaluationPorts,
    Lease,
    is_own,
    pause_after,
    pause_after_outages,
)
from tocsin.evaluation.reconciliation import CAREFUL_ATTEMPTS, Progress, reconcile
from tocsin.evaluation.settling import waits
from tocsin.evaluation.unit_of_work import EvaluationReport
from tocsin.tensors import END_MARKER, RefusedFile, Storage, encode_end, read_end
from tocsin.words import cut

FIRST_SHARE = 2.0  # seconds of an invocation for one run, which then makes room for others
SHARE = 10.0  # the same of one with a backlog, whose owner has a turn
WAIT = 30.0  # seconds until a run asks for a turn again
MARGIN = 8.0  # seconds: enough to finish a step, commit it and publish
GIVE_UP_ATTEMPTS = 8  # after so many that did not finish, a run is looked at once a day
_GIVEN_UP_SECONDS = 24 * 3600.0
_OUTAGES = 2  # in a row that are not yet counted as a run that is not watched
_MOST_REASON = 1000  # characters
_LONGEST_DELAY = 900.0  # of an SQS message; patrol does what is due later


def evaluate(hint: Hint, ports: EvaluationPorts, *, owner: str, ends: float) -> EvaluationReport:
    """Evaluate what is new in the hint's run, unless another invocation holds its lease.

    ``ends`` (seconds since the epoch) is when this invocation is cut off. MARGIN seconds before
    that it stops, and after FIRST_SHARE seconds, and leaves the rest to a further hint. That has
    SHARE seconds, and needs one of the turns of the run's owner.
    """
    report, now = EvaluationReport(), ports.now()
    if waits(hint, ports):
        return report
    lease = ports.coordination.take(hint.run, owner, now, ends + 1, hint.keys)
    if lease is None:
        return report
    if lease.attempts > GIVE_UP_ATTEMPTS and not lease.suspect:
        _give_up(lease, ports, report)
    elif not _has_backlog(hint, lease, now):
        _look_until(now + FIRST_SHARE, hint, lease, ports, report, ends)
    elif (turns := ports.turns(ports.owner(hint.run))).take(owner, ends + 1):
        try:
            _look_until(now + SHARE, hint, lease, ports, report, ends)
        finally:
            turns.give_back(owner)
    else:
        _wait_for_turn(hint, lease, ports)
    return report


def _has_backlog(hint: Hint, lease: Lease, now: float) -> bool:
    """Return whether the run's last look left a rest. With care it takes its time anyhow."""
    is_due = lease.due_at is not None and lease.due_at <= now
    return (hint.continues or is_due) and lease.attempts <= 1


def _wait_for_turn(hint: Hint, lease: Lease, ports: EvaluationPorts) -> None:
    """Leave the run as it was. What another hint than that of the backlog says is kept for it."""
    ports.coordination.abandon(
        lease, attempts=lease.attempts - 1, until=None, outages=lease.outages
    )
    if hint.continues:
        ports.hints.send(hint.run, CONTINUE, WAIT)


def _look_until(
    yields: float,
    hint: Hint,
    lease: Lease | None,
    ports: EvaluationPorts,
    report: EvaluationReport,
    ends: float,
) -> None:
    deadline = ends - MARGIN
    while lease is not None:
        now = replace(hint, keys=lease.keys)
        lease = _look(now, lease, ports, report, deadline, min(yields, deadline))


def end_job(ended: JobEnded, ports: EvaluationPorts) -> list[str]:
    """Write the end marker, as SageMaker's platform did for its Debugger, into the job's runs.

    From the bucket, every reader learns the same way that the job has ended. Returns the runs.

    The marker names the starts that are known of the run, and those of a marker that is there: it
    does not end a later one.
    Runs of other folders that are called like the job are left alone, and so are those of another
    job of this name: in another account, or made since.
    """
    described = ports.jobs.find(ended.arn)
    if described is None or not described.is_over:
        return []
    known = ports.coordination.runs_of(ended.job)
    runs = [run for run in known if is_own(described, run, ports.jobs)]
    for run in runs:
        starts = ports.checkpoints.load(run).checkpoint.run_ids.values()
        storage = ports.storage(run)
        every = [*starts, *_ended_starts(storage)]
        storage.write(END_MARKER, encode_end(starts=every, status=described.status))
    return runs


def _ended_starts(storage: Storage) -> Collection[str]:
    """Return the starts that the run's present end marker names."""
    try:
        end = read_end(storage)
    except RefusedFile:
        return ()
    return () if end is None else end.named


def _look(
    hint: Hint,
    lease: Lease,
    ports: EvaluationPorts,
    report: EvaluationReport,
    deadline: float,
    yields: float,
) -> Lease | None:
    """One look; the lease again if newer hints ask for another look and there is time for it."""
    steps = report.steps
    note, attempts = partial(ports.coordination.note, lease), lease.attempts
    care = Care(attempts > 1, lease.suspect, note, deadline)
    try:
        progress = reconcile(
            hint, ports, report, deadline=deadline, yields=yields, attempts=attempts, care=care
        )
    except OutOfTime as error:
        if report.steps == steps:
            _pause(lease, error, ports, report)
            return None
        progress = Progress(ports.now(), out_of_time=True)
    except CheckpointConflict:
        # Another invocation has committed and sees what this one saw; patrol makes sure of it.
        progress = Progress(due_at=ports.now())
        lease = replace(lease, keys=())
    except BaseException as error:
        if _pause(lease, error, ports, report):
            return None
        raise
    if progress.out_of_time:
        _leave_rest(lease, ports)
        return None
    again = ports.coordination.release(lease, _due_at(lease, progress, ports.now()))
    if progress.wake_at is not None:
        delay = math.ceil(max(0.0, progress.wake_at - ports.now()))
        ports.hints.send(hint.run, "grace", min(float(delay), _LONGEST_DELAY))
    if again is not None and ports.now() >= yields:
        _leave_rest(again, ports)
        return None
    return again


def _due_at(lease: Lease, progress: Progress, now: float) -> float | None:
    """Return when patrol looks: as it stands in the table, if that is early enough. To move it
    costs."""
    if lease.due_at is None or progress.due_at is None:
        return progress.due_at
    return lease.due_at if now < lease.due_at <= progress.due_at else progress.due_at


def _pause(
    lease: Lease, error: BaseException, ports: EvaluationPorts, report: EvaluationReport
) -> bool:
    """Give the lease back, after an error, and have the run pause; whether patrol takes it up.

    An error of a service is no attempt at a step, and at first no reason to pause. If it stays,
    the run pauses longer and longer: its message has done all that it can.
    """
    if not isinstance(error, ports.outages):
        until = ports.now() + pause_after(lease.attempts)
        why = cut(f"{type(error).__name__}: {error}", _MOST_REASON)
        ports.coordination.abandon(lease, attempts=lease.attempts, until=until, trouble=why)
        return isinstance(error, OutOfTime)
    outages = lease.outages + 1
    pause = pause_after_outages(outages, denied=ports.is_denied(error))
    ports.coordination.abandon(
        lease,
        attempts=lease.attempts - 1,
        until=ports.now() + pause if pause else None,
        outages=outages,
        trouble=cut(str(error), _MOST_REASON),
    )
    if pause:
        report.unwatched += outages > _OUTAGES
        report.log.append(f"{lease.run}: paused for {pause:.0f} s: {error}")
    return pause > 0


def _give_up(lease: Lease, ports: EvaluationPorts, report: EvaluationReport) -> None:
    """Have a run pause whose looks do not finish: each of them takes time from other runs."""
    why = (
        f"{GIVE_UP_ATTEMPTS} consecutive evaluations did not finish; from now on the run is "
        "evaluated once a day"
    )
    report.unwatched += 1
    report.log.append(f"{lease.run}: {why}")
    ports.coordination.abandon(
        lease, attempts=GIVE_UP_ATTEMPTS - 1, until=ports.now() + _GIVEN_UP_SECONDS, trouble=why
    )


def _leave_rest(lease: Lease, ports: EvaluationPorts) -> None:
    """Leave the rest to a further hint, which finds the lease free; for patrol the run is due.

    A run that is looked at with care stays so until it has caught up.
    """
    attempts = CAREFUL_ATTEMPTS if lease.attempts > CAREFUL_ATTEMPTS else 0
    ports.coordination.release(lease, ports.now(), last=True, attempts=attempts)
    ports.hints.send(lease.run, CONTINUE)
