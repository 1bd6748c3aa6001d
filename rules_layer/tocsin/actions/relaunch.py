"""Start a stopped job again, from a checkpoint saved before the first sign of the fault."""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.actions.next_job import Relaunch, changes, fault
from tocsin.actions.ports import Effects, JobToStop, Lookups
from tocsin.actions.request import ActionOutcome, Request, Result
from tocsin.actions.stop import ENDED, owned_job
from tocsin.events import RelaunchPolicy, StatusChange
from tocsin.words import clean

_LOOK_AGAIN = 60.0  # seconds until the job may have been stopped


def relaunch(request: Request, lookups: Lookups, effects: Effects) -> Result:
    """Have the job started again when it has ended, if it is this run's and was stopped for it.

    The checks of a stop hold here as well, and the stop guard: only a job that this deployment has
    stopped is started again, once. The rest is the job's own definition.
    """
    if request.argument is not None:
        return _refused('relaunch takes no argument: write just "relaunch"')
    if not request.firing:
        return _refused("nothing fires, so there is no reason to start the job again")
    alert = request.firing[0]
    name, roles = alert.training_job_name, lookups.relaunch_roles
    if not roles:
        return _refused("this deployment starts no jobs again: deploy it with the option relaunch")
    job = owned_job(alert, lookups)
    if isinstance(job, Result):
        return job
    if job is None:
        return _refused(f"SageMaker has no training job {name}: elsewhere use --on-stop")
    if (role := job.definition.get("RoleArn")) not in roles:
        return _refused(f"role {role} of {name} is not in the deployment's option relaunch")
    plan = _plan(request.firing, job)
    if isinstance(plan, str):
        return _refused(f"{name} is not started again: {plan}")
    if not (request.stopped or request.dry_run):
        if job.status in ENDED:
            return _refused(f"{name} is {job.status}, and this deployment has not stopped it")
        later = lookups.now().timestamp() + _LOOK_AGAIN
        return Result(ActionOutcome.REFUSED, f"{name} is not stopped yet", later)
    effects.relaunch(plan)
    what = changes(job.definition, plan)
    return Result(
        ActionOutcome.DONE,
        f"{plan.name} starts from the checkpoint of step {plan.checkpoint_step} when {name} has "
        f"ended{', with ' if what else ''}{what} (attempt {plan.attempt} of {plan.attempts})",
    )


def _plan(alerts: Sequence[StatusChange], job: JobToStop) -> Relaunch | str:
    """Return the plan, or the reason why there is none. The earliest first sign counts."""
    policy = next((each.relaunch for each in alerts if each.relaunch), None)
    if not isinstance(policy, RelaunchPolicy):
        return "correct `relaunch` in the watch file, which tocsin lint checks"
    known = [each.last_good for each in alerts if each.last_good]
    good = min(known, key=lambda each: each.first_sign, default=None)
    if good is None or good.checkpoint is None or good.checkpoint_step is None:
        return (
            "no model checkpoint before the first sign of the fault: "
            "call hook.checkpoint(path) after each save"
        )
    alert = alerts[0]
    plan = Relaunch(
        job.arn,
        job.definition.get("TrainingJobName", alert.training_job_name),
        alert.run,
        alert.rule_configuration_name,
        alert.dedup_id,
        good.checkpoint,
        good.checkpoint_step,
        policy.attempts,
        policy.hyperparameters,
    )
    return fault(job.definition, plan) or plan


def _refused(why: str) -> Result:
    return Result(ActionOutcome.REFUSED, clean(why, 1000))
