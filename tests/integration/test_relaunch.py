"""The function relaunch and act's call of its machine, against AWS in process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import msgspec
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from tocsin.actions import Relaunch
from tocsin.aws.connect.relaunch import connect_relaunch
from tocsin.aws.settings import RelaunchSettings
from tocsin.aws.stepfunctions import start_once

ROLE = "arn:aws:iam::123456789012:role/training"
REGION = "us-east-1"
BEGAN = "2026-01-02T03:04:05.678Z"
JUST_AFTER = 1767323046.0  # seconds since the epoch


@pytest.fixture
def sagemaker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        yield boto3.client("sagemaker", region_name=REGION)


def plan_of(client: Any, name: str = "digits", **other: Any) -> Relaunch:
    """A job of this name, which moto says is completed, and the plan to start it again."""
    client.create_training_job(
        TrainingJobName=name,
        RoleArn=ROLE,
        AlgorithmSpecification={"TrainingImage": "image", "TrainingInputMode": "File"},
        HyperParameters={"lr": "0.5"},
        OutputDataConfig={"S3OutputPath": "s3://models"},
        CheckpointConfig={"S3Uri": "s3://checkpoints/digits"},
        ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 3600},
        Tags=[{"Key": "team", "Value": "vision"}],
    )
    job = client.describe_training_job(TrainingJobName=name)["TrainingJobArn"]
    plan = Relaunch(job, f"s3://b/{name}", "A", "d", "/opt/ml/checkpoints/5", 5, 2, {"lr": "x0.1"})
    return msgspec.structs.replace(plan, **other)


def relaunch(client: Any, plan: Relaunch, status: str = "Stopped") -> dict[str, str]:
    """The answer of the function when the job has this status.

    moto knows no stopped jobs, and takes a name twice.
    """

    class OfStatus:
        def __getattr__(self, name: str) -> Any:
            return getattr(client, name)

        def describe_training_job(self, **given: Any) -> dict[str, Any]:
            found = client.describe_training_job(**given)
            return {**found, "TrainingJobStatus": status}

        def create_training_job(self, **given: Any) -> None:
            known = client.list_training_jobs()["TrainingJobSummaries"]
            if given["TrainingJobName"] in [job["TrainingJobName"] for job in known]:
                error = {"Code": "ResourceInUse", "Message": "there is one"}
                raise ClientError({"Error": error}, "CreateTrainingJob")
            client.create_training_job(**given)

    settings = RelaunchSettings("Tocsin", (ROLE,))
    call = connect_relaunch(settings, lambda service: OfStatus(), lambda: JUST_AFTER)
    return call(json.loads(msgspec.json.encode(plan)), BEGAN)


def test_the_job_is_created_once(sagemaker: Any) -> None:
    plan = plan_of(sagemaker)
    first = relaunch(sagemaker, plan)
    assert first == {
        "outcome": "done",
        "detail": "started digits-r1 from /opt/ml/checkpoints/5 (step 5)",
    }
    assert relaunch(sagemaker, plan) == first
    made = sagemaker.describe_training_job(TrainingJobName="digits-r1")
    assert (made["RoleArn"], made["HyperParameters"]) == (ROLE, {"lr": "0.05"})
    listed = sagemaker.list_tags(ResourceArn=made["TrainingJobArn"])["Tags"]
    assert {tag["Key"]: tag["Value"] for tag in listed} == {
        "team": "vision",
        "tocsin:run": "s3://b/digits-r1",
        "tocsin:relaunch": "Tocsin",
        "tocsin:relaunched-from": "digits",
    }


def test_a_job_of_that_name_that_is_not_ours(sagemaker: Any) -> None:
    plan = plan_of(sagemaker)
    plan_of(sagemaker, "digits-r1")
    answer = relaunch(sagemaker, plan)
    assert answer["outcome"] == "refused"
    assert "digits-r1 already, which is not ours" in answer["detail"]


def test_it_waits_for_the_end_of_the_job(sagemaker: Any) -> None:
    assert relaunch(sagemaker, plan_of(sagemaker), "Stopping")["outcome"] == "waiting"


def test_a_job_of_another_account_is_not_this_one(sagemaker: Any) -> None:
    plan = plan_of(sagemaker)
    other = msgspec.structs.replace(plan, job=plan.job.replace("123456789012", "210987654321"))
    assert relaunch(sagemaker, other)["outcome"] == "refused"


def test_an_execution_of_a_name_begins_once(sagemaker: Any) -> None:
    client = boto3.client("stepfunctions", region_name=REGION)
    ends = {"StartAt": "A", "States": {"A": {"Type": "Succeed"}}}
    made = client.create_state_machine(name="m", definition=json.dumps(ends), roleArn=ROLE)
    plan = plan_of(sagemaker)
    for _ in range(2):
        start_once(client, made["stateMachineArn"], plan.execution, {"plan": plan})
    (execution,) = client.list_executions(stateMachineArn=made["stateMachineArn"])["executions"]
    given = client.describe_execution(executionArn=execution["executionArn"])["input"]
    assert msgspec.json.decode(given, type=dict[str, Relaunch]) == {"plan": plan}
