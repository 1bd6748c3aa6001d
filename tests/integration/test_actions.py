"""The functions ``act`` and ``patrol`` against AWS in process."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from moto import mock_aws
from tocsin.actions import (
    ActionsFailed,
    BadAlert,
    Busy,
    Job,
    Message,
    NotRunning,
    Outcome,
    Result,
    remembering,
)
from tocsin.actions._aws import Bus, RunFiles, SageMaker, Topic
from tocsin.actions._once import memory
from tocsin.evaluation import HintsLost
from tocsin.evaluation.aws import SqsHints

ARN = "arn:aws:sagemaker:us-east-1:111122223333:training-job/j1"
RUN = "s3://captures/jobs/j1/debug-output"
DETAIL = {
    "TrainingJobName": "j1",
    "Run": RUN,
    "RuleConfigurationName": "VanishingGradient",
    "Rule": "VanishingGradient",
    "RuleEvaluationStatus": "IssuesFound",
    "Severity": "critical",
    "Step": 120,
    "Evidence": {"abs_mean": 3.1e-9},
    "Actions": ["email", "sms", "metric", "stop"],
    "DedupId": "d1",
    "RunId": "r1",
}
DONE = Result(Outcome.DONE, "did it")


@dataclass(frozen=True)
class Context:
    """What powertools reads of an invocation."""

    left: int = 30_000
    function_name: str = "act"
    memory_limit_in_mb: int = 256
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:111122223333:function:act"
    aws_request_id: str = "00000000-0000-0000-0000-000000000000"

    def get_remaining_time_in_millis(self) -> int:
        return self.left


class Deployment:
    """The parts of the stack that the two functions touch."""

    def __init__(self) -> None:
        boto3.client("s3").create_bucket(Bucket="captures")
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
        self.email = self._subscribed("email")
        self.sms = self._subscribed("sms")
        self.bus = self._watched_bus()
        self.evaluate = self._queue("evaluate")

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

    def items(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = boto3.client("dynamodb").scan(TableName="table")["Items"]
        return found

    def _queue(self, name: str) -> str:
        url: str = self.sqs.create_queue(QueueName=name)["QueueUrl"]
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
        events.create_event_bus(Name="tocsin")
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
    with mock_aws():
        deployed = Deployment()
        environment = {
            "TOCSIN_TABLE": "table",
            "TOCSIN_BUS": "tocsin",
            "TOCSIN_TOPIC_ARN": deployed.topic,
            "TOCSIN_EMAILS": "true",
            "TOCSIN_PHONES": "false",
            "TOCSIN_EVALUATE_QUEUE_URL": deployed.evaluate,
            "POWERTOOLS_SERVICE_NAME": "act",
            "POWERTOOLS_METRICS_NAMESPACE": "Tocsin",
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield deployed


def cold_start(monkeypatch: pytest.MonkeyPatch, function: str) -> ModuleType:
    """The handler's module, imported as Lambda would with the environment as it is now."""
    for name in ("tocsin.observability", f"functions.{function}.handler"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module(f"functions.{function}.handler")


@pytest.fixture
def act(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return cold_start(monkeypatch, "act")


def message(**fields: Any) -> dict[str, Any]:
    """What SQS hands to the function, with other fields in the alert."""
    body = {
        "version": "0",
        "detail-type": "Tocsin Rule Evaluation Status Change",
        "source": "tocsin",
        "detail": {**DETAIL, **fields},
    }
    return {"Records": [{"messageId": "m1", "body": json.dumps(body)}]}


def metric_sum(name: str) -> float:
    now = datetime.now(UTC)
    points = boto3.client("cloudwatch").get_metric_statistics(
        Namespace="Tocsin",
        MetricName=name,
        Dimensions=[
            {"Name": "Rule", "Value": "VanishingGradient"},
            {"Name": "TrainingJobName", "Value": "j1"},
        ],
        StartTime=now - timedelta(hours=1),
        EndTime=now + timedelta(hours=1),
        Period=7200,
        Statistics=["Sum"],
    )["Datapoints"]
    return sum(point["Sum"] for point in points)


def stop_request() -> dict[str, Any]:
    stored = boto3.client("s3").get_object(Bucket="captures", Key="jobs/j1/debug-output/STOP.json")
    wish: dict[str, Any] = json.loads(stored["Body"].read())
    return wish


# ---- act


def test_takes_all_actions_and_tells_of_them(act: ModuleType, deployment: Deployment) -> None:
    act.handler(message(), Context())

    assert stop_request()["rule"] == "VanishingGradient"
    [email] = deployment.received(deployment.email)
    assert email["Subject"] == (
        "Tocsin critical: VanishingGradient in j1 at step 120; stop requested"
    )
    assert f"wrote {RUN}/STOP.json" in email["Message"]
    assert email["MessageAttributes"]["job"]["Value"] == "j1"
    [sms] = deployment.received(deployment.sms)
    assert sms["Message"].startswith("Tocsin: VanishingGradient in j1 at step 120.")
    assert metric_sum("TrainingScalar") == 3.1e-9
    told = [event["detail"] for event in deployment.received(deployment.bus)]
    assert [(detail["Action"], detail["Outcome"]) for detail in told] == [
        ("stop", "done"),
        ("email", "done"),
        ("sms", "done"),
        ("metric", "done"),
    ]
    assert {detail["DedupId"] for detail in told} == {"d1"}
    assert "subscribes nobody" in told[2]["Detail"]


def test_a_second_copy_does_nothing(act: ModuleType, deployment: Deployment) -> None:
    act.handler(message(), Context())
    asked = stop_request()
    for queue in (deployment.email, deployment.sms, deployment.bus):
        assert deployment.received(queue)
    act.handler(message(), Context())
    for queue in (deployment.email, deployment.sms, deployment.bus):
        assert deployment.received(queue) == []
    assert stop_request() == asked
    assert metric_sum("TrainingScalar") == 3.1e-9


def test_what_is_done_is_remembered_for_fifteen_days(
    act: ModuleType, deployment: Deployment
) -> None:
    act.handler(message(Actions=["metric"]), Context())
    items = deployment.items()
    assert len(items) == 2  # the action, and that it was told of
    for item in items:
        assert item["pk"]["S"].startswith("act#")
        assert item["status"]["S"] == "COMPLETED"
        assert float(item["expires_at"]["N"]) == pytest.approx(time.time() + 15 * 86400, abs=60)


def test_what_failed_is_counted_and_only_that_is_tried_again(
    act: ModuleType, deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = boto3.client("sagemaker")
    good = act.ports
    act.ports = replace(good, describe_job=SageMaker(jobs).describe)
    with Stubber(jobs) as sagemaker:
        sagemaker.add_client_error("describe_training_job", "ThrottlingException", "Rate exceeded")
        with pytest.raises(ActionsFailed, match="Rate exceeded"):
            act.handler(message(), Context())
    counted = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["ActionsFailed"] for line in counted if "ActionsFailed" in line] == [[1.0]]
    [email] = deployment.received(deployment.email)
    assert email["Subject"].endswith("; stop failed")
    assert metric_sum("TrainingScalar") == 3.1e-9

    act.ports = good
    act.handler(message(), Context())
    counted = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["ActionsFailed"] for line in counted if "ActionsFailed" in line] == [[0.0]]
    assert stop_request()["step"] == 120
    assert deployment.received(deployment.email) == []
    assert metric_sum("TrainingScalar") == 3.1e-9
    outcomes = [
        event["detail"]["Outcome"]
        for event in deployment.received(deployment.bus)
        if event["detail"]["Action"] == "stop"
    ]
    assert outcomes == ["failed", "done"]


def test_not_finite_is_counted_not_published(act: ModuleType) -> None:
    act.handler(message(Actions=["metric:loss"], Evidence={"loss": "NaN"}), Context())
    assert (metric_sum("lossNonFinite"), metric_sum("loss")) == (1.0, 0.0)


def test_other_statuses_are_acknowledged(act: ModuleType, deployment: Deployment) -> None:
    act.handler(message(RuleEvaluationStatus="NoIssuesFound"), Context())
    assert deployment.items() == []
    assert deployment.received(deployment.bus) == []


def test_a_message_that_is_none_of_ours_comes_back(act: ModuleType) -> None:
    with pytest.raises(BadAlert, match=r"\$\.detail\.Run"):
        act.handler(message(Run="/var/run"), Context())


def test_throttling_is_retried_before_it_is_a_failure(act: ModuleType) -> None:
    for port in (act.ports.describe_job, act.ports.publish, act.ports.put_event):
        assert port.__self__.client.meta.config.retries["mode"] == "standard"


def test_a_wrong_environment_shows_at_cold_start(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOCSIN_TOPIC_ARN")
    with pytest.raises(ValueError, match="TOCSIN_TOPIC_ARN"):
        cold_start(monkeypatch, "act")


# ---- once


def test_a_copy_at_the_same_moment_is_busy(deployment: Deployment) -> None:
    once = remembering(memory("table", boto3.client("dynamodb")), Context())
    seen = []

    def first() -> Result:
        with pytest.raises(Busy):
            once("d1/stop", lambda: pytest.fail("done twice"))
        seen.append("busy")
        return DONE

    assert once("d1/stop", first) == DONE
    assert once("d1/stop", lambda: pytest.fail("done twice")) == DONE
    assert seen == ["busy"]


def test_a_crash_is_taken_over_when_its_time_is_up(deployment: Deployment) -> None:
    class Killed(BaseException):
        """The process goes away: nothing after it runs, not even a clean-up."""

    def killed() -> Result:
        raise Killed

    store = memory("table", boto3.client("dynamodb"))
    with pytest.raises(Killed):
        remembering(store, Context(left=60_000))("d1/stop", killed)
    with pytest.raises(Busy):
        remembering(store, Context())("d1/stop", lambda: DONE)
    with pytest.raises(Killed):
        remembering(store, Context(left=-60_000))("d1/email", killed)
    assert remembering(store, Context())("d1/email", lambda: DONE) == DONE


def test_what_raised_is_not_remembered(deployment: Deployment) -> None:
    once = remembering(memory("table", boto3.client("dynamodb")), Context())

    def fails() -> Result:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        once("d1/stop", fails)
    assert deployment.items() == []
    assert once("d1/stop", lambda: DONE) == DONE


# ---- adapters


@pytest.fixture
def sagemaker(deployment: Deployment) -> Iterator[tuple[SageMaker, Stubber]]:
    client = boto3.client("sagemaker")
    with Stubber(client) as stubber:
        yield SageMaker(client), stubber
        stubber.assert_no_pending_responses()


def described(**more: Any) -> dict[str, Any]:
    return {
        "TrainingJobName": "j1",
        "TrainingJobArn": ARN,
        "TrainingJobStatus": "InProgress",
        "SecondaryStatus": "Training",
        "ModelArtifacts": {"S3ModelArtifacts": "s3://out/model.tar.gz"},
        "AlgorithmSpecification": {"TrainingInputMode": "File"},
        "ResourceConfig": {"VolumeSizeInGB": 1},
        "StoppingCondition": {"MaxRuntimeInSeconds": 1},
        "CreationTime": datetime(2026, 1, 1, tzinfo=UTC),
        **more,
    }


@pytest.mark.parametrize(
    ("more", "outputs"),
    [
        ({}, ()),
        ({"DebugHookConfig": {"S3OutputPath": "s3://a/b"}}, ("s3://a/b",)),
        ({"CheckpointConfig": {"S3Uri": "s3://c/d"}}, ("s3://c/d",)),
        (
            {
                "DebugHookConfig": {"S3OutputPath": "s3://a/b"},
                "CheckpointConfig": {"S3Uri": "s3://c/d"},
            },
            ("s3://a/b", "s3://c/d"),
        ),
    ],
)
def test_describes_a_job(sagemaker: Any, more: dict[str, Any], outputs: tuple[str, ...]) -> None:
    jobs, stubber = sagemaker
    stubber.add_response("describe_training_job", described(**more), {"TrainingJobName": "j1"})
    assert jobs.describe("j1") == Job(ARN, "InProgress", outputs)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("ValidationException", "Requested resource not found."),
        ("ValidationException", "Could not find training job 'j1'."),
        ("ResourceNotFound", ""),
    ],
)
def test_a_job_that_is_not_there(sagemaker: Any, code: str, words: str) -> None:
    jobs, stubber = sagemaker
    stubber.add_client_error("describe_training_job", code, words)
    assert jobs.describe("j1") is None


