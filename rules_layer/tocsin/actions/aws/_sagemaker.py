"""SageMaker's training jobs, as far as stopping one asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from tocsin.actions._ports import Job, NotRunning


@dataclass(frozen=True)
class SageMaker:
    client: Any

    def describe(self, name: str) -> Job | None:
        try:
            job = self.client.describe_training_job(TrainingJobName=name)
        except ClientError as error:
            if _not_found(error):
                return None
            raise
        outputs = (
            job.get("DebugHookConfig", {}).get("S3OutputPath"),
            job.get("CheckpointConfig", {}).get("S3Uri"),
        )
        return Job(
            job["TrainingJobArn"], job["TrainingJobStatus"], tuple(url for url in outputs if url)
        )

    def tags(self, arn: str) -> Mapping[str, str]:
        pages = self.client.get_paginator("list_tags").paginate(ResourceArn=arn)
        return {tag["Key"]: tag["Value"] for page in pages for tag in page["Tags"]}

    def stop(self, name: str) -> None:
        try:
            self.client.stop_training_job(TrainingJobName=name)
        except ClientError as error:
            # Two codes for one thing: a job that has ended meanwhile.
            if error.response["Error"]["Code"] in ("ValidationException", "ResourceNotFound"):
                raise NotRunning(str(error)) from error
            raise


def _not_found(error: ClientError) -> bool:
    """SageMaker reports a missing job as a ValidationException, told apart by its words only."""
    reason = error.response["Error"]
    words = reason.get("Message", "").lower()
    missing = "not found" in words or "could not find" in words
    return reason["Code"] == "ResourceNotFound" or (
        reason["Code"] == "ValidationException" and missing
    )
