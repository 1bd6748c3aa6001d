"""The adapters of evaluation against moto, and against the in-memory ones they must equal."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import boto3
import msgspec
import pytest
from botocore.stub import ANY, Stubber
from msgspec.structs import replace
from tocsin.aws.cloudwatch import MetricSink
from tocsin.aws.coordination import DynamoCoordination
from tocsin.aws.dynamodb import Table
from tocsin.aws.events import AwsPublisher, Bus, NotPublished
from tocsin.aws.s3 import S3Checkpoints
from tocsin.aws.sagemaker import SageMakerJobs
from tocsin.aws.sqs import Queue, SqsHints
from tocsin.evaluation import (
    Checkpoint,
    CheckpointConflict,
    Coordination,
    MemoryCheckpoints,
    MemoryCoordination,
    pause_after,
)
from tocsin.model import RuleStatus

from tests.events import CHANGE, RUN
from tests.faults.room import calls_of_aws

REGION = "us-east-1"


pytestmark = pytest.mark.usefixtures("aws_in_process")


def s3_checkpoints() -> S3Checkpoints:
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="state")
    return S3Checkpoints(s3, "state")


@pytest.fixture(params=["s3", "memory"])
def checkpoints(request: pytest.FixtureRequest) -> S3Checkpoints | MemoryCheckpoints:
    return s3_checkpoints() if request.param == "s3" else MemoryCheckpoints()


def test_a_checkpoint_is_committed_on_the_version_that_was_read(
    checkpoints: S3Checkpoints | MemoryCheckpoints,
) -> None:
    first = checkpoints.load(RUN)
    assert (first.checkpoint, first.version) == (Checkpoint(RUN), None)
    one = checkpoints.save(replace(first.checkpoint, frontier=1), None)
    with pytest.raises(CheckpointConflict):
        checkpoints.save(replace(first.checkpoint, frontier=9), None)
    two = checkpoints.save(replace(first.checkpoint, frontier=2), one)
    with pytest.raises(CheckpointConflict):
        checkpoints.save(replace(first.checkpoint, frontier=9), one)
    stored = checkpoints.load(RUN)
    assert (stored.checkpoint.frontier, stored.version) == (2, two)
    assert checkpoints.load(RUN + "2").version is None


def dynamo_coordination() -> DynamoCoordination:
    dynamodb = boto3.client("dynamodb")
    dynamodb.create_table(
        TableName="table",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return DynamoCoordination(Table(dynamodb, "table"), lambda: 100.0)


@pytest.fixture(params=["dynamodb", "memory"])
def coordination(request: pytest.FixtureRequest) -> Coordination:
    return dynamo_coordination() if request.param == "dynamodb" else MemoryCoordination()


def test_one_invocation_has_the_lease_and_newer_hints_send_it_round_again(
    coordination: Coordination,
) -> None:
    coordination.hint(RUN)
    lease = coordination.take(RUN, "a", 100.0, 160.0)
    assert lease is not None
    assert (lease.hints, lease.attempts) == (2, 1)  # to ask for the lease is a hint as well
    assert coordination.take(RUN, "b", 101.0, 161.0) is None
    again = coordination.release(lease, 400.0)
    assert again is not None
    assert again.hints == 3
    assert coordination.release(again, 400.0) is None
    other = coordination.take(RUN, "b", 102.0, 162.0)
    assert other is not None
    assert other.attempts == 1


@pytest.mark.parametrize("others", ["hold it", "have given it back"])
def test_a_hint_for_a_run_that_is_known_to_be_held_is_one_call(others: str) -> None:
    coordination = dynamo_coordination()
    elsewhere = DynamoCoordination(coordination.table, lambda: 100.0)
    lease = elsewhere.take(RUN, "a", 100.0, 160.0)
    assert lease is not None
    assert coordination.take(RUN, "b", 101.0, 161.0) is None
    if others == "have given it back":
        elsewhere.release(lease, None, last=True)
    with calls_of_aws() as calls:
        taken = coordination.take(RUN, "b", 102.0, 162.0, ("a key",))
    if taken is None:
        assert others == "hold it"
        assert len(calls) == 1
    else:
        assert (taken.hints, taken.keys) == (4, ("a key",))
    again = elsewhere.release(lease, None)
    assert (again is not None) == (others == "hold it")


def test_an_expired_lease_is_taken_over_and_its_old_owner_changes_nothing(
    coordination: Coordination,
) -> None:
    coordination.hint(RUN)
    old = coordination.take(RUN, "a", 100.0, 160.0)
    assert old is not None
    assert coordination.take(RUN, "b", 159.0, 220.0) is None
    new = coordination.take(RUN, "b", 161.0, 220.0)
    assert new is not None
    assert new.attempts == 2
    assert coordination.release(old, None) is None
    coordination.abandon(old, attempts=0, until=None)
    assert coordination.take(RUN, "c", 162.0, 230.0) is None
    assert coordination.release(new, None, last=True) is None
    assert coordination.take(RUN, "d", 162.0, 230.0) is not None


def test_a_lease_that_is_abandoned_for_a_services_error_can_be_taken_at_once(
    coordination: Coordination,
) -> None:
    for attempt in range(3):
        lease = coordination.take(RUN, f"o{attempt}", 100.0, 160.0)
        assert lease is not None
        assert lease.attempts == 1
        coordination.abandon(lease, attempts=0, until=None)


def test_a_lease_that_is_abandoned_at_a_step_pauses_and_counts_as_an_attempt(
    coordination: Coordination,
) -> None:
    lease = coordination.take(RUN, "a", 100.0, 160.0, ("a key",))
    assert lease is not None
    coordination.abandon(lease, attempts=lease.attempts, until=110.0)
    assert coordination.take(RUN, "b", 110.0, 170.0) is None
    lease = coordination.take(RUN, "b", 111.0, 171.0)
    assert lease is not None
    assert (lease.attempts, lease.keys) == (2, ("a key",))


def test_the_rule_at_work_is_known_to_the_next_invocation_until_a_look_finishes(
    coordination: Coordination,
) -> None:
    lease = coordination.take(RUN, "a", 100.0, 160.0)
    assert lease is not None
    assert lease.suspect == ""
    coordination.note(lease, "first")
    coordination.note(lease, "second")
    later = coordination.take(RUN, "b", 200.0, 260.0)
    assert later is not None
    coordination.note(lease, "third")  # by an owner that has lost the lease
    again = coordination.take(RUN, "c", 400.0, 460.0)
    assert again is not None
    assert (later.suspect, again.suspect) == ("second", "second")
    assert coordination.release(again, None) is None
    after = coordination.take(RUN, "d", 500.0, 560.0)
    assert after is not None
    assert after.suspect == ""


def test_a_rule_that_has_returned_is_not_noted(coordination: Coordination) -> None:
    lease = coordination.take(RUN, "a", 100.0, 160.0)
    assert lease is not None
    coordination.note(lease, "a rule")
    coordination.note(lease, "")
    later = coordination.take(RUN, "b", 200.0, 260.0)
    assert later is not None
    assert later.suspect == ""


def test_a_run_whose_invocations_are_cut_off_pauses_longer_and_longer(
    coordination: Coordination,
) -> None:
    now, waits = 100.0, []
    for attempt in range(1, 5):
        lease = coordination.take(RUN, f"o{attempt}", now, now + 60)
        assert lease is not None
        until = next(
            wait for wait in range(1000) if lease.due_at is not None and lease.due_at <= now + wait
        )
        waits.append(until - 60)
        assert coordination.take(RUN, "too early", now + until, now + until + 60) is None
        now += until + 1
    assert waits == [pause_after(attempt - 1) for attempt in range(1, 5)] == [0, 10, 60, 240]


def test_the_files_that_hints_name_reach_whoever_looks_next(coordination: Coordination) -> None:
    coordination.hint(RUN, ("a", "b"))
    lease = coordination.take(RUN, "o", 100.0, 160.0, ("b",))
    assert lease is not None
    assert lease.keys == ("a", "b")
    coordination.hint(RUN, ("c",))
    coordination.hint(RUN)
    again = coordination.release(lease, None)
    assert again is not None
    assert (again.keys, again.hints) == (("a", "b", "c"), 4)
    assert coordination.release(again, None) is None
    fresh = coordination.take(RUN, "p", 200.0, 260.0)
    assert fresh is not None
    assert fresh.keys == ()


def test_a_lease_that_is_given_back_for_a_further_hint_keeps_the_files_that_nobody_looked_at(
    coordination: Coordination,
) -> None:
    lease = coordination.take(RUN, "o", 100.0, 160.0, ("a",))
    assert lease is not None
    coordination.hint(RUN, ("b",))
    assert coordination.release(lease, 160.0, last=True) is None
    fresh = coordination.take(RUN, "p", 200.0, 260.0)
    assert fresh is not None
    assert fresh.keys == ("b",)


def test_runs_of_a_job(coordination: Coordination) -> None:
    assert list(coordination.runs_of("j1")) == []
    for run in (RUN, RUN, "s3://b/other/j1"):
        coordination.remember_job("j1", run)
    assert list(coordination.runs_of("j1")) == [RUN, "s3://b/other/j1"]


@pytest.mark.parametrize(("due_at", "sparse"), [(250.0, False), (None, True)])
def test_when_a_run_is_due_and_that_an_ended_one_never_is(
    due_at: float | None, sparse: bool
) -> None:
    coordination = dynamo_coordination()
    dynamodb = boto3.client("dynamodb")

    def item() -> dict[str, Any]:
        key = {"pk": {"S": f"run#{RUN}"}}
        got: dict[str, Any] = dynamodb.get_item(TableName="table", Key=key)["Item"]
        return got

    coordination.hint(RUN)
    lease = coordination.take(RUN, "a", 100.0, 160.0)
    assert lease is not None
    assert float(item()["due_at"]["N"]) == 160.0
    coordination.release(lease, due_at)
    assert ("due_at" not in item()) is sparse
    assert ("due_shard" not in item()) is sparse


def a_bus() -> str:
    """A bus whose events land in a queue; the queue's URL."""
    events, sqs = boto3.client("events"), boto3.client("sqs")
    url = str(sqs.create_queue(QueueName="seen")["QueueUrl"])
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    events.create_event_bus(Name="tocsin")
    events.put_rule(Name="all", EventBusName="tocsin", EventPattern='{"source": ["tocsin"]}')
    events.put_targets(
        Rule="all", EventBusName="tocsin", Targets=[{"Id": "q", "Arn": arn["QueueArn"]}]
    )
    return url


