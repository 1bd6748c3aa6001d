"""``tocsin doctor`` over a deployment whose services answer from a table."""

from __future__ import annotations

from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tocsin.cli.doctor import doctor_document
from tocsin.cli.errors import CommandError

OUTPUTS = {
    "TocsinVersion": version("tocsin"),
    "CaptureBucketName": "captures",
    "AlertTopicArn": "arn:aws:sns:eu-west-1:1:alerts",
    "AlarmTopicArn": "arn:aws:sns:eu-west-1:1:alarms",
    "EventBusName": "tocsin-dev",
    "EvaluateQueueUrl": "evaluate",
    "ActQueueUrl": "act",
    "EvaluateDeadLetterQueueUrl": "evaluate-dead",
    "ReportQueueUrl": "report",
    "ActDeadLetterQueueUrl": "act-dead",
    "ReportDeadLetterQueueUrl": "report-dead",
}
KEY = "arn:aws:kms:eu-west-1:1:key/k"
MAPPINGS = {
    "arn:evaluate": [{"FunctionArn": "f", "ScalingConfig": {"MaximumConcurrency": 5}}],
    "arn:act": [{"FunctionArn": "g", "ScalingConfig": {"MaximumConcurrency": 2}}],
    "arn:report": [{"FunctionArn": "h", "ScalingConfig": {"MaximumConcurrency": 2}}],
}


def encryption(**default: str) -> dict[str, Any]:
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "x", **default}}
    return {"ServerSideEncryptionConfiguration": {"Rules": [rule]}}


def subscribed(protocol: str = "email", arn: str = "arn:confirmed") -> list[dict[str, Any]]:
    one = {"SubscriptionArn": arn, "Protocol": protocol, "Endpoint": f"one-{protocol}"}
    return [{"Subscriptions": [one]}]


SOUND: dict[str, Any] = {
    "get_bucket_location": {"LocationConstraint": "EU"},
    "get_bucket_notification_configuration": {"EventBridgeConfiguration": {}},
    "get_bucket_encryption": encryption(),
    "describe_key": {"KeyMetadata": {"Arn": KEY, "KeyState": "Enabled"}},
    "get_function_configuration": {"Role": "role"},
    "simulate_principal_policy": {"EvaluationResults": [{"EvalDecision": "allowed"}]},
    "list_subscriptions_by_topic": subscribed(),
    "get_sms_sandbox_account_status": {"IsInSandbox": False},
    "get_account_settings": {"AccountLimit": {"UnreservedConcurrentExecutions": 10}},
    "get_metric_statistics": {"Datapoints": [{"ExtendedStatistics": {"p95": 800.0}}]},
    "get_queue_attributes": {},
}


class Service:
    """Answers every call from a table."""

    meta = SimpleNamespace(region_name="eu-west-1")

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers

    def __getattr__(self, operation: str) -> Any:
        def call(**asked: Any) -> Any:
            if operation == "get_queue_attributes":
                url = asked["QueueUrl"]
                letters = self.answers["get_queue_attributes"].get(url, 0)
                attributes = {"QueueArn": f"arn:{url}", "ApproximateNumberOfMessages": str(letters)}
                return {"Attributes": attributes}
            if operation == "list_event_source_mappings":
                return {"EventSourceMappings": MAPPINGS[asked["EventSourceArn"]]}
            answer = self.answers[operation]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    def get_paginator(self, operation: str) -> Any:
        return SimpleNamespace(paginate=lambda **asked: self.answers[operation])


def checked(
    answers: dict[str, Any] | None = None, outputs: dict[str, str] = OUTPUTS
) -> dict[str, tuple[bool | None, str]]:
    service = Service(SOUND | (answers or {}))
    deployment: Any = SimpleNamespace(outputs=outputs, stack_name="Tocsin-dev")
    document = doctor_document(deployment, lambda name: service)
    found = {each["name"]: (each["ok"], each["text"]) for each in document["checks"]}
    assert document["sound"] == all(ok is True for ok, _ in found.values())
    return found


def test_a_sound_deployment() -> None:
    found = checked()
    assert len(found) == 8
    assert {ok for ok, _ in found.values()} == {True}
    assert "0.8 s" in found["lag"][1]
    assert "10 invocations at a time; the account allows 10" in found["concurrency"][1]