@pytest.mark.parametrize(
    "code", ["AccessDeniedException", "ThrottlingException", "ValidationException"]
)
def test_other_answers_are_raised(sagemaker: Any, code: str) -> None:
    jobs, stubber = sagemaker
    stubber.add_client_error("describe_training_job", code, "no")
    stubber.add_client_error("stop_training_job", "ThrottlingException", "no")
    with pytest.raises(ClientError, match=code):
        jobs.describe("j1")
    with pytest.raises(ClientError, match="Throttling"):
        jobs.stop("j1")


def test_stops_a_job(sagemaker: Any) -> None:
    jobs, stubber = sagemaker
    stubber.add_response("stop_training_job", {}, {"TrainingJobName": "j1"})
    jobs.stop("j1")


@pytest.mark.parametrize("code", ["ValidationException", "ResourceNotFound"])
def test_a_job_that_ended_cannot_be_stopped(sagemaker: Any, code: str) -> None:
    jobs, stubber = sagemaker
    stubber.add_client_error("stop_training_job", code, "is in status Completed")
    with pytest.raises(NotRunning, match="Completed"):
        jobs.stop("j1")


def test_reads_all_pages_of_tags(sagemaker: Any) -> None:
    jobs, stubber = sagemaker
    pages: list[tuple[Mapping[str, Any], Mapping[str, str]]] = [
        ({"Tags": [{"Key": "team", "Value": "x"}], "NextToken": "2"}, {"ResourceArn": ARN}),
        (
            {"Tags": [{"Key": "tocsin:run", "Value": RUN}]},
            {"ResourceArn": ARN, "NextToken": "2"},
        ),
    ]
    for answer, asked in pages:
        stubber.add_response("list_tags", answer, asked)
    assert jobs.tags(ARN) == {"team": "x", "tocsin:run": RUN}


