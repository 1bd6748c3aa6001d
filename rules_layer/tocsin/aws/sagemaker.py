"""SageMaker's training jobs: described for rules and for a stop, and stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, ParamValidationError

from tocsin.aws.clients import error_code
from tocsin.evaluation import JobDescription
from tocsin.model import RUN_TAG, TERMINAL_JOB_STATUSES
from tocsin.parsing import job_name_fault

if TYPE_CHECKING:
    from tocsin.actions import JobToStop

_UNKNOWN = ("ValidationException", "ResourceNotFound")
_DENIED = ("AccessDenied", "AccessDeniedException")


@dataclass(frozen=True)
class SageMakerJobs:
    client: Any

    def describe(self, name: str, run: str = "") -> JobDescription | None:
        """Return the job as evaluation knows it. None also for a job that may not be described,
        because a run is watched all the same.
        """
        if job_name_fault(name):
            return None
        job = self._described(name, lambda error: error_code(error) in (*_UNKNOWN, *_DENIED))
        if job is None:
            return None
        over = job["TrainingJobStatus"] in TERMINAL_JOB_STATUSES
        ended = job.get("TrainingEndTime") or job.get("LastModifiedTime")
        return JobDescription(
            tuple(job.get("DebugRuleConfigurations") or ()),
            ended.timestamp() if over and ended else None,
            _outputs(job),
            job["TrainingJobArn"],
            tuple(job.get("ProfilerRuleConfigurations") or ()),
            over,
            _machines(job.get("ResourceConfig", {})),
            job["TrainingJobStatus"] if over else None,
        )

    def find(self, arn: str) -> JobDescription | None:
        job = self.describe(arn.rpartition("/")[2])
        return job if job is not None and job.arn == arn else None

    def may_write(self, arn: str, run: str) -> bool:
        return True

    def tagged_run(self, job: JobDescription) -> str:
        try:
            return self.tags(job.arn).get(RUN_TAG, "")
        except ClientError as error:
            if error_code(error) in _DENIED:
                return ""
            raise

    def to_stop(self, name: str, run: str = "") -> JobToStop | None:
        """Return the details needed to stop a job; None only if SageMaker has no such job."""
        from tocsin.actions import JobToStop  # here: only act stops a job

        job = self._described(name, _is_missing)
        if job is None:
            return None
        return JobToStop(
            job["TrainingJobArn"],
            job["TrainingJobStatus"],
            _outputs(job),
            job,
        )

    def create(self, request: Mapping[str, Any]) -> None:
        """Create a job. Raises NameTaken, and Refused for what SageMaker will never take."""
        from tocsin.actions import NameTaken, Refused

        try:
            self.client.create_training_job(**request)
        except ParamValidationError as error:
            raise Refused(str(error)) from error
        except ClientError as error:
            code = error_code(error)
            if code == "ResourceInUse":
                raise NameTaken(str(error)) from error
            if code in (*_UNKNOWN, *_DENIED):
                raise Refused(str(error)) from error
            raise

    def tags(self, arn: str) -> Mapping[str, str]:
        pages = self.client.get_paginator("list_tags").paginate(ResourceArn=arn)
        return {tag["Key"]: tag["Value"] for page in pages for tag in page["Tags"]}

    def stop(self, arn: str) -> None:
        from tocsin.actions import NotRunning

        try:
            self.client.stop_training_job(TrainingJobName=arn.rpartition("/")[2])
        except ClientError as error:
            # Two codes for one thing: a job that has ended meanwhile.
            if error_code(error) in _UNKNOWN:
                raise NotRunning(str(error)) from error
            raise

    def _described(
        self, name: str, is_absent: Callable[[ClientError], bool]
    ) -> Mapping[str, Any] | None:
        try:
            job: Mapping[str, Any] = self.client.describe_training_job(TrainingJobName=name)
        except ClientError as error:
            if is_absent(error):
                return None
            raise
        return job


def _machines(resources: Mapping[str, Any]) -> Mapping[str, int]:
    """The number of instances by their type; a job has one type, or groups of several."""
    counts: Counter[str] = Counter()
    for group in (resources, *resources.get("InstanceGroups", ())):
        if "InstanceType" in group:
            counts[group["InstanceType"]] += group["InstanceCount"]
    return dict(counts)


def _outputs(job: Mapping[str, Any]) -> tuple[str, ...]:
    """The paths to which the job may write a run."""
    outputs = (
        job.get("DebugHookConfig", {}).get("S3OutputPath"),
        job.get("CheckpointConfig", {}).get("S3Uri"),
        job.get("ProfilerConfig", {}).get("S3OutputPath"),
    )
    return tuple(url for url in outputs if url)


def _is_missing(error: ClientError) -> bool:
    """SageMaker reports a missing job as a ValidationException that only its words tell apart."""
    words = error.response["Error"].get("Message", "").lower()
    missing = "not found" in words or "could not find" in words
    code = error_code(error)
    return code == "ResourceNotFound" or (code == "ValidationException" and missing)