DENIED = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "GetBucketEncryption")


@pytest.mark.parametrize(
    ("answers", "check", "ok", "text"),
    [
        (
            {"get_bucket_location": {"LocationConstraint": None}},
            "capture bucket",
            False,
            "captures is in us-east-1, the stack in eu-west-1: deploy to us-east-1",
        ),
        (
            {"get_bucket_notification_configuration": {}},
            "capture bucket",
            False,
            "sends no EventBridge events",
        ),
        (
            {
                "get_bucket_notification_configuration": {
                    "QueueConfigurations": [{"QueueArn": "arn:evaluate"}]
                }
            },
            "capture bucket",
            True,
            "notifies the evaluate queue",
        ),
        ({"get_bucket_encryption": encryption(KMSMasterKeyID="k")}, "key", True, f"may use {KEY}"),
        (
            {
                "get_bucket_encryption": encryption(KMSMasterKeyID="k"),
                "simulate_principal_policy": {"EvaluationResults": [{"EvalDecision": "x"}]},
            },
            "key",
            False,
            f"deploy with -c captureKeyArn={KEY}",
        ),
        (
            {
                "get_bucket_encryption": encryption(KMSMasterKeyID="k"),
                "describe_key": {"KeyMetadata": {"Arn": KEY, "KeyState": "Disabled"}},
            },
            "key",
            False,
            "is Disabled",
        ),
        ({"get_bucket_encryption": DENIED}, "key", None, "not known: AWS: "),
        (
            {"list_subscriptions_by_topic": subscribed(arn="PendingConfirmation")},
            "subscriptions",
            False,
            "one-email: follow the link",
        ),
        ({"get_sms_sandbox_account_status": {"IsInSandbox": True}}, "SMS", True, "nobody gets any"),
        (
            {
                "get_sms_sandbox_account_status": {"IsInSandbox": True},
                "list_subscriptions_by_topic": subscribed("sms"),
            },
            "SMS",
            False,
            "verify one-sms",
        ),
        (
            {"get_account_settings": {"AccountLimit": {"UnreservedConcurrentExecutions": 9}}},
            "concurrency",
            False,
            "ask AWS for more",
        ),
        (
            {"get_metric_statistics": {"Datapoints": [{"ExtendedStatistics": {"p95": 90_000.0}}]}},
            "lag",
            False,
            "90.0 s from index file to verdict: see docs/operations.md#lag",
        ),
        ({"get_metric_statistics": {"Datapoints": []}}, "lag", True, "nothing was evaluated"),
        ({"get_queue_attributes": {"act-dead": 2}}, "dead letters", False, "2 of act: see"),
    ],
)
def test_each_thing_that_can_be_wrong(
    answers: dict[str, Any], check: str, ok: bool | None, text: str
) -> None:
    found = checked(answers)
    assert found[check][0] is ok
    assert text in found[check][1]
    assert {name for name, (good, _) in found.items() if good is not True} <= {check}


@pytest.mark.parametrize(
    ("deployed", "fix"),
    [(None, "deploy again"), ("0.0.9", "deploy again"), ("99.1.0", "install version 99.1.0")],
)
def test_another_version_than_the_terminals(deployed: str | None, fix: str) -> None:
    outputs = {name: value for name, value in OUTPUTS.items() if name != "TocsinVersion"}
    found = checked(outputs=outputs | ({"TocsinVersion": deployed} if deployed else {}))
    assert found["version"][0] is False
    assert fix in found["version"][1]


def test_an_output_that_an_older_stack_lacks() -> None:
    outputs = {name: value for name, value in OUTPUTS.items() if name != "ActQueueUrl"}
    ok, text = checked(outputs=outputs)["concurrency"]
    assert ok is False
    assert "no output ActQueueUrl: it is older than this command line; deploy again" in text


def test_no_stack_is_said() -> None:
    deployment: Any = SimpleNamespace(outputs=None, stack_name="Tocsin-dev")
    with pytest.raises(CommandError, match="there is no stack Tocsin-dev"):
        doctor_document(deployment)
