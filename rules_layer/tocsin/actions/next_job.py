"""The job that goes on where a stopped one was healthy: the old definition, and nothing new. Pure.

The files of a run can choose a checkpoint and change numbers among the hyperparameters. Role,
image, code, data and instances are those of the stopped job.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from tocsin.model import RUN_TAG
from tocsin.parsing import changed
from tocsin.words import clean

CHECKPOINT = "TOCSIN_CHECKPOINT"
"""The variable of a job's environment that names the checkpoint to start from."""

CHECKPOINT_STEP = "TOCSIN_CHECKPOINT_STEP"
"""The variable with the last step in that checkpoint."""

RELAUNCH_TAG = "tocsin:relaunch"
"""The tag of every job that a deployment has started; its value is the stack's name."""

FROM_TAG = "tocsin:relaunched-from"
"""The tag with the name of the stopped job."""

_KEPT = (
    "AlgorithmSpecification",
    "RoleArn",
    "InputDataConfig",
    "OutputDataConfig",
    "ResourceConfig",
    "StoppingCondition",
    "VpcConfig",
    "EnableNetworkIsolation",
    "EnableManagedSpotTraining",
    "EnableInterContainerTrafficEncryption",
    "RetryStrategy",
    "CheckpointConfig",
    "TensorBoardOutputConfig",
    "DebugHookConfig",
    "DebugRuleConfigurations",
    "ProfilerConfig",
    "InfraCheckConfig",
)
_FOLDER = "/opt/ml/checkpoints"  # of a CheckpointConfig without LocalPath
_NUMBERED = re.compile(r"-r([1-9])\Z")
_LONGEST_NAME = 63

Definition = Mapping[str, Any]
"""A job as DescribeTrainingJob has it."""


class Relaunch(msgspec.Struct, frozen=True):
    """A stopped job to start again.

    job: its ARN.
    old: its name, which an ARN has in small letters.
    run: the URL of its run.
    rule, dedup_id: the alert that asks for it.
    checkpoint, checkpoint_step: path and last step of the checkpoint to start from.
    attempts: how often a job is started again, at most.
    hyperparameters: the changes, by name.
    """

    job: str
    old: str
    run: str
    rule: str
    dedup_id: str
    checkpoint: str
    checkpoint_step: int
    attempts: int
    hyperparameters: dict[str, str]

    @property
    def attempt(self) -> int:
        """The number of the new job, which the old one's name tells: a job cannot change that."""
        found = _NUMBERED.search(self.old)
        return 1 + (int(found[1]) if found else 0)

    @property
    def name(self) -> str:
        """The new job's name: ``digits-r1``, then ``digits-r2``."""
        old = _NUMBERED.sub("", self.old)
        return f"{old[: _LONGEST_NAME - 3].rstrip('-')}-r{self.attempt}"

    @property
    def next_run(self) -> str:
        """The URL of the new run: the old one with the new job's name."""
        old, end = self.run.rstrip("/"), ""
        if old.endswith("/debug-output"):
            old, end = old.removesuffix("/debug-output"), "/debug-output"
        return f"{old.rpartition('/')[0]}/{self.name}{end}"

    @property
    def execution(self) -> str:
        """A name that is the same for each try to start this job again, and for no other job."""
        return f"{self.name}-{hashlib.sha256(self.job.encode()).hexdigest()[:12]}"


def fault(job: Definition, plan: Relaunch) -> str | None:
    """Return one line that says why the job cannot be started again so; None if it can."""
    if plan.attempt > plan.attempts:
        return (
            f"it was started again {plan.attempt - 1} times already, and the watch file allows "
            f"{plan.attempts} attempts: look at it yourself"
        )
    if parent := job.get("TuningJobArn") or job.get("AutoMLJobArn"):
        return f"it is part of {clean(parent, 300)}, which starts its own jobs"
    if not _outlives(job, plan.checkpoint):
        return (
            f"checkpoint {clean(plan.checkpoint, 300)} is outside of what outlives the job: save "
            f"below {_local(job)}, and give the job a CheckpointConfig"
        )
    if _holds(job["CheckpointConfig"]["S3Uri"], plan.run):
        return "its run is inside of its CheckpointConfig: give the run a place of its own"
    for name, change in plan.hyperparameters.items():
        value = _parameters(job).get(name)
        if value is None:
            return f"it has no hyper-parameter {clean(name, 80)!r}: correct `relaunch` of the file"
        if changed(value, change) is None:
            return (
                f"hyper-parameter {clean(name, 80)} is {clean(value, 80)!r}, which {change} makes "
                "no usable number of: correct `relaunch` in the watch file"
            )
    return None


def changes(job: Definition, plan: Relaunch) -> str:
    """Return the changes for people: ``lr 0.1 → 0.03``; empty without one."""
    parameters = _parameters(job)
    return ", ".join(
        f"{clean(name, 80)} {clean(parameters[name], 40)} → {changed(parameters[name], change)}"
        for name, change in plan.hyperparameters.items()
    )


def next_job(
    job: Definition, tags: Mapping[str, str], plan: Relaunch, deployment: str
) -> dict[str, Any]:
    """Return the request for CreateTrainingJob. Where the definition names the old run, it names
    the new one.
    """
    parameters = _parameters(job)
    changed_ = {
        name: changed(parameters[name], change) for name, change in plan.hyperparameters.items()
    }
    start = {CHECKPOINT: plan.checkpoint, CHECKPOINT_STEP: str(plan.checkpoint_step)}
    own = {name: value for name, value in tags.items() if not name.startswith("aws:")}
    own |= {
        RUN_TAG: plan.next_run,
        RELAUNCH_TAG: deployment,
        FROM_TAG: plan.old,
    }
    same = {key: job[key] for key in _KEPT if key in job}
    named = _renamed(
        {
            **same,
            "HyperParameters": {**parameters, **changed_},
            "Environment": {**job.get("Environment", {}), **start},
        },
        plan,
    )
    return {
        **named,
        "TrainingJobName": plan.name,
        "Tags": [{"Key": name, "Value": value} for name, value in own.items()],
    }


def _parameters(job: Definition) -> Mapping[str, str]:
    return job.get("HyperParameters") or {}


def _renamed(value: Any, plan: Relaunch) -> Any:
    """The value in which each text that is the old run's URL is the new one's."""
    match value:
        case dict():
            return {key: _renamed(each, plan) for key, each in value.items()}
        case list():
            return [_renamed(each, plan) for each in value]
        case str() if value.rstrip("/") == plan.run.rstrip("/"):
            return plan.next_run
    return value


def _outlives(job: Definition, checkpoint: str) -> bool:
    """Return whether a new job of this definition finds the file: SageMaker copies the folder of
    its CheckpointConfig there and back.
    """
    config = job.get("CheckpointConfig") or {}
    place = config.get("S3Uri", "") if checkpoint.startswith("s3://") else _local(job)
    if not config.get("S3Uri") or not checkpoint.isprintable() or ".." in checkpoint.split("/"):
        return False
    return _holds(place, checkpoint) and not _holds(checkpoint, place)


def _holds(folder: str, path: str) -> bool:
    """Return whether a path, or URL, is this folder or inside of it."""
    return f"{posixpath.normpath(path)}/".startswith(f"{posixpath.normpath(folder)}/")


def _local(job: Definition) -> str:
    return str((job.get("CheckpointConfig") or {}).get("LocalPath") or _FOLDER)
