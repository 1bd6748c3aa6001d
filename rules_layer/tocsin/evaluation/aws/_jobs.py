"""SageMaker's training jobs, as far as evaluation asks for them."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from tocsin.evaluation._ports import Job
from tocsin.model import TERMINAL_JOB_STATUSES
from tocsin.parsing import job_name_fault

_UNKNOWN = ("ValidationException", "ResourceNotFound")
_DENIED = ("AccessDenied", "AccessDeniedException")


class SageMakerJobs:
    """Describes training jobs. A name that SageMaker does not know is no job of its; nor is one
    that may not be described, because a run is watched all the same.
    """

    def __init__(self, sagemaker: Any) -> None:
        self._sagemaker = sagemaker

    def describe(self, name: str) -> Job | None:
        if job_name_fault(name):
            return None
        try:
            answer = self._sagemaker.describe_training_job(TrainingJobName=name)
        except ClientError as error:
            if error.response["Error"]["Code"] in (*_UNKNOWN, *_DENIED):
                return None
            raise
        over = answer["TrainingJobStatus"] in TERMINAL_JOB_STATUSES
        ended = answer.get("TrainingEndTime") or answer.get("LastModifiedTime")
        return Job(
            tuple(answer.get("DebugRuleConfigurations") or ()),
            ended.timestamp() if over and ended else None,
        )
