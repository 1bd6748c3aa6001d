"""The ports of actions, connected to AWS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import boto3
import msgspec
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer
from botocore.config import Config
from botocore.exceptions import ClientError

from tocsin.actions._once import memory
from tocsin.actions._ports import Job, Message, NotRunning, Ports
from tocsin.actions._settings import Settings
from tocsin.model import METRIC_NAMESPACE

# "Standard" retries throttling and passing faults, with back-off; what is left SQS retries.
_CONFIG = Config(
    retries={"mode": "standard", "total_max_attempts": 4}, connect_timeout=3, read_timeout=10
)


def connect(settings: Settings) -> tuple[Ports, DynamoDBPersistenceLayer]:
    """The ports, and the memory of what was done, of one deployment."""

    def client(service: str) -> Any:
        return boto3.client(service, config=_CONFIG)

    jobs = SageMaker(client("sagemaker"))
    ports = Ports(
        describe_job=jobs.describe,
        job_tags=jobs.tags,
        stop_job=jobs.stop,
        write=RunFiles(client("s3")).write,
        publish=Topic(client("sns"), settings.topic_arn).publish,
        put_metric=MetricSink(client("cloudwatch")).put,
        put_event=Bus(client("events"), settings.bus).put,
        now=lambda: datetime.now(UTC),
        subscribed=frozenset(
            name for name, any_ in (("email", settings.emails), ("sms", settings.phones)) if any_
        ),
    )
    return ports, memory(settings.table, client("dynamodb"))


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


@dataclass(frozen=True)
class RunFiles:
    client: Any

    def write(self, run: str, key: str, data: bytes) -> None:
        bucket, _, prefix = run.removeprefix("s3://").partition("/")
        path = "/".join(part for part in (prefix.rstrip("/"), key) if part)
        self.client.put_object(Bucket=bucket, Key=path, Body=data, ContentType="application/json")


@dataclass(frozen=True)
class Topic:
    client: Any
    arn: str

    def publish(self, message: Message) -> None:
        subject = {"Subject": message.subject} if message.subject else {}
        self.client.publish(
            TopicArn=self.arn,
            MessageStructure="json",
            Message=msgspec.json.encode(message.texts).decode(),
            MessageAttributes={
                name: {"DataType": "String", "StringValue": text}
                for name, text in message.attributes.items()
            },
            **subject,
        )


@dataclass(frozen=True)
class MetricSink:
    client: Any

    def put(self, name: str, value: float, dimensions: Mapping[str, str]) -> None:
        labels = [{"Name": key, "Value": label} for key, label in dimensions.items()]
        self.client.put_metric_data(
            Namespace=METRIC_NAMESPACE,
            MetricData=[{"MetricName": name, "Value": value, "Dimensions": labels}],
        )


@dataclass(frozen=True)
class Bus:
    client: Any
    name: str

    def put(self, detail_type: str, detail: Mapping[str, Any]) -> None:
        """Raises RuntimeError if the bus did not take the event: PutEvents itself does not."""
        answer = self.client.put_events(
            Entries=[
                {
                    "EventBusName": self.name,
                    "Source": "tocsin",
                    "DetailType": detail_type,
                    "Detail": msgspec.json.encode(detail).decode(),
                }
            ]
        )
        if answer["FailedEntryCount"]:
            raise RuntimeError(f"bus {self.name} refused the event: {answer['Entries'][0]}")