@pytest.mark.parametrize(
    ("run", "key"),
    [
        ("s3://captures", "STOP.json"),
        ("s3://captures/j1", "j1/STOP.json"),
        ("s3://captures/a/../j1/", "a/../j1/STOP.json"),
    ],
)
def test_writes_into_the_run(deployment: Deployment, run: str, key: str) -> None:
    client = boto3.client("s3")
    RunFiles(client).write(run, "STOP.json", b"{}")
    [stored] = client.list_objects_v2(Bucket="captures")["Contents"]
    assert stored["Key"] == key


def test_publishes_any_text(deployment: Deployment) -> None:
    texts = {"default": '層\n"quoted"', "email": "e", "sms": "s"}
    sns = boto3.client("sns")
    Topic(sns, deployment.topic).publish(Message(texts, {"action": "sms", "job": "実験"}))
    [got] = deployment.received(deployment.sms)
    assert got["Message"] == texts["default"]
    assert "Subject" not in got


def test_an_event_that_the_bus_refuses_is_no_success(deployment: Deployment) -> None:
    client = boto3.client("events")
    refusal = {"ErrorCode": "InternalFailure", "ErrorMessage": "try again"}
    with Stubber(client) as stubber:
        stubber.add_response("put_events", {"FailedEntryCount": 1, "Entries": [refusal]})
        with pytest.raises(RuntimeError, match=r"bus tocsin refused the event: .*try again"):
            Bus(client, "tocsin").put("Tocsin Action Taken", {})


