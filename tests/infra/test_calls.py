"""Every call that a function makes is one that its role allows, and a role allows no other.

The calls are recorded: the functions' own ports run against AWS in process.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import boto3
import numpy as np
import pytest
from moto import mock_aws
from msgspec.structs import replace
from tocsin.alerts import Flush, parse_message, react
from tocsin.aws.connect.act import connect_act
from tocsin.aws.connect.evaluate import connect_evaluate
from tocsin.aws.connect.patrol import connect_patrol
from tocsin.aws.connect.replay import connect_replay
from tocsin.aws.connect.report import connect_report
from tocsin.aws.fleet import stored_runs
from tocsin.aws.reports import report_key
from tocsin.aws.s3 import checkpoint_key
from tocsin.aws.settings import (
    REPLAYS,
    EvaluateSettings,
    PatrolSettings,
    ReplaySettings,
    ReportSettings,
)
from tocsin.aws.sqs import Queue
from tocsin.aws.ssm import Endpoints
from tocsin.evaluation import Hint, JobEnded, end_job, evaluate
from tocsin.model import Mode
from tocsin.tensors import Captured, Collection, RunWriter, open_storage
from tocsin.watch import to_watch

from tests.integration.alerts.conftest import RUN, Deployment, body, commit

from .conftest import KEY_ARN, Synthesised, listed

JOB = "arn:aws:sagemaker:R:1:training-job/j1"
PSEUDO = {"AWS::Partition": "aws", "AWS::Region": "R", "AWS::AccountId": "1"}
Names = Mapping[str, str]


@dataclass(frozen=True)
class Call:
    """What IAM is asked. ``resource`` may hold the names of a stack's resources in braces."""

    action: str
    resource: str
    context: tuple[tuple[str, str], ...] = ()


# What Lambda does with a role, beside the function's own code; and what S3 asks for to say that a
# key is missing.
POLLS = ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes", "GetQueueUrl")
IMPLIED = {
    "EvaluateRole": [
        *(Call(f"sqs:{verb}", "{evaluate}") for verb in POLLS),
        Call("s3:ListBucket", "{captures}"),
        Call("s3:ListBucket", "{state}"),
    ],
    "ActRole": [
        *(Call(f"sqs:{verb}", "{act}") for verb in POLLS),
        Call("s3:ListBucket", "{state}"),
        Call("kms:GenerateDataKey", "{key}"),
        Call("kms:Decrypt", "{key}"),
    ],
    "PatrolRole": [],
    "FleetRole": [],
    "ReplayRole": [Call("s3:ListBucket", "{captures}"), Call("s3:ListBucket", "{state}")],
    "ReportRole": [
        *(Call(f"sqs:{verb}", "{report}") for verb in POLLS),
        Call("s3:ListBucket", "{captures}"),
        Call("s3:ListBucket", "{state}"),
    ],
}
LOGS = {"logs:CreateLogStream", "logs:PutLogEvents"}
OF_THE_KEY = [Call("kms:Decrypt", KEY_ARN), Call("kms:GenerateDataKey", KEY_ARN)]


def asked(operation: str, given: Mapping[str, Any]) -> list[Call]:
    """What IAM is asked for an API call. An operation that is not here is an error of the test."""
    service, _, name = operation.partition(".")
    match service:
        case "s3":
            return _asked_of_s3(name, given)
        case "dynamodb":
            index = f"/index/{given['IndexName']}" if "IndexName" in given else ""
            keys = (("dynamodb:LeadingKeys", given["Key"]["pk"]["S"]),) if "Key" in given else ()
            return [Call(f"dynamodb:{name}", f"{{table}}{index}", keys)]
        case "sqs":
            queue = given["QueueUrl"].rpartition("/")[2]
            return [Call(f"sqs:{name.removesuffix('Batch')}", f"{{{queue}}}")]
        case "events":
            return [Call("events:PutEvents", "{bus}")]
        case "cloudwatch":
            context = (("cloudwatch:namespace", given["Namespace"]),)
            return [Call(f"cloudwatch:{name}", "*", context)]
        case "sagemaker":
            return [Call(f"sagemaker:{name}", JOB)]
        case "ssm":
            return [Call(f"ssm:{name}", f"arn:aws:ssm:R:1:parameter{given['Name']}")]
        case "sns":
            context = tuple((f"sns:{key}", given[key]) for key in ("Protocol",) if key in given)
            whole = "*" if name == "GetSubscriptionAttributes" else "{alerts}"
            return [Call(f"sns:{name}", given.get("PhoneNumber", whole), context)]
    raise AssertionError(f"no permission is known for {operation}")