@pytest.mark.parametrize("job_metrics", [True, False])
def test_changes_become_events_and_metrics(job_metrics: bool) -> None:
    url = a_bus()
    cloudwatch = boto3.client("cloudwatch")
    bus = Bus(boto3.client("events"), "tocsin")
    now = 1_700_000_001.0
    publisher = AwsPublisher(bus, MetricSink(cloudwatch), lambda: now, job_metrics)
    changes = [msgspec.structs.replace(CHANGE, dedup_id=str(number)) for number in range(23)]
    ended = msgspec.structs.replace(
        CHANGE, rule_evaluation_status=RuleStatus.NO_ISSUES_FOUND, dedup_id="end"
    )
    publisher.publish([*changes, ended])
    sqs = boto3.client("sqs")
    seen = []
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        seen += [json.loads(message["Body"])["detail"]["DedupId"] for message in messages]
        for message in messages:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert seen[1:] == [*(change.dedup_id for change in changes), "end"]  # after the news for act
    metrics = cloudwatch.list_metrics(Namespace="Tocsin")["Metrics"]
    rule = {"Name": "Rule", "Value": "eval-loss"}
    job = {"Name": "TrainingJobName", "Value": "j1"}
    found = {json.dumps(metric["Dimensions"]) for metric in metrics}
    assert found == {json.dumps(by) for by in ([], [rule], [rule, job])[: 2 + job_metrics]}