# ---- patrol


def put_run(run: str, due_at: float | None) -> None:
    due = {} if due_at is None else {"due_shard": {"S": "0"}, "due_at": {"N": str(due_at)}}
    boto3.client("dynamodb").put_item(
        TableName="table", Item={"pk": {"S": f"run#{run}"}, "hints": {"N": "3"}, **due}
    )


def test_patrol_hints_at_what_is_due(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    overdue = [f"s3://captures/jobs/{number:02d}\uffff" for number in range(23)]
    for number, run in enumerate(overdue):
        put_run(run, now - 100 + number)
    put_run("s3://captures/later", now + 3600)
    put_run("s3://captures/never", None)

    cold_start(monkeypatch, "patrol").handler({}, Context(function_name="patrol"))

    hints = deployment.received(deployment.evaluate)
    assert sorted(hint["run"] for hint in hints) == overdue
    for hint in hints:
        assert (hint["tocsin"], hint["why"]) == ("hint", "patrol")
        assert now <= hint["tick"] <= time.time()


def test_patrol_with_nothing_due_sends_nothing(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold_start(monkeypatch, "patrol").handler({}, Context(function_name="patrol"))
    assert deployment.received(deployment.evaluate) == []


def test_a_hint_that_the_queue_refuses_is_no_success(deployment: Deployment) -> None:
    client = boto3.client("sqs")
    answer = {
        "Successful": [{"Id": "0", "MessageId": "m", "MD5OfMessageBody": "0" * 32}],
        "Failed": [{"Id": "1", "SenderFault": False, "Code": "InternalError"}],
    }
    with Stubber(client) as stubber:
        stubber.add_response("send_message_batch", answer)
        queue = SqsHints(client, "https://sqs/evaluate").send_ticks
        with pytest.raises(HintsLost, match=r"1 of 2 hints .* s3://captures/b: InternalError"):
            queue(["s3://captures/a", "s3://captures/b"], 1.0)
