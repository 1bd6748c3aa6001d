"""Every call that a function makes is one that its role allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import pytest

from .conftest import KEY_ARN, Synthesised, listed

JOB = "arn:aws:sagemaker:R:1:training-job/j1"
PSEUDO = {"AWS::Partition": "aws", "AWS::Region": "R", "AWS::AccountId": "1"}
Names = Mapping[str, str]


@dataclass(frozen=True)
class Call:
    """What IAM is asked. ``resource`` may hold the names of a stack's resources in braces."""

    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict)


EVALUATE = [
    Call("s3:GetObject", "{captures}/{run}index/0/1_w.json"),
    Call("s3:GetObject", "{captures}/{run}watch.json"),
    Call("s3:GetObject", "{captures}/{run}training_job_end.ts"),
    Call("s3:PutObject", "{captures}/{run}training_job_end.ts"),
    Call("s3:ListBucket", "{captures}", {"s3:prefix": "{run}index/"}),
    Call("s3:ListBucket", "{captures}", {"s3:prefix": "{run}collections/"}),
    Call("s3:ListBucket", "{captures}"),  # else a missing key is AccessDenied
    Call("s3:GetObject", "{state}/checkpoints/j1/ab.json.z"),
    Call("s3:PutObject", "{state}/checkpoints/j1/ab.json.z"),
    Call("s3:ListBucket", "{state}"),
    Call("dynamodb:UpdateItem", "{table}"),
    Call("dynamodb:GetItem", "{table}"),
    Call("sqs:SendMessage", "{evaluate}"),
    Call("sqs:ReceiveMessage", "{evaluate}"),
    Call("sqs:DeleteMessage", "{evaluate}"),
    Call("events:PutEvents", "{bus}"),
    Call("cloudwatch:PutMetricData", "*", {"cloudwatch:namespace": "Tocsin"}),
    Call("sagemaker:DescribeTrainingJob", JOB),
    Call("sagemaker:ListTags", JOB),
    Call("sqs:ChangeMessageVisibility", "{evaluate}"),
]
ACT = [
    Call("s3:PutObject", "{captures}/{run}STOP.json"),
    Call("s3:GetObject", "{captures}/{run}index/0/1_w.json"),
    Call("s3:ListBucket", "{captures}", {"s3:prefix": "{run}index/"}),
    Call("s3:GetObject", "{state}/checkpoints/j1/ab.json.z"),
    Call("s3:ListBucket", "{state}"),
    Call("dynamodb:GetItem", "{table}"),
    Call("dynamodb:PutItem", "{table}"),
    Call("dynamodb:UpdateItem", "{table}"),
    Call("sqs:SendMessage", "{act}"),
    Call("sqs:ChangeMessageVisibility", "{act}"),
    Call("sqs:ReceiveMessage", "{act}"),
    Call("sns:Publish", "{alerts}"),
    Call("sns:ListSubscriptionsByTopic", "{alerts}"),
    Call("sns:Subscribe", "{alerts}", {"sns:Protocol": "email"}),
    Call("sns:Publish", "+15551230000"),
    Call("sns:GetSubscriptionAttributes", "*"),
    Call("kms:GenerateDataKey", "{key}"),
    Call("kms:Decrypt", "{key}"),
    Call("events:PutEvents", "{bus}"),
    Call("cloudwatch:PutMetricData", "*", {"cloudwatch:namespace": "Tocsin"}),
    Call("sagemaker:DescribeTrainingJob", JOB),
    Call("sagemaker:StopTrainingJob", JOB),
    Call("sagemaker:ListTags", JOB),
    Call("iam:ListRoleTags", "arn:aws:iam::1:role/training"),
]
PATROL = [
    Call("dynamodb:Query", "{table}/index/due"),
    Call("sqs:SendMessage", "{evaluate}"),
    Call("sqs:SendMessage", "{act}"),
]
FLEET = [
    Call("s3:ListBucket", "{state}", {"s3:prefix": "checkpoints/"}),
    Call("s3:GetObject", "{state}/checkpoints/j1/ab.json.z"),
]
OF_THE_KEY = [Call("kms:Decrypt", KEY_ARN), Call("kms:GenerateDataKey", KEY_ARN)]
WEBHOOK = Call("ssm:GetParameter", "arn:aws:ssm:R:1:parameter/tocsin/webhooks/pager")


