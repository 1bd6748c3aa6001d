"""Where CloudWatch is the only configured path: `actions: []`, the alarm, its topic."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tocsin.events import ACTION_TAKEN, STATUS_CHANGE

from local import LocalAws, local_aws
from local.events import listen
from local.reaper import Reaper
from local.scenarios import SCENARIOS, Scenario
from local.trainings import start
from tests.e2e.conftest import CONTEXT
from tests.waiting import PATIENCE, patiently

pytestmark = pytest.mark.e2e

WATCH = {"rules": [{"rule": "ExplodingTensor", "severity": "critical"}], "actions": []}


@pytest.fixture(scope="module")
def quiet() -> Iterator[LocalAws]:
    """A deployment of its own: alarms of the emulator look at all values whatever their dimensions
    are, so nobody else may publish any.
    """
    with local_aws(CONTEXT) as running:
        yield running


def alarms(aws: LocalAws) -> dict[str, Any]:
    found = aws.client("cloudwatch").describe_alarms()["MetricAlarms"]
    return {alarm["AlarmName"]: alarm for alarm in found if alarm["MetricName"] == "IssuesFound"}


def subscribed(aws: LocalAws, topic: str) -> str:
    """The URL of a queue that is subscribed to the topic."""
    sqs = aws.client("sqs")
    queue: str = sqs.create_queue(QueueName="alarms")["QueueUrl"]
    found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]
    aws.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=found["QueueArn"])
    return queue


def told(aws: LocalAws, queue: str, count: int) -> list[dict[str, Any]]:
    """Wait for ``count`` alarm messages."""
    sqs = aws.client("sqs")
    found: list[dict[str, Any]] = []
    for _ in patiently():
        if len(found) >= count:
            break
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=5)
        for message in answer.get("Messages", []):
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
            found.append(json.loads(json.loads(message["Body"])["Message"]))
    return found


def test_a_run_that_goes_wrong_raises_an_alarm_and_nothing_else(quiet: LocalAws) -> None:
    aws = quiet
    topic = aws.outputs["AlarmTopicArn"]
    subscriptions = aws.client("sns").list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    assert [each["Endpoint"] for each in subscriptions] == CONTEXT["alarmEmails"]
    queue = subscribed(aws, topic)
    (deployments,) = alarms(aws)
    of_the_job = [
        {"Name": "Rule", "Value": "ExplodingTensor"},
        {"Name": "TrainingJobName", "Value": "nightly-7"},
    ]
    aws.client("cloudwatch").put_metric_alarm(  # as docs/cloudwatch.md says
        AlarmName="nightly-7-exploding",
        Namespace="Tocsin",
        MetricName="IssuesFound",
        Dimensions=of_the_job,
        Statistic="Maximum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="GreaterThanOrEqualToThreshold",
        TreatMissingData="ignore",
        AlarmActions=[topic],
    )
    assert "ALARM" not in {alarm["StateValue"] for alarm in alarms(aws).values()}
    events = listen(aws.client, aws.outputs["EventBusName"], "heard")

    diverging = SCENARIOS["diverging"].arguments
    with Reaper() as reaper:
        training = start(
            aws, reaper, "nightly-7", Scenario("", "sagemaker", diverging, 200, watch=WATCH)
        )
        messages = told(aws, queue, 2)
        job = aws.jobs.wait("nightly-7", PATIENCE)

    assert job.status == "Completed", job.log.read_text()
    assert {message["AlarmName"] for message in messages} == {deployments, "nightly-7-exploding"}
    assert {message["NewStateValue"] for message in messages} == {"ALARM"}
    assert all(message["Trigger"]["MetricName"] == "IssuesFound" for message in messages)
    assert {alarm["StateValue"] for alarm in alarms(aws).values()} == {"ALARM"}
    assert dimensions(aws) == [[], of_the_job[:1], of_the_job]

    assert job.at("Stopping") is None
    assert training.stopped_at() is None
    types = [event["detail-type"] for event in events.receive(2)]
    assert STATUS_CHANGE in types
    assert ACTION_TAKEN not in types
    assert aws.mailbox.receive() == []
    assert aws.sms() == []


def dimensions(aws: LocalAws) -> list[list[dict[str, str]]]:
    """Of the metric IssuesFound, whose values are 1."""
    cloudwatch = aws.client("cloudwatch")
    found = [
        metric["Dimensions"]
        for metric in cloudwatch.list_metrics(Namespace="Tocsin", MetricName="IssuesFound")[
            "Metrics"
        ]
    ]
    now = datetime.now(UTC)
    for each in found:
        (point,) = cloudwatch.get_metric_statistics(
            Namespace="Tocsin",
            MetricName="IssuesFound",
            Dimensions=each,
            StartTime=now - timedelta(hours=1),
            EndTime=now + timedelta(minutes=1),
            Period=3600,
            Statistics=["Maximum"],
        )["Datapoints"]
        assert point["Maximum"] == 1.0
    return sorted(found, key=len)
