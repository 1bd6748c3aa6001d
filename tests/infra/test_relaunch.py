"""The example's template: what it listens to, what it allows, which options it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import msgspec
import pytest
from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks
from moto import mock_aws
from tocsin.actions import ActionOutcome, Result
from tocsin.alerts import AlertGroup, Task
from tocsin.alerts.tasks import action_events as taken

from examples.relaunch.options import RelaunchOptions, read_options
from examples.relaunch.stack import DEFINITION, RelaunchStack

ROLE = "arn:aws:iam::111122223333:role/team/training"
CONTEXT = {"rules": "LossDiverging,LearningRateTooLarge", "roles": ROLE}
FOLDER = DEFINITION.parent
JOBS = ["arn:", "AWS::Partition", ":sagemaker:", "AWS::Region", ":", "AWS::AccountId"]

Resources = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory) -> Resources:
    """Synthesised with cdk-nag: a finding that nobody acknowledged is an error."""
    context = {"@aws-cdk/aws-iam:minimizePolicies": True}
    app = App(outdir=str(tmp_path_factory.mktemp("relaunch")), context=context)
    RelaunchStack(app, "Relaunch", options=read_options(CONTEXT))
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    found: Resources = app.synth().get_stack_by_name("Relaunch").template["Resources"]
    return found


def of_type(resources: Resources, kind: str) -> list[Any]:
    return [each["Properties"] for each in resources.values() if each["Type"] == f"AWS::{kind}"]


def test_what_the_machine_may_do(resources: Resources) -> None:
    policies = of_type(resources, "IAM::Policy")
    statements = [each for policy in policies for each in policy["PolicyDocument"]["Statement"]]
    allowed = {
        action: (text(statement["Resource"]), statement.get("Condition"))
        for statement in statements
        for action in listed(statement["Action"])
        if not action.startswith(("logs:", "xray:", "states:"))
    }
    every, begun_anew = "".join([*JOBS, ":training-job/*"]), "".join([*JOBS, ":training-job/*-r?"])
    to_sagemaker = {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}
    assert allowed == {
        "sagemaker:DescribeTrainingJob": (every, None),
        "sagemaker:ListTags": (every, None),
        "sagemaker:CreateTrainingJob": (begun_anew, None),
        "sagemaker:AddTags": (begun_anew, None),
        "iam:PassRole": (ROLE, to_sagemaker),
    }


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def text(arn: Any) -> str:
    """An ARN with the names of pseudo parameters in it."""
    if isinstance(arn, str):
        return arn
    return "".join(part if isinstance(part, str) else part["Ref"] for part in arn["Fn::Join"][1])


def test_the_definition_says_all_that_it_is_given(resources: Resources) -> None:
    (machine,) = of_type(resources, "StepFunctions::StateMachine")
    names = machine["DefinitionSubstitutions"].keys()
    assert machine["DefinitionString"] == DEFINITION.read_text()
    assert {name for name in names if f"${{{name}}}" in DEFINITION.read_text()} == set(names)
    assert DEFINITION.read_text().count("${") == 2 + len(names)  # the partition, three times
    assert machine["LoggingConfiguration"]["Level"] == "ALL"


def stopped(
    rule: str, action: str = "stop", outcome: ActionOutcome = ActionOutcome.DONE
) -> dict[str, Any]:
    """The detail that is put on the bus."""
    task = Task("1", action, "fired", dedup_ids={rule: "d"})
    (detail,) = taken(task, AlertGroup("s3://b/j1", "j1"), Result(outcome, "asked SageMaker"))
    return dict(msgspec.to_builtins(detail))


def test_which_events_start_it(resources: Resources) -> None:
    (rule,) = of_type(resources, "Events::Rule")
    assert rule["EventBusName"] == "tocsin"
    details = [
        stopped("LossDiverging"),
        stopped("LearningRateTooLarge"),
        stopped("Overfit"),
        stopped("LossDiverging2"),
        stopped("LossDiverging", "email"),
        *(
            stopped("LossDiverging", outcome=other)
            for other in ActionOutcome
            if other != ActionOutcome.DONE
        ),
    ]
    entries = [
        {
            "EventBusName": "tocsin",
            "Source": "tocsin",
            "DetailType": detail_type,
            "Detail": json.dumps(detail),
        }
        for detail in details
        for detail_type in ("Tocsin Action Taken", "Another")
    ]
    with mock_aws():
        events, sqs = (boto3.client(name, region_name="us-east-1") for name in ("events", "sqs"))
        queue = sqs.create_queue(QueueName="heard")["QueueUrl"]
        attributes = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])
        target = {"Id": "q", "Arn": attributes["Attributes"]["QueueArn"]}
        events.create_event_bus(Name="tocsin")
        pattern = json.dumps(rule["EventPattern"])
        events.put_rule(Name="r", EventBusName="tocsin", EventPattern=pattern)
        events.put_targets(Rule="r", EventBusName="tocsin", Targets=[target])
        for entry in entries:
            events.put_events(Entries=[entry])
        messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    heard = [json.loads(message["Body"])["detail"] for message in messages]
    assert heard == details[:2]


def test_options() -> None:
    assert read_options(CONTEXT) == RelaunchOptions(
        ("LossDiverging", "LearningRateTooLarge"), (ROLE,)
    )
    more = {"parameter": "lr", "factor": 0.5, "most": "9", "bus": "other"}
    assert read_options({"rules": "A", "roles": f"{ROLE},{ROLE}2", **more}) == RelaunchOptions(
        ("A",), (ROLE, f"{ROLE}2"), "lr", 0.5, 9, "other"
    )


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("rules", "", "the name of a rule"),
        ("rules", "A,,B", "the name of a rule"),
        ("roles", "training", "the ARN of a role"),
        ("roles", "arn:aws:iam::111122223333:role/*", "the ARN of a role"),
        ("parameter", "lr' & '", "a hyper-parameter's name"),
        ("factor", "1.5", "between 0 and 1"),
        ("factor", "0.0", "nothing would be learned"),
        ("most", "0", "1 to 9"),
        ("most", "10", "1 to 9"),
    ],
)
def test_an_option_that_is_wrong_is_refused(key: str, value: str, says: str) -> None:
    with pytest.raises(ValueError, match=f"^option {key} is .*{says}"):
        read_options({**CONTEXT, key: value})


@pytest.mark.parametrize(("context", "code"), [(CONTEXT, 0), ({}, 1)])
def test_the_app_by_itself(context: dict[str, str], code: int, tmp_path: Path) -> None:
    """As the CDK runs it: in its folder, with nothing but the CDK."""
    app = json.loads((FOLDER / "cdk.json").read_text())["app"].split()
    done = subprocess.run(
        [sys.executable, *app[1:]],
        cwd=FOLDER,
        env={
            "PATH": str(Path(sys.executable).parent),
            "CDK_OUTDIR": str(tmp_path),
            "CDK_CONTEXT_JSON": json.dumps(context),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert (tmp_path / "TocsinRelaunch.template.json").exists() == (code == 0)
    if code:
        assert done.stderr.startswith("relaunch: option rules is '', but must be")