def text(value: Any) -> str:
    """An ARN of the template, a resource in it by its logical id."""
    if isinstance(value, str):
        return value
    if "Ref" in value:
        return PSEUDO.get(value["Ref"], f"<{value['Ref']}>")
    if "Fn::GetAtt" in value:
        return f"<{value['Fn::GetAtt'][0]}>"
    return "".join(map(text, value["Fn::Join"][1]))


def names(stack: Synthesised, captures: str | None, prefix: str) -> Names:
    def arn(kind: str, fragment: str) -> str:
        (found,) = [name for name in stack.all(kind) if fragment in name]
        return f"<{found}>"

    return {
        "captures": captures or arn("S3::Bucket", "CaptureBucket"),
        "run": f"{prefix}vision/j1/",
        "state": arn("S3::Bucket", "StateBucket"),
        "table": arn("DynamoDB::Table", "Table"),
        "evaluate": arn("SQS::Queue", "EvaluateWorkQueue"),
        "act": arn("SQS::Queue", "ActionsWorkQueue"),
        "bus": arn("Events::EventBus", "Bus"),
        "alerts": arn("SNS::Topic", "Alerts"),
        "key": arn("KMS::Key", "Key"),
    }


def is_allowed(statements: list[dict[str, Any]], call: Call, of_stack: Names) -> bool:
    resource = call.resource.format(**of_stack)
    asked = {key: value.format(**of_stack) for key, value in call.context.items()}
    return any(
        each["Effect"] == "Allow"
        and any(fnmatchcase(call.action, action) for action in listed(each["Action"]))
        and covers(each, resource)
        and all(is_met(asked, *condition) for condition in conditions(each))
        for each in statements
    )


def covers(statement: Mapping[str, Any], resource: str) -> bool:
    if "NotResource" in statement:
        return not any(
            fnmatchcase(resource, text(other)) for other in listed(statement["NotResource"])
        )
    return any(fnmatchcase(resource, text(each)) for each in listed(statement["Resource"]))


def conditions(statement: Mapping[str, Any]) -> Iterator[tuple[str, str, list[str]]]:
    for operator, keys in statement.get("Condition", {}).items():
        for key, values in keys.items():
            yield operator, key, [text(value) for value in listed(values)]


def is_met(asked: Mapping[str, str], operator: str, key: str, values: list[str]) -> bool:
    if key not in asked:
        return operator.endswith("IfExists")
    return any(fnmatchcase(asked[key], value) for value in values)


@pytest.mark.parametrize(
    ("role", "calls"),
    [
        ("EvaluateRole", EVALUATE),
        ("ActRole", [*ACT, WEBHOOK]),
        ("PatrolRole", PATROL),
        ("FleetRole", FLEET),
    ],
)
def test_over_a_bucket_of_its_own(own: Synthesised, role: str, calls: list[Call]) -> None:
    of_stack = names(own, None, "")
    assert [call for call in calls if not is_allowed(own.statements(role), call, of_stack)] == []


@pytest.mark.parametrize(
    ("role", "calls"),
    [
        ("EvaluateRole", [*EVALUATE, *OF_THE_KEY]),
        ("ActRole", [*ACT, *OF_THE_KEY]),
        ("PatrolRole", PATROL),
        ("FleetRole", FLEET),
    ],
)
def test_over_a_bucket_that_was_there(existing: Synthesised, role: str, calls: list[Call]) -> None:
    of_stack = names(existing, "arn:aws:s3:::our-runs", "jobs/")
    statements = existing.statements(role)
    assert [call for call in calls if not is_allowed(statements, call, of_stack)] == []


@pytest.mark.parametrize(
    ("role", "call"),
    [
        ("EvaluateRole", Call("s3:GetObject", "{captures}/elsewhere/x")),
        ("EvaluateRole", Call("s3:PutObject", "{captures}/{run}STOP.json")),
        ("ActRole", Call("s3:GetObject", "{captures}/{run}events/0/x.tfevents")),
        ("ActRole", Call("sns:Subscribe", "{alerts}", {"sns:Protocol": "https"})),
        ("ActRole", Call("sns:Publish", "arn:aws:sns:R:1:another-topic")),
    ],
)
def test_nor_anything_else(existing: Synthesised, role: str, call: Call) -> None:
    of_stack = names(existing, "arn:aws:s3:::our-runs", "jobs/")
    assert not is_allowed(existing.statements(role), call, of_stack)
