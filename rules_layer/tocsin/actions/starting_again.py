"""Start a job again when it has ended: what the function ``relaunch`` does at each call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from tocsin.actions.next_job import FROM_TAG, RELAUNCH_TAG, Relaunch, fault, next_job
from tocsin.actions.ports import JobToStop, NameTaken, Refused
from tocsin.actions.request import ActionOutcome, Result

LONGEST_WAIT = 3600.0  # seconds for a stopped job to end
_ENDING = ("InProgress", "Stopping")


@dataclass(frozen=True)
class Jobs:
    """The training jobs of the deployment's account.

    describe: the job of this name; None if there is none.
    tags: of the job with this ARN.
    create: makes a job of a request. Raises NameTaken and Refused.
    """

    describe: Callable[[str], JobToStop | None]
    tags: Callable[[str], Mapping[str, str]]
    create: Callable[[Mapping[str, Any]], None]


def start_again(
    plan: Relaunch, jobs: Jobs, deployment: str, roles: Collection[str], waited: float
) -> Result | None:
    """Create the next job; None while the old one has not ended, after ``waited`` seconds.

    All that was true when the plan was made is checked again: the job may have changed its tags,
    ended by itself, or be another account's job of the same name.
    """
    old = plan.job.rpartition("/")[2]
    job = jobs.describe(old)
    if job is None or job.arn != plan.job:
        return _refused(f"SageMaker has no training job {plan.job}")
    if job.status in _ENDING and waited < LONGEST_WAIT:
        return None
    if job.status != "Stopped":
        return _refused(f"{old} is {job.status}, not Stopped: nothing was started")
    if job.definition.get("RoleArn") not in roles:
        return _refused(f"the role of {old} is not in the deployment's option relaunch")
    if why := fault(job.definition, plan):
        return _refused(f"{old} is not started again: {why}")
    try:
        jobs.create(next_job(job.definition, jobs.tags(job.arn), plan, deployment))
    except NameTaken:
        if not _is_started(plan, jobs, deployment):
            return _refused(f"there is a training job {plan.name} already, which is not ours")
    except Refused as error:
        return _refused(f"SageMaker refused {plan.name}: {error}")
    return Result(
        ActionOutcome.DONE,
        f"started {plan.name} from {plan.checkpoint} (step {plan.checkpoint_step})",
    )


def _is_started(plan: Relaunch, jobs: Jobs, deployment: str) -> bool:
    """Return whether the job of this name was created by an earlier call."""
    found = jobs.describe(plan.name)
    if found is None:
        return False
    tags, old = jobs.tags(found.arn), plan.job.rpartition("/")[2]
    return (tags.get(RELAUNCH_TAG), tags.get(FROM_TAG)) == (deployment, old)


def _refused(why: str) -> Result:
    return Result(ActionOutcome.REFUSED, why)
