"""Wake up for a run: take its lease, look at it until nothing is new, give the lease back."""

from __future__ import annotations

import math
from dataclasses import replace

from tocsin.evaluation._advance import CAREFUL_ATTEMPTS
from tocsin.evaluation._desk import Hint, Report
from tocsin.evaluation._ports import Conflict, Lease, World
from tocsin.evaluation._reconcile import Progress, reconcile
from tocsin.tensors import END_MARKER

MARGIN = 8.0  # seconds: enough to finish a step, commit it and publish
_LONGEST_DELAY = 900.0  # of an SQS message; what is due later is patrol's


def evaluate(hint: Hint, world: World, *, owner: str, ends: float) -> Report:
    """Evaluate what is new in the hint's run, unless another invocation is at it.

    ``ends`` (seconds since the epoch) is when this invocation is cut off. In good time before
    that it stops and leaves the rest to a further hint.
    """
    report = Report()
    world.coordination.hint(hint.run, hint.keys)
    lease = world.coordination.take(hint.run, owner, world.now(), ends + 1)
    while lease is not None:
        lease = _look(replace(hint, keys=lease.keys), lease, world, report, ends - MARGIN)
    return report


def end_job(job: str, world: World) -> list[str]:
    """Write the end marker, as SageMaker's platform did for its Debugger, into the job's runs.

    So that the job is over becomes a fact in the bucket, where everybody finds it alike.
    Returns the runs.
    """
    runs = list(world.coordination.runs_of(job))
    for run in runs:
        world.storage(run).write(END_MARKER, b"")
    return runs


def _look(hint: Hint, lease: Lease, world: World, report: Report, deadline: float) -> Lease | None:
    """One look; the lease again if newer hints ask for another and there is time for it."""
    try:
        progress = reconcile(hint, world, report, deadline=deadline, attempts=lease.attempts)
    except Conflict:
        # Somebody else holds the run by now and sees what we saw; patrol makes sure of it.
        progress = Progress(due_at=world.now())
    except BaseException:
        world.coordination.abandon(lease)
        raise
    if progress.out_of_time:
        _leave(lease, world)
        return None
    again = world.coordination.release(lease, progress.due_at)
    if progress.wake_at is not None:
        delay = math.ceil(max(0.0, progress.wake_at - world.now()))
        world.hints.send(hint.run, "grace", min(float(delay), _LONGEST_DELAY))
    if again is not None and world.now() >= deadline:
        _leave(again, world)
        return None
    return again


def _leave(lease: Lease, world: World) -> None:
    """Leave the rest to a further hint, which finds the lease free; patrol knows of it as well.

    A run that is looked at with care stays so until it has caught up.
    """
    attempts = min(lease.attempts, CAREFUL_ATTEMPTS) if lease.attempts > CAREFUL_ATTEMPTS else 0
    world.coordination.release(lease, world.now(), last=True, attempts=attempts)
    world.hints.send(lease.run, "continue")
