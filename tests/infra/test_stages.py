"""Two deployments in one account and region: no name of the one is a name of the other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tocsin.aws.settings import ActSettings, EvaluateSettings

from .conftest import Synthesised, listed, synthesise

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONTEXT = {
    "stage": "dev",
    "webhooks": "pager",
    "emails": "ops@example.com",
    "tags": "team=vision,cost-centre=42",
    "concurrency": {"evaluate": 20},
    "memory": "act=1024",
}


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Synthesised:
    return synthesise(tmp_path_factory.mktemp("stage"), CONTEXT)


def fixed_names(stack: Synthesised) -> set[str]:
    """The names that the template gives to resources, where CloudFormation would make one up."""
    kinds = {
        "Events::EventBus": "Name",
        "CloudWatch::Dashboard": "DashboardName",
        "SQS::Queue": "QueueName",
        "SNS::Topic": "TopicName",
        "DynamoDB::Table": "TableName",
        "S3::Bucket": "BucketName",
        "Lambda::Function": "FunctionName",
        "IAM::Role": "RoleName",
        "IAM::ManagedPolicy": "ManagedPolicyName",
        "Logs::LogGroup": "LogGroupName",
        "CloudWatch::Alarm": "AlarmName",
        "Events::Rule": "Name",
        "Lambda::LayerVersion": "LayerName",
    }
    return {
        json.dumps(each[name])
        for kind, name in kinds.items()
        for each in stack.all(kind).values()
        if name in each
    }


def test_no_name_is_that_of_another_stage(own: Synthesised, stage: Synthesised) -> None:
    assert fixed_names(stage)
    assert not fixed_names(own) & fixed_names(stage)
    (bus,) = stage.all("Events::EventBus").values()
    assert bus["Name"] == "tocsin-dev"
    assert "event-bus/tocsin-dev" in json.dumps(bus["Policy"])


def namespaces(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            if key in ("Namespace", "cloudwatch:namespace", "POWERTOOLS_METRICS_NAMESPACE"):
                yield each
            yield from namespaces(each)
    elif isinstance(value, list):
        for each in value:
            yield from namespaces(each)


def test_metrics_are_in_a_namespace_of_its_own(stage: Synthesised) -> None:
    found = {each for each in namespaces(stage.template) if not each.startswith("AWS/")}
    assert found == {"Tocsin-dev"}
    (dashboard,) = stage.all("CloudWatch::Dashboard").values()
    body = json.dumps(dashboard["DashboardBody"])
    assert "{Tocsin-dev,Rule}" in body
    assert "{Tocsin," not in body


@pytest.mark.parametrize(
    ("function", "settings"), [("Evaluate", EvaluateSettings), ("Act", ActSettings)]
)
def test_functions_know_their_stage(
    own: Synthesised, stage: Synthesised, function: str, settings: Any
) -> None:
    assert stage.variables(f"{function}Function")["TOCSIN_STAGE"] == "dev"
    assert "TOCSIN_STAGE" not in own.variables(f"{function}Function")
    assert "stage" in settings.__struct_fields__


def test_parameters_of_webhooks_are_its_own(stage: Synthesised) -> None:
    (parameter,) = stage.resources("ActRole", "ssm:GetParameter")
    assert json.loads(parameter)["Fn::Join"][1][-1] == ":parameter/tocsin-dev/webhooks/pager"


def test_outputs_have_the_same_names_in_every_stage(own: Synthesised, stage: Synthesised) -> None:
    assert set(own.template["Outputs"]) == set(stage.template["Outputs"])


def test_every_resource_that_can_have_tags_has_them(stage: Synthesised) -> None:
    expected = [{"Key": "cost-centre", "Value": "42"}, {"Key": "team", "Value": "vision"}]
    for kind in ("S3::Bucket", "DynamoDB::Table", "SQS::Queue", "Lambda::Function", "SNS::Topic"):
        for resource in stage.all(kind).values():
            assert resource["Tags"] == expected


def test_sizes_are_as_asked(stage: Synthesised) -> None:
    memory = {name: each["MemorySize"] for name, each in stage.all("Lambda::Function").items()}
    found = {
        function: size
        for function in ("Evaluate", "Act", "Patrol")
        for name, size in memory.items()
        if f"{function}Function" in name
    }
    assert found == {"Evaluate": 1024, "Act": 1024, "Patrol": 256}
    concurrency = sorted(
        each["ScalingConfig"]["MaximumConcurrency"]
        for each in stage.all("Lambda::EventSourceMapping").values()
    )
    assert concurrency == [2, 2, 20]


ROLE = "arn:aws:iam::444455556666:role/TocsinMember"


OTHER = "arn:aws:iam::777788889999:role/TocsinMember"


def test_member_accounts_are_reached_by_their_roles_only(tmp_path: Path) -> None:
    members = {ROLE: ["speech", "audio/lab"], OTHER: []}
    stack = synthesise(tmp_path, {"memberRoles": members, "capturePrefix": "runs"})
    for role in ("EvaluateRole", "ActRole"):
        assert stack.resources(role, "sts:AssumeRole") == {json.dumps(ROLE), json.dumps(OTHER)}
    assert not stack.resources("PatrolRole", "sts:AssumeRole")
    policies = stack.all("Events::EventBusPolicy").values()
    for account in ("444455556666", "777788889999"):
        (statement,) = (
            each["Statement"] for each in policies if account in json.dumps(each["Statement"])
        )
        assert (statement["Effect"], statement["Action"]) == ("Allow", "events:PutEvents")
        assert f"iam::{account}:root" in json.dumps(statement["Principal"])


def test_a_member_account_writes_below_its_prefixes_only(tmp_path: Path) -> None:
    members = {ROLE: ["speech", "audio/lab"], OTHER: []}
    stack = synthesise(tmp_path, {"memberRoles": members, "capturePrefix": "runs"})
    statements = stack.one("S3::BucketPolicy", "Capture")["PolicyDocument"]["Statement"]
    written = {"444455556666": ["runs/audio/lab/", "runs/speech/"]}
    written["777788889999"] = ["runs/777788889999/"]  # the account's number, unless it is said
    files = ("STOP.json", "TRACE.json", "pace.json", "watch.json")
    for account, prefixes in written.items():
        found = {
            each["Action"]: sorted(keys(each["Resource"]))
            for each in statements
            if account in json.dumps(each["Principal"])
        }
        read = [
            f"{prefix}{run}{file}" for prefix in prefixes for run in ("*/", "") for file in files
        ]
        assert found == {
            "s3:PutObject": [f"{prefix}*" for prefix in prefixes],
            "s3:GetObject": sorted(read),
        }
    assert "PrincipalTag" not in json.dumps(statements)


def keys(resources: Any) -> list[str]:
    """The keys in ARNs of objects: what follows the bucket."""
    return [each["Fn::Join"][1][-1].removeprefix("/") for each in listed(resources)]


def test_without_members_no_account_is_named(own: Synthesised) -> None:
    assert not own.all("Events::EventBusPolicy")
    assert not own.resources("ActRole", "sts:AssumeRole")
