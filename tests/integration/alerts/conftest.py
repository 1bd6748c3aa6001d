"""The parts of the stack that ``act`` and ``patrol`` touch, in process."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import boto3
import pytest
from moto import mock_aws
from msgspec.structs import replace
from tocsin.alerts import parse_message
from tocsin.aws.s3 import S3Checkpoints
from tocsin.aws.settings import ActSettings
from tocsin.evaluation.records import RuleRecord
from tocsin.events import BadEvent, StatusChange

CLIENT = cache(boto3.client)
"""Makes each client once: that takes longer than what tests do with it."""

RUN = "s3://captures/jobs/j1/debug-output"
DETAIL = {
    "TrainingJobName": "j1",
    "Run": RUN,
    "RuleConfigurationName": "VanishingGradient",
    "Rule": "VanishingGradient",
    "RuleEvaluationStatus": "IssuesFound",
    "PreviousStatus": "InProgress",
    "Severity": "critical",
    "Step": 120,
    "Evidence": {"abs_mean": 3.1e-9},
    "Actions": ["email", "sms", "metric", "stop"],
    "DedupId": "d1",
    "RunId": "r1",
    "Sequence": 1,
    "Notify": {"GroupWait": 10.0, "RepeatInterval": 14400.0, "SendResolved": True},
}


@dataclass(frozen=True)
class Context:
    """What powertools reads of an invocation."""

    left: int = 600_000
    function_name: str = "act"
    memory_limit_in_mb: int = 256
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:111122223333:function:act"
    aws_request_id: str = "00000000-0000-0000-0000-000000000000"

    def get_remaining_time_in_millis(self) -> int:
        return self.left


class Deployment:
    """What the stack makes. Unless it is ``watched``, nobody gets what goes to topic and bus."""

    def __init__(self, *, watched: bool = True) -> None:
        for bucket in ("captures", "state"):
            boto3.client("s3").create_bucket(Bucket=bucket)
        boto3.client("dynamodb").create_table(
            TableName="table",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[
                {"AttributeName": "pk", "AttributeType": "S"},
                {"AttributeName": "due_shard", "AttributeType": "S"},
                {"AttributeName": "due_at", "AttributeType": "N"},
            ],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": "due",
                    "KeySchema": [
                        {"AttributeName": "due_shard", "KeyType": "HASH"},
                        {"AttributeName": "due_at", "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                }
            ],
        )
        self.sqs = boto3.client("sqs")
        self.topic = boto3.client("sns").create_topic(Name="alerts")["TopicArn"]
        boto3.client("events").create_event_bus(Name="tocsin")
        self.evaluate = self._queue("evaluate")
        self.report = self._queue("report")
        self.dead = self._queue("dead")
        redrive = {"deadLetterTargetArn": self._arn(self.dead), "maxReceiveCount": 5}
        self.act = self._queue("act", RedrivePolicy=json.dumps(redrive), VisibilityTimeout="0")
        if watched:
            self.email = self._subscribed("email")
            self.sms = self._subscribed("sms")
            self.bus = self._watched_bus()
        else:  # somebody gets the messages, or they would be refused
            self._subscribed("anybody")

    @property
    def environment(self) -> dict[str, str]:
        return {
            "TOCSIN_TABLE": "table",
            "TOCSIN_BUS": "tocsin",
            "TOCSIN_TOPIC_ARN": self.topic,
            "TOCSIN_STATE_BUCKET": "state",
            "TOCSIN_ACT_QUEUE_URL": self.act,
            "TOCSIN_EVALUATE_QUEUE_URL": self.evaluate,
            "TOCSIN_REPORT_QUEUE_URL": self.report,
            "TOCSIN_EMAILS": "ml-oncall@example.com",
            "TOCSIN_PHONES": "",
            "TOCSIN_ALLOWED_RECIPIENTS": "*@example.org",
            "TOCSIN_WEBHOOKS": "",
        }

    @property
    def settings(self) -> ActSettings:
        return ActSettings.read(self.environment)

    def received(self, queue: str) -> list[Any]:
        """What lies in a queue, decoded; the queue is empty afterwards."""
        bodies: list[Any] = []
        while True:
            answer = self.sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
            if not answer.get("Messages"):
                return bodies
            for message in answer["Messages"]:
                bodies.append(json.loads(message["Body"]))
                self.sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])

    def item(self, key: str) -> dict[str, Any]:
        answer = boto3.client("dynamodb").get_item(TableName="table", Key={"pk": {"S": key}})
        item: dict[str, Any] = answer.get("Item", {})
        return item

    def _queue(self, name: str, **attributes: str) -> str:
        url: str = self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        return url

    def _arn(self, queue: str) -> str:
        answer = self.sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])
        arn: str = answer["Attributes"]["QueueArn"]
        return arn

    def _subscribed(self, action: str) -> str:
        queue = self._queue(f"mailbox-{action}")
        boto3.client("sns").subscribe(
            TopicArn=self.topic,
            Protocol="sqs",
            Endpoint=self._arn(queue),
            Attributes={"FilterPolicy": json.dumps({"action": [action]})},
        )
        return queue

    def _watched_bus(self) -> str:
        queue, events = self._queue("told"), boto3.client("events")
        events.put_rule(
            Name="all",
            EventBusName="tocsin",
            EventPattern=json.dumps({"detail-type": ["Tocsin Action Taken"]}),
        )
        events.put_targets(
            Rule="all", EventBusName="tocsin", Targets=[{"Id": "q", "Arn": self._arn(queue)}]
        )
        return queue


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SAGEMAKER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setattr(boto3, "client", CLIENT)
    with mock_aws():
        deployed = Deployment()
        powertools = {
            "POWERTOOLS_SERVICE_NAME": "act",
            "POWERTOOLS_METRICS_NAMESPACE": "Tocsin",
        }
        for name, value in {**deployed.environment, **powertools}.items():
            monkeypatch.setenv(name, value)
        yield deployed


def cold_start(monkeypatch: pytest.MonkeyPatch, function: str) -> ModuleType:
    """The handler's module, imported as Lambda would with the environment as it is now."""
    for name in ("tocsin.observability", f"functions.{function}.handler"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module(f"functions.{function}.handler")


def body(**fields: Any) -> str:
    """A status change as the bus hands it to the queue, with other fields in the alert."""
    return json.dumps(
        {
            "version": "0",
            "detail-type": "Tocsin Rule Evaluation Status Change",
            "source": "tocsin",
            "detail": {**DETAIL, **fields},
        }
    )


def commit(text: str) -> None:
    """The run's checkpoint knows the status change of the message, as ``evaluate`` leaves it."""
    try:
        change = parse_message(text)
    except BadEvent:
        return
    if isinstance(change, StatusChange):
        commit_change(change, S3Checkpoints(boto3.client("s3"), "state"))


def commit_change(change: StatusChange, checkpoints: S3Checkpoints) -> None:
    """The run's checkpoint knows the status change."""
    stored = checkpoints.load(change.run)
    record = RuleRecord(change.rule, "f", status=change.rule_evaluation_status, last_change=change)
    before = stored.checkpoint.rules.get(change.rule_configuration_name)
    if before is not None and before.last_change.sequence >= change.sequence:
        return
    rules = {**stored.checkpoint.rules, change.rule_configuration_name: record}
    newest = max(stored.checkpoint.sequence, change.sequence)
    checkpoints.save(replace(stored.checkpoint, rules=rules, sequence=newest), stored.version)


def record(text: str, receives: int = 1) -> dict[str, Any]:
    """What SQS hands to the function, after ``evaluate`` has committed it."""
    commit(text)
    attributes = {"ApproximateReceiveCount": str(receives)}
    message = {"messageId": "m1", "receiptHandle": "h", "body": text, "attributes": attributes}
    return {"Records": [message]}
