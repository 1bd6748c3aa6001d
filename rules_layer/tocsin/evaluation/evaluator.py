"""Wake up for a run: take its lease, look at it until nothing is new, give the lease back."""

from __future__ import annotations

import math
from dataclasses import replace

from tocsin.evaluation.messages import Hint, JobEnded
from tocsin.evaluation.ports import CheckpointConflict, EvaluationPorts, Lease, is_own, pause_after
from tocsin.evaluation.reconciliation import CAREFUL_ATTEMPTS, Progress, reconcile
from tocsin.evaluation.unit_of_work import EvaluationReport
from tocsin.tensors import END_MARKER, encode_end

SHARE = 10.0  # seconds of an invocation for one run: one with a backlog then makes room for others
MARGIN = 8.0  # seconds: enough to finish a step, commit it and publish
_LONGEST_DELAY = 900.0  # of an SQS message; patrol does what is due later


def evaluate(hint: Hint, ports: EvaluationPorts, *, owner: str, ends: float) -> EvaluationReport:
    """Evaluate what is new in the hint's run, unless another invocation holds its lease.

    ``ends`` (seconds since the epoch) is when this invocation is cut off. MARGIN seconds before
    that it stops, and after SHARE seconds, and leaves the rest to a further hint.
    """
    report, yields = EvaluationReport(), min(ports.now() + SHARE, ends - MARGIN)
    lease = ports.coordination.take(hint.run, owner, ports.now(), ends + 1, hint.keys)
    while lease is not None:
        lease = _look(replace(hint, keys=lease.keys), lease, ports, report, ends - MARGIN, yields)
    return report


def end_job(ended: JobEnded, ports: EvaluationPorts) -> list[str]:
    """Write the end marker, as SageMaker's platform did for its Debugger, into the job's runs.

    From the bucket, every reader learns the same way that the job has ended. Returns the runs.

    The marker names the starts that are known of the run: it does not end a later one.
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
        ports.storage(run).write(END_MARKER, encode_end(starts=starts))
    return runs


def _look(
    hint: Hint,
    lease: Lease,
    ports: EvaluationPorts,
    report: EvaluationReport,
    deadline: float,
    yields: float,
) -> Lease | None:
    """One look; the lease again if newer hints ask for another look and there is time for it."""
    try:
        progress = reconcile(
            hint, ports, report, deadline=deadline, yields=yields, attempts=lease.attempts
        )
    except CheckpointConflict:
        # Another invocation has committed and sees what this one saw; patrol makes sure of it.
        progress = Progress(due_at=ports.now())
        lease = replace(lease, keys=())
    except BaseException as error:
        _abandon(lease, error, ports)
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
    """When patrol looks: as it stands in the table, if that is early enough. To move it costs."""
    if lease.due_at is None or progress.due_at is None:
        return progress.due_at
    return lease.due_at if now < lease.due_at <= progress.due_at else progress.due_at


def _abandon(lease: Lease, error: BaseException, ports: EvaluationPorts) -> None:
    """An error of a service is no attempt at a step; after any other the run pauses."""
    if isinstance(error, ports.outages):
        ports.coordination.abandon(lease, attempts=lease.attempts - 1, until=None)
    else:
        until = ports.now() + pause_after(lease.attempts)
        ports.coordination.abandon(lease, attempts=lease.attempts, until=until)


def _leave_rest(lease: Lease, ports: EvaluationPorts) -> None:
    """Leave the rest to a further hint, which finds the lease free; for patrol the run is due.

    A run that is looked at with care stays so until it has caught up.
    """
    attempts = CAREFUL_ATTEMPTS if lease.attempts > CAREFUL_ATTEMPTS else 0
    ports.coordination.release(lease, ports.now(), last=True, attempts=attempts)
    ports.hints.send(lease.run, "continue")