def _asked_of_s3(name: str, given: Mapping[str, Any]) -> list[Call]:
    bucket = f"{{{given['Bucket']}}}"
    match name:
        case "ListObjectsV2":
            return [Call("s3:ListBucket", bucket, (("s3:prefix", given["Prefix"]),))]
        case "CopyObject":
            source, _, key = given["CopySource"].partition("/")
            read = Call("s3:GetObject", f"{{{source}}}/{key}")
            return [read, Call("s3:PutObject", f"{bucket}/{given['Key']}")]
    return [Call(f"s3:{name.replace('Head', 'Get')}", f"{bucket}/{given['Key']}")]


class Recorder:
    """Makes clients whose calls are noted."""

    def __init__(self) -> None:
        self.calls: dict[Call, None] = {}

    def client(self, service: str) -> Any:
        client = boto3.client(service)
        client.meta.events.register("before-parameter-build", self._note)
        return client

    def _note(self, params: Mapping[str, Any], model: Any, **_: Any) -> None:
        service = model.service_model.service_name
        self.calls |= dict.fromkeys(asked(f"{service}.{model.name}", params))


def record_evaluate(deployment: Deployment, recorder: Recorder) -> None:
    """A run that goes wrong, a job that ends, and a checkpoint that cannot be read."""
    settings = EvaluateSettings("table", "state", deployment.evaluate, "tocsin")
    default = to_watch({"rules": ["ExplodingTensor"]})
    ports = connect_evaluate(settings, default, recorder.client)
    storage = open_storage(RUN, client=boto3.client("s3"))
    writer = RunWriter(storage, run_id="r1")
    writer.write_collections([Collection("losses", include_regex=("^loss",))])
    loss = Captured("loss", np.full(1000, np.nan, np.float32))
    key = writer.write(0, Mode.TRAIN, 0, [loss])
    now = time.time()
    evaluate(Hint(RUN, (str(key),)), ports, owner="a", ends=now)  # its time is up at once
    evaluate(Hint(RUN), ports, owner="b", ends=now + 60)
    ports.coordination.take(RUN, "c", now, now + 60)
    evaluate(Hint(RUN, (str(key),)), ports, owner="d", ends=now + 60)  # another has the lease
    arn = boto3.client("sagemaker").describe_training_job(TrainingJobName="j1")["TrainingJobArn"]
    end_job(JobEnded("j1", arn), ports)
    ports.traces.save(RUN, ports.traces.load(RUN))
    ports.hints.send(RUN, "continue")
    Queue(recorder.client("sqs"), deployment.evaluate).back_off(RECORD)


def record_unreadable(deployment: Deployment, recorder: Recorder) -> None:
    settings = EvaluateSettings("table", "state", deployment.evaluate, "tocsin")
    ports = connect_evaluate(settings, to_watch({}), recorder.client)
    run = "s3://captures/jobs/j2"
    boto3.client("s3").put_object(Bucket="state", Key=checkpoint_key(run), Body=b"rubbish")
    evaluate(Hint(run), ports, owner="a", ends=time.time() + 60)


def record_act(deployment: Deployment, recorder: Recorder) -> None:
    """A rule that fires with every action, in a job of SageMaker's and in one that is none."""
    allowed = ("+15551230000", "*@example.org")
    settings = replace(deployment.settings, allowed_recipients=allowed)
    ports = connect_act(settings, recorder.client)
    actions = ["stop", "email", "sms:+15551230000", "metric", "email:a@example.org"]
    outside = "s3://captures/jobs/j7"
    for run, job, number in ((RUN, "j1", 1), (outside, "j7", 1), (RUN, "j1", 2)):
        text = body(
            Run=run, TrainingJobName=job, Actions=actions, DedupId=f"{job}{number}", Sequence=number
        )
        commit(text)
        react(parse_message(text), ports, ends=time.time() + 60)
    assert Call("sns:Publish", "+15551230000") in recorder.calls
    assert Call("s3:GetObject", f"{{state}}/{report_key(RUN)}") in recorder.calls  # of its links
    react(Flush(RUN), ports, ends=time.time() + 60)
    with suppress(NotImplementedError):  # moto has no StopTrainingJob; the call is recorded first
        ports.effects.stop_job(JOB)
    Endpoints(recorder.client("ssm"), ["pager"], send=lambda *_: None).post("pager", {}, "k")
    Queue(recorder.client("sqs"), deployment.act).back_off(RECORD)


def record_patrol(deployment: Deployment, recorder: Recorder) -> None:
    settings = PatrolSettings("table", deployment.evaluate, deployment.act)
    for key in ("run#s3://captures/jobs/j9", "alerts#s3://captures/jobs/j9"):
        item = {"pk": {"S": key}, "due_shard": {"S": "0"}, "due_at": {"N": "1"}}
        boto3.client("dynamodb").put_item(TableName="table", Item=item)
    connect_patrol(settings, recorder.client)(time.time())