def test_an_event_that_is_not_taken_raises_and_no_metric_is_sent() -> None:
    events = boto3.client("events")
    with Stubber(events) as stub:
        stub.add_response(
            "put_events",
            {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "ThrottlingException"}]},
            {"Entries": ANY},
        )
        cloudwatch = boto3.client("cloudwatch")
        publisher = AwsPublisher(Bus(events, "tocsin"), MetricSink(cloudwatch), lambda: 0.0, True)
        with pytest.raises(NotPublished, match="ThrottlingException"):
            publisher.publish([CHANGE])
    assert cloudwatch.list_metrics(Namespace="Tocsin")["Metrics"] == []


def test_a_hint_is_a_message_after_its_delay() -> None:
    sqs = boto3.client("sqs")
    with Stubber(sqs) as stub:
        body = json.dumps({"tocsin": "hint", "run": RUN, "tick": None, "why": "grace"})
        stub.add_response(
            "send_message",
            {},
            {"QueueUrl": "https://q", "MessageBody": body, "DelaySeconds": 7},
        )
        SqsHints(Queue(sqs, "https://q")).send(RUN, "grace", 7.0)
        stub.assert_no_pending_responses()


@pytest.mark.parametrize(
    ("status", "over"), [("InProgress", False), ("Stopping", False), ("Stopped", True)]
)
def test_a_job_is_described(status: str, over: bool) -> None:
    sagemaker = boto3.client("sagemaker")
    rules = [{"RuleConfigurationName": "V", "RuleEvaluatorImage": "i"}]
    with Stubber(sagemaker) as stub:
        stub.add_response(
            "describe_training_job",
            {
                "TrainingJobName": "j1",
                "TrainingJobArn": "arn:aws:sagemaker:us-east-1:111122223333:training-job/j1",
                "ModelArtifacts": {"S3ModelArtifacts": "s3://b/m"},
                "TrainingJobStatus": status,
                "SecondaryStatus": "Training",
                "StoppingCondition": {},
                "CreationTime": datetime.fromtimestamp(5, UTC),
                "TrainingEndTime": datetime.fromtimestamp(9, UTC),
                "DebugRuleConfigurations": rules,
            },
            {"TrainingJobName": "j1"},
        )
        job = SageMakerJobs(sagemaker).describe("j1")
    assert job is not None
    assert (list(job.rules), job.ended_at) == (rules, 9.0 if over else None)


def test_a_name_that_sagemaker_does_not_know_is_no_job() -> None:
    sagemaker = boto3.client("sagemaker")
    with Stubber(sagemaker) as stub:
        stub.add_client_error("describe_training_job", "ValidationException", "not found")
        assert SageMakerJobs(sagemaker).describe("j1") is None
        assert SageMakerJobs(sagemaker).describe("not a_job/name") is None
