"""A training job of the local SageMaker: its request and its status."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tocsin.model import TERMINAL_JOB_STATUSES

from local.emulator import ACCOUNT, REGION

Request = Mapping[str, Any]


@dataclass(frozen=True)
class JobTransition:
    """A job got a secondary status at ``time`` (seconds since the epoch)."""

    status: str
    time: float
    message: str


@dataclass(frozen=True)
class LocalJob:
    """A job at one moment.

    log: the file with the output of its process.
    status: InProgress, Stopping, Completed, Failed or Stopped.
    stopped_as: the secondary status after a stop.
    """

    request: Request
    log: Path
    status: str = "InProgress"
    changes: tuple[JobTransition, ...] = ()
    failure: str | None = None
    exit_code: int | None = None
    stopped_as: str = "Stopped"
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.request["TrainingJobName"])

    @property
    def arn(self) -> str:
        return f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:training-job/{self.name}"

    @property
    def finished(self) -> bool:
        return self.status in TERMINAL_JOB_STATUSES

    def at(self, status: str) -> float | None:
        """The time of a secondary status. "Stopping" begins with the request to stop."""
        return next((change.time for change in self.changes if change.status == status), None)

    def advanced(self, status: str, secondary: str, message: str, **what: Any) -> LocalJob:
        """The job with another status from now on."""
        change = JobTransition(secondary, time.time(), message)
        return replace(self, status=status, changes=(*self.changes, change), **what)


def describe(job: LocalJob) -> dict[str, Any]:
    """The answer of DescribeTrainingJob; times are seconds since the epoch.

    It includes the fields of the request: DebugHookConfig, DebugRuleConfigurations, …
    """
    last = job.changes[-1]
    output = job.request.get("OutputDataConfig", {}).get("S3OutputPath", "s3://none").rstrip("/")
    answer: dict[str, Any] = {
        **{key: value for key, value in job.request.items() if key != "Tags"},
        "TrainingJobArn": job.arn,
        "TrainingJobStatus": job.status,
        "SecondaryStatus": last.status,
        "CreationTime": job.changes[0].time,
        "LastModifiedTime": last.time,
        "ModelArtifacts": {"S3ModelArtifacts": f"{output}/{job.name}/output/model.tar.gz"},
        "SecondaryStatusTransitions": list(_transitions(job)),
    }
    if (started := job.at("Training")) is not None:
        answer["TrainingStartTime"] = started
    if job.finished:
        answer["TrainingEndTime"] = last.time
    if job.failure:
        answer["FailureReason"] = job.failure
    return answer


def _transitions(job: LocalJob) -> list[dict[str, Any]]:
    ends = [change.time for change in job.changes[1:]]
    if job.finished:
        ends.append(job.changes[-1].time)
    transitions: list[dict[str, Any]] = [
        {"Status": change.status, "StartTime": change.time, "StatusMessage": change.message}
        for change in job.changes
    ]
    for transition, end in zip(transitions, ends, strict=False):
        transition["EndTime"] = end
    return transitions


def state_change(job: LocalJob) -> dict[str, Any]:
    """The PutEvents entry for a job's last transition. Times are milliseconds, as text."""
    detail = _in_milliseconds(describe(job))
    tags = [{"Key": key, "Value": value} for key, value in job.tags.items()]
    return {
        "Source": "aws.sagemaker",
        "DetailType": "SageMaker Training Job State Change",
        "Resources": [job.arn],
        "Detail": json.dumps(detail | {"Tags": tags}),
    }


def _in_milliseconds(value: Any) -> Any:
    match value:
        case dict():
            return {
                key: f"{inner * 1000:.0f}" if key.endswith("Time") else _in_milliseconds(inner)
                for key, inner in value.items()
            }
        case list():
            return [_in_milliseconds(inner) for inner in value]
    return value