def record_fleet(deployment: Deployment, recorder: Recorder) -> None:
    boto3.client("s3").put_object(Bucket="state", Key=checkpoint_key(RUN), Body=b"rubbish")
    assert list(stored_runs(recorder.client("s3"), "state", 50))


def record_report(deployment: Deployment, recorder: Recorder) -> None:
    """The run of ``record_evaluate``, with a trace."""
    settings = ReportSettings("table", "state", deployment.report)
    make = connect_report(settings, recorder.client)
    assert make(RUN)
    assert not make(RUN)
    Queue(recorder.client("sqs"), deployment.report).back_off(RECORD)


def record_replay(deployment: Deployment, recorder: Recorder) -> None:
    """The run of ``record_evaluate``; its time is up once, and once its checkpoint is rubbish."""
    replay = connect_replay(ReplaySettings("state"), to_watch({}), recorder.client)
    assert not replay("once", RUN, time.time())
    assert replay("once", RUN, time.time() + 600)
    key = checkpoint_key(RUN, f"{REPLAYS}once/checkpoints/")
    boto3.client("s3").put_object(Bucket="state", Key=key, Body=b"rubbish")
    assert replay("once", RUN, time.time() + 600)


RECORD = {"attributes": {"ApproximateReceiveCount": "1"}, "receiptHandle": "h"}
SCENARIOS: Mapping[str, list[Callable[[Deployment, Recorder], None]]] = {
    "EvaluateRole": [record_evaluate, record_unreadable],
    "ActRole": [record_act],
    "PatrolRole": [record_patrol],
    "ReportRole": [record_report],
    "ReplayRole": [record_replay],
    "FleetRole": [record_fleet],
}


def training_job(deployment: Deployment) -> None:
    boto3.client("iam").create_role(RoleName="training", AssumeRolePolicyDocument="{}")
    role = boto3.client("iam").get_role(RoleName="training")["Role"]["Arn"]
    boto3.client("sagemaker").create_training_job(
        TrainingJobName="j1",
        AlgorithmSpecification={"TrainingImage": "i", "TrainingInputMode": "File"},
        RoleArn=role,
        OutputDataConfig={"S3OutputPath": "s3://captures/models"},
        ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 60},
        Tags=[{"Key": "tocsin:run", "Value": RUN}],
    )
    value = json.dumps({"url": "https://example.com/"})
    boto3.client("ssm").put_parameter(
        Name="/tocsin/webhooks/pager", Value=value, Type="SecureString"
    )


@pytest.fixture(scope="module")
def recorded() -> Mapping[str, list[Call]]:
    """The calls of each function, by its role."""
    found = {}
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SAGEMAKER"):
            patch.delenv(name, raising=False)
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
            patch.setenv(name, "us-east-1")
        deployment = Deployment(watched=False)
        training_job(deployment)
        for role, scenarios in SCENARIOS.items():
            recorder = Recorder()
            for scenario in scenarios:
                scenario(deployment, recorder)
            found[role] = list(recorder.calls)
    return found


def text(value: Any) -> str:
    """An ARN of the template, a resource in it by its logical id."""
    if isinstance(value, str):
        return value
    if "Ref" in value:
        return PSEUDO.get(value["Ref"], f"<{value['Ref']}>")
    if "Fn::GetAtt" in value:
        return f"<{value['Fn::GetAtt'][0]}>"
    return "".join(map(text, value["Fn::Join"][1]))


def names(stack: Synthesised, captures: str | None) -> Names:
    def arn(kind: str, fragment: str) -> str:
        (found,) = [name for name in stack.all(kind) if fragment in name]
        return f"<{found}>"

    return {
        "captures": captures or arn("S3::Bucket", "CaptureBucket"),
        "state": arn("S3::Bucket", "StateBucket"),
        "table": arn("DynamoDB::Table", "Table"),
        "evaluate": arn("SQS::Queue", "EvaluateWorkQueue"),
        "act": arn("SQS::Queue", "ActionsWorkQueue"),
        "report": arn("SQS::Queue", "ReportsWorkQueue"),
        "bus": arn("Events::EventBus", "Bus"),
        "alerts": arn("SNS::Topic", "Alerts"),
        "key": arn("KMS::Key", "Key"),
    }


