"""Stop the training job: through SageMaker, or by a request that the hook obeys."""

from __future__ import annotations

import re
import shlex

import msgspec

from tocsin.actions._ports import Job, NotRunning, Ports
from tocsin.actions._request import Outcome, Request, Result
from tocsin.events import StatusChange
from tocsin.model import TERMINAL_JOB_STATUSES
from tocsin.parsing import job_name_fault
from tocsin.tensors import STOP

RUN_TAG = "tocsin:run"

_ENDED = frozenset({*TERMINAL_JOB_STATUSES, "Stopping", "Deleting"})


def stop(request: Request, ports: Ports) -> Result:
    """Stops the job if it is this run's.

    A job that SageMaker does not know gets ``STOP.json`` in its run. One that it knows must lead
    to the run by its configuration or by its tag, for the name alone is only a folder's name.
    The stop guard is asked last. Of several rules that ask for the stop the first is named.
    """
    if request.argument is not None:
        return Result(Outcome.REFUSED, 'stop takes no argument: write just "stop"')
    if not request.firing:
        return Result(Outcome.REFUSED, "nothing fires, so there is no reason to stop the job")
    alert = request.firing[0]
    name = alert.training_job_name
    job = None if job_name_fault(name) else ports.describe_job(name)
    if job is None:
        return _ask_hook(alert, ports)
    if not _owns(job, alert, ports):
        return Result(Outcome.REFUSED, _refusal(job, alert))
    if job.status in _ENDED:
        return _ended(name, job)
    if why := ports.may_stop(alert.run):
        return Result(Outcome.REFUSED, why, guarded=True)
    try:
        ports.stop_job(name)
    except NotRunning:
        job = ports.describe_job(name)
        if job is None or job.status not in _ENDED:
            raise
        return _ended(name, job)
    return Result(Outcome.DONE, f"asked SageMaker to stop training job {name}")


def _ended(name: str, job: Job) -> Result:
    return Result(Outcome.ALREADY_STOPPED, f"training job {name} was {job.status} already")


def _ask_hook(alert: StatusChange, ports: Ports) -> Result:
    if why := ports.may_stop(alert.run):
        return Result(Outcome.REFUSED, why, guarded=True)
    wish = {
        "requested_at": ports.now().isoformat(),
        "rule": alert.rule_configuration_name,
        "reason": alert.reason,
        "step": alert.step,
        "run_id": alert.run_id,
    }
    ports.write(alert.run, STOP, msgspec.json.encode(wish))
    return Result(
        Outcome.DONE,
        f"SageMaker has no job {alert.training_job_name}: wrote {alert.run}/{STOP}, "
        "at which the job's hook asks it to stop",
    )


def _owns(job: Job, alert: StatusChange, ports: Ports) -> bool:
    run, name = _normal(alert.run), alert.training_job_name
    for output in job.outputs:
        base = _normal(output)
        if run in (base, f"{base}/debug-output", f"{base}/{name}", f"{base}/{name}/debug-output"):
            return True
    return _normal(ports.job_tags(job.arn).get(RUN_TAG, "")) == run


def _normal(url: str) -> str:
    scheme, separator, path = url.partition("://")
    return scheme + separator + re.sub("/+", "/", path).rstrip("/")


def _refusal(job: Job, alert: StatusChange) -> str:
    outputs = " and ".join(job.outputs) or "nowhere that it declares"
    tag = shlex.quote(f"Key={RUN_TAG},Value={alert.run}")
    return (
        f"SageMaker's job {alert.training_job_name} writes to {outputs}, not to this run, and no "
        f"tag {RUN_TAG} says that the run is its own. If it is: "
        f"aws sagemaker add-tags --resource-arn {job.arn} --tags {tag}"
    )
