"""Stop the training job: through SageMaker, or by a request that the hook obeys."""

from __future__ import annotations

import shlex

import msgspec

from tocsin.actions.ports import Effects, JobToStop, Lookups, NotRunning, StopHeld
from tocsin.actions.request import ActionOutcome, Request, Result
from tocsin.events import StatusChange
from tocsin.model import RUN_TAG, TERMINAL_JOB_STATUSES
from tocsin.parsing import job_name_fault
from tocsin.tensors import STOP, is_same_run, writes_to

_LOOK_AGAIN = 300.0  # seconds until a job that does not lead to the run is described again
ENDED = frozenset({*TERMINAL_JOB_STATUSES, "Stopping", "Deleting"})


def stop(request: Request, lookups: Lookups, effects: Effects) -> Result:
    """Stop the job if it is this run's.

    A job that SageMaker does not know gets ``STOP.json`` in its run. One that it knows must lead
    to the run by its configuration or by its tag, for the name alone is only a folder's name.
    The stop guard is asked last, and counts requests to hooks by themselves: who may write a
    folder can ask for one. The first of the rules that ask for the stop is named.
    """
    if request.argument is not None:
        return Result(ActionOutcome.REFUSED, 'stop takes no argument: write just "stop"')
    if not request.firing:
        return Result(ActionOutcome.REFUSED, "no rule fires, so there is no reason to stop the job")
    alert = request.firing[0]
    name, job = alert.training_job_name, owned_job(alert, lookups)
    if isinstance(job, Result):
        return job
    if job is None:
        return _ask_hook(alert, lookups, effects)
    if job.status in ENDED:
        return _ended(name, job)
    if held := effects.reserve_stop(alert.run, "sagemaker"):
        return _held_back(held)
    try:
        effects.stop_job(job.arn)
    except NotRunning:
        job = lookups.describe_job(name, alert.run)
        if job is None or job.status not in ENDED:
            raise
        return _ended(name, job)
    return Result(ActionOutcome.DONE, f"asked SageMaker to stop training job {name}")


def owned_job(alert: StatusChange, lookups: Lookups) -> JobToStop | Result | None:
    """Return the job of the alert's run; None if SageMaker has none; a refusal if it is another
    run's."""
    name = alert.training_job_name
    job = None if job_name_fault(name) else lookups.describe_job(name, alert.run)
    if job is None or _owns(job, alert, lookups):
        return job
    again = None if job.status in ENDED else lookups.now().timestamp() + _LOOK_AGAIN
    return Result(ActionOutcome.REFUSED, _refusal(job, alert), again)


def _ended(name: str, job: JobToStop) -> Result:
    return Result(
        ActionOutcome.ALREADY_STOPPED, f"training job {name} already has the status {job.status}"
    )


def _held_back(held: StopHeld) -> Result:
    return Result(ActionOutcome.REFUSED, held.why, retry_at=held.until, guarded=True)


def _ask_hook(alert: StatusChange, lookups: Lookups, effects: Effects) -> Result:
    if held := effects.reserve_stop(alert.run, "hook"):
        return _held_back(held)
    stop_request = {
        "requested_at": lookups.now().isoformat(),
        "rule": alert.rule_configuration_name,
        "reason": alert.reason,
        "step": alert.step,
        "run_id": alert.run_id,
    }
    effects.write(alert.run, STOP, msgspec.json.encode(stop_request))
    return Result(
        ActionOutcome.DONE,
        f"SageMaker has no training job {alert.training_job_name}: wrote {alert.run}/{STOP}, "
        "which asks the job's hook to stop it",
    )


def _owns(job: JobToStop, alert: StatusChange, lookups: Lookups) -> bool:
    if any(writes_to(output, alert.run) for output in job.outputs):
        return True
    return is_same_run(lookups.job_tags(job.arn).get(RUN_TAG, ""), alert.run)


def _refusal(job: JobToStop, alert: StatusChange) -> str:
    outputs = " and ".join(job.outputs) or "no path in its configuration"
    tag = shlex.quote(f"Key={RUN_TAG},Value={alert.run}")
    return (
        f"training job {alert.training_job_name} writes to {outputs}, not to this run, and its "
        f"tag {RUN_TAG} does not name this run. If the run belongs to this job, tag it; while "
        "the job runs, the stop is tried again every 5 minutes: "
        f"aws sagemaker add-tags --resource-arn {job.arn} --tags {tag}"
    )