def is_allowed(statements: list[dict[str, Any]], call: Call, of_stack: Names) -> bool:
    resource = call.resource.format(**of_stack)
    given = {key: value.format(**of_stack) for key, value in call.context}
    return any(
        each["Effect"] == "Allow"
        and any(fnmatchcase(call.action, action) for action in listed(each["Action"]))
        and covers(each, resource)
        and all(is_met(given, *condition) for condition in conditions(each))
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


def is_met(given: Mapping[str, str], operator: str, key: str, values: list[str]) -> bool:
    if key not in given:
        return operator.endswith("IfExists")
    return any(fnmatchcase(given[key], value) for value in values)


@pytest.mark.parametrize("role", SCENARIOS)
def test_over_a_bucket_of_its_own(
    own: Synthesised, recorded: Mapping[str, list[Call]], role: str
) -> None:
    of_stack = names(own, None)
    calls = [*recorded[role], *IMPLIED[role]]
    assert [call for call in calls if not is_allowed(own.statements(role), call, of_stack)] == []


@pytest.mark.parametrize("role", SCENARIOS)
def test_over_a_bucket_that_was_there(
    existing: Synthesised, recorded: Mapping[str, list[Call]], role: str
) -> None:
    of_stack = names(existing, "arn:aws:s3:::our-runs")
    calls = [call for call in (*recorded[role], *IMPLIED[role]) if "ssm" not in call.action]
    calls += OF_THE_KEY if role in ("EvaluateRole", "ActRole") else []
    calls += OF_THE_KEY[:1] if role in ("ReportRole", "ReplayRole") else []
    statements = existing.statements(role)
    assert [call for call in calls if not is_allowed(statements, call, of_stack)] == []


@pytest.mark.parametrize("role", SCENARIOS)
def test_nothing_is_allowed_that_is_not_used(
    own: Synthesised, recorded: Mapping[str, list[Call]], role: str
) -> None:
    used = {call.action for call in (*recorded[role], *IMPLIED[role])}
    allowed = {action for each in own.statements(role) for action in listed(each["Action"])}
    assert allowed - LOGS == used


@pytest.mark.parametrize(
    ("role", "call"),
    [
        ("EvaluateRole", Call("s3:GetObject", "{captures}/elsewhere/x")),
        ("EvaluateRole", Call("s3:PutObject", "{captures}/jobs/j1/STOP.json")),
        ("EvaluateRole", Call("s3:PutObject", "{captures}/jobs/j1/index/0/1_w.json")),
        ("EvaluateRole", Call("sagemaker:StopTrainingJob", JOB)),
        ("EvaluateRole", Call("sns:Publish", "{alerts}")),
        ("ActRole", Call("s3:GetObject", "{captures}/jobs/j1/events/0/x.tfevents")),
        ("ActRole", Call("s3:PutObject", "{state}/checkpoints/j1/ab.json.z")),
        ("ActRole", Call("sns:Subscribe", "{alerts}", (("sns:Protocol", "https"),))),
        ("ActRole", Call("sns:Publish", "arn:aws:sns:R:1:another-topic")),
        ("ActRole", Call("cloudwatch:PutMetricData", "*", (("cloudwatch:namespace", "AWS"),))),
        ("ActRole", Call("ssm:GetParameter", "arn:aws:ssm:R:1:parameter/tocsin/webhooks/x")),
        ("PatrolRole", Call("dynamodb:GetItem", "{table}")),
        ("PatrolRole", Call("s3:GetObject", "{captures}/jobs/j1/index/0/1_w.json")),
        ("ReportRole", Call("dynamodb:GetItem", "{table}", (("dynamodb:LeadingKeys", "run#x"),))),
        ("ReplayRole", Call("s3:PutObject", "{captures}/jobs/j1/END_OF_JOB.ts")),
        ("ReplayRole", Call("s3:PutObject", "{state}/checkpoints/j1/ab.json.z")),
        ("ReplayRole", Call("s3:GetObject", "{captures}/elsewhere/x")),
        ("ReplayRole", Call("sqs:SendMessage", "{act}")),
        ("ReplayRole", Call("events:PutEvents", "{bus}")),
        ("ReplaysMachineRole", Call("s3:GetObject", "{state}/checkpoints/j1/ab.json.z")),
        ("ReplaysMachineRole", Call("lambda:InvokeFunction", "arn:aws:lambda:R:1:function:act")),
        ("FleetRole", Call("s3:GetObject", "{captures}/jobs/j1/index/0/1_w.json")),
        ("FleetRole", Call("s3:PutObject", "{state}/checkpoints/j1/ab.json.z")),
    ],
)
def test_nor_anything_else(existing: Synthesised, role: str, call: Call) -> None:
    of_stack = names(existing, "arn:aws:s3:::our-runs")
    assert not is_allowed(existing.statements(role), call, of_stack)
