"""The example's state machine, run by the embedded AWS against training jobs that are processes.

The emulator's Step Functions knows no SageMaker: functions stand in for its SDK integrations. They
pass arguments on and give results back as they are; their errors have one name there. All else is
what the example deploys.
"""

from __future__ import annotations

import io
import json
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App

from examples.relaunch.options import RelaunchOptions
from examples.relaunch.stack import RelaunchStack
from local.deploy import deploy
from local.emulator import ACCOUNT, REGION, emulator
from local.environment import embedded, inherited
from local.interpreter import interpreter
from local.jobs import LocalJobs
from local.port import loopback_port, url
from local.reaper import Reaper
from local.sagemaker import serve
from local.stack import make_client
from local.synth import Assembly, read_assembly
from tests.waiting import PATIENCE, becomes, patiently

pytestmark = pytest.mark.e2e

ROLE = f"arn:aws:iam::{ACCOUNT}:role/training"
FAST = {"SFN_WAIT_SCALE": "0.02"}  # of the times that states wait
SDK = "arn:${Partition}:states:::aws-sdk:sagemaker:"
OPERATIONS = {
    "describeTrainingJob": "describe_training_job",
    "listTags": "list_tags",
    "createTrainingJob": "create_training_job",
}
PASSES_ON = """
import json, boto3
def handler(arguments, context):
    answer = getattr(boto3.client("sagemaker"), context.function_name)(**arguments)
    del answer["ResponseMetadata"]
    return json.loads(json.dumps(answer, default=str))
"""
TRAINING = """
import os, signal, sys, time
rate = os.environ.get("SM_HP_LEARNING_RATE")
print(rate, os.environ["RUN"], flush=True)
def end(*_):
    time.sleep(1)
    sys.exit()
signal.signal(signal.SIGTERM, end)
while rate != "0.05":
    time.sleep(0.05)
"""


@dataclass(frozen=True)
class Embedded:
    """The embedded AWS with the example deployed."""

    environment: dict[str, str]
    jobs: LocalJobs
    machine: str

    def client(self, service: str) -> Any:
        return make_client(self.environment, service)

    def create(self, name: str, run: str, rate: str | None = "0.5") -> None:
        self.client("sagemaker").create_training_job(
            TrainingJobName=name,
            RoleArn=ROLE,
            AlgorithmSpecification={
                "TrainingImage": "local",
                "TrainingInputMode": "File",
                "ContainerEntrypoint": [sys.executable, "-c", TRAINING],
            },
            HyperParameters={"seed": "7", "epochs": "3"}
            | ({"learning-rate": rate} if rate else {}),
            Environment={"RUN": run, "NEAR": f"{run}0"},
            InputDataConfig=[
                {
                    "ChannelName": "train",
                    "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://d/1"}},
                }
            ],
            OutputDataConfig={"S3OutputPath": "s3://none"},
            CheckpointConfig={"S3Uri": f"{run}/checkpoints"},
            ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
            StoppingCondition={"MaxRuntimeInSeconds": 3600},
            Tags=[{"Key": "team", "Value": "vision"}, {"Key": "tocsin:run", "Value": run}],
        )

    def tags(self, name: str) -> dict[str, str]:
        sagemaker = self.client("sagemaker")
        arn = sagemaker.describe_training_job(TrainingJobName=name)["TrainingJobArn"]
        return {tag["Key"]: tag["Value"] for tag in sagemaker.list_tags(ResourceArn=arn)["Tags"]}

    def executed(self, name: str, run: str) -> dict[str, Any]:
        """How the machine ends for the event of a stop."""
        machine = self.client("stepfunctions")
        event = {"detail": taken(name, run)}
        arn = machine.start_execution(stateMachineArn=self.machine, input=json.dumps(event))[
            "executionArn"
        ]
        for _ in patiently():
            found = machine.describe_execution(executionArn=arn)
            if found["status"] != "RUNNING":
                return dict(found)
            time.sleep(0.05)
        raise AssertionError(f"the machine still runs for {name}")


def taken(name: str, run: str) -> dict[str, str]:
    return {
        "TrainingJobName": name,
        "Run": run,
        "RuleConfigurationName": "LossDiverging",
        "Action": "stop",
        "Outcome": "done",
    }


def assembled(folder: Path) -> Assembly:
    """The example's stack, its calls of SageMaker going to functions of the same name."""
    app = App(outdir=str(folder))
    RelaunchStack(app, "Relaunch", options=RelaunchOptions(rules=("LossDiverging",), roles=(ROLE,)))
    app.synth()
    assembly = read_assembly(folder)
    text = json.dumps(assembly.template)
    for operation, name in OPERATIONS.items():
        assert f"{SDK}{operation}" in text
        function = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}"
        text = text.replace(f"{SDK}{operation}", function)
    for theirs, here in (
        # Of a job that does not stop a few looks are enough; another has all the time it needs.
        ("$looks < 120", "$looks < ($name = 'runs-on' ? 5 : 100000)"),
        ("SageMaker.ResourceInUseException", "Runtime.HandlerError"),
    ):
        assert theirs in text
        text = text.replace(theirs, here)
    return replace(assembly, template=json.loads(text))


def passing_on() -> bytes:
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("index.py", PASSES_ON)
    return code.getvalue()


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    with ExitStack() as stack:
        reaper = stack.enter_context(Reaper())
        port = stack.enter_context(loopback_port())
        sagemaker = stack.enter_context(loopback_port())
        environment = embedded(url(port), url(sagemaker))
        stack.enter_context(emulator(reaper, interpreter(), port, environment | FAST))
        jobs = stack.enter_context(LocalJobs(reaper, inherited() | environment, lambda _: None, 10))
        stack.enter_context(serve(sagemaker, jobs))
        client = partial(make_client, environment)
        for name in OPERATIONS.values():
            client("lambda").create_function(
                FunctionName=name,
                Runtime="python3.13",
                Handler="index.handler",
                Role=ROLE,
                Code={"ZipFile": passing_on()},
                Timeout=900,
            )
        client("events").create_event_bus(Name="tocsin")
        deploy(assembled(tmp_path_factory.mktemp("relaunch")), client)
        (machine,) = client("stepfunctions").list_state_machines()["stateMachines"]
        yield Embedded(environment, jobs, machine["stateMachineArn"])


def test_a_job_that_was_stopped_begins_anew_with_a_lower_learning_rate(aws: Embedded) -> None:
    run = "s3://runs/vision/digits"
    aws.create("digits", run)
    sagemaker = aws.client("sagemaker")
    sagemaker.stop_training_job(TrainingJobName="digits")  # it takes a second to end
    entry = {
        "EventBusName": "tocsin",
        "Source": "tocsin",
        "DetailType": "Tocsin Action Taken",
        "Detail": json.dumps(taken("digits", run)),
    }
    assert aws.client("events").put_events(Entries=[entry])["FailedEntryCount"] == 0

    assert becomes(lambda: "digits-r1" in [job.name for job in aws.jobs.all()])
    begun = aws.jobs.wait("digits-r1", PATIENCE)
    assert begun.status == "Completed"
    assert begun.log.read_text() == f"0.05 {run}-r1\n"

    old = sagemaker.describe_training_job(TrainingJobName="digits")
    new = sagemaker.describe_training_job(TrainingJobName="digits-r1")
    for same in ("AlgorithmSpecification", "RoleArn", "InputDataConfig", "OutputDataConfig"):
        assert new[same] == old[same]
    for same in ("ResourceConfig", "StoppingCondition"):
        assert new[same] == old[same]
    assert new["HyperParameters"] == old["HyperParameters"] | {"learning-rate": "0.05"}
    assert new["Environment"] == {"RUN": f"{run}-r1", "NEAR": f"{run}0"}
    assert "CheckpointConfig" not in new
    assert aws.tags("digits-r1") == {"team": "vision", "tocsin:run": f"{run}-r1"}

    again = aws.executed("digits", run)  # the event comes a second time
    assert again["status"] == "SUCCEEDED", again.get("cause")
    assert json.loads(again["output"]) == {"TrainingJobName": "digits-r1", "Run": f"{run}-r1"}
    assert [job.name for job in aws.jobs.all()] == ["digits", "digits-r1"]


@pytest.mark.parametrize(
    ("name", "run", "next_", "next_run"),
    [
        ("again-r1", "s3://b/again-r1/debug-output", "again-r2", "s3://b/again-r2/debug-output"),
        ("resnet-r50", "s3://b/resnet-r50", "resnet-r50-r1", "s3://b/resnet-r50-r1"),
        ("l" * 63, "s3://b/" + "l" * 63, "l" * 60 + "-r1", "s3://b/" + "l" * 60 + "-r1"),
        ("b", "s3://b-b/b/b", "b-r1", "s3://b-b/b/b-r1"),
    ],
)
def test_the_next_ones_name(aws: Embedded, name: str, run: str, next_: str, next_run: str) -> None:
    aws.create(name, run)
    aws.client("sagemaker").stop_training_job(TrainingJobName=name)
    ended = aws.executed(name, run)
    assert json.loads(ended["output"]) == {"TrainingJobName": next_, "Run": next_run}
    assert aws.tags(next_)["tocsin:run"] == next_run


@pytest.mark.parametrize(
    ("name", "rate", "stopped", "error", "cause"),
    [
        ("tried-r2", "0.5", True, "EnoughTries", "tried-r2 was begun again 2 times already"),
        ("runs-on", "0.5", False, "NotStopped", "runs-on is InProgress, not Stopped"),
        ("completed", "0.05", False, "NotStopped", "completed is Completed, not Stopped"),
        ("no-rate", None, True, "NoLearningRate", "no-rate has no hyper-parameter learning-rate"),
        ("odd-rate", "1e", True, "NoLearningRate", "odd-rate has no hyper-parameter learning-rate"),
    ],
)
def test_what_does_not_begin_anew(
    aws: Embedded, name: str, rate: str | None, stopped: bool, error: str, cause: str
) -> None:
    aws.create(name, f"s3://b/{name}", rate)
    if stopped:
        aws.client("sagemaker").stop_training_job(TrainingJobName=name)
    elif rate == "0.05":
        aws.jobs.wait(name, PATIENCE)
    before = len(aws.jobs.all())
    ended = aws.executed(name, f"s3://b/{name}")
    assert (ended["status"], ended["error"]) == ("FAILED", error)
    assert ended["cause"].startswith(cause)
    assert len(aws.jobs.all()) == before


def test_a_job_that_sagemaker_does_not_know(aws: Embedded) -> None:
    ended = aws.executed("elsewhere", "s3://b/elsewhere")
    assert ended["status"] == "FAILED"
    assert "not found" in ended["cause"]
