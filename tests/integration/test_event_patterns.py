"""The patterns and examples of ``docs/events.md``, against what is really published."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import msgspec
import pytest
from moto import mock_aws
from msgspec.structs import replace
from tocsin.actions import ActionOutcome, Result
from tocsin.alerts import AlertGroup, Task
from tocsin.alerts.tasks import action_events as taken
from tocsin.aws.cloudwatch import MetricSink
from tocsin.aws.events import AwsPublisher, Bus
from tocsin.events import ActionTaken, ConfigurationRefused, RunEvent
from tocsin.model import RuleStatus, Severity

from tests.events import CHANGE, RUN, SUMMARY

DOCUMENT = Path(__file__).parents[2] / "docs" / "events.md"
BLOCKS = [
    json.loads(block)
    for block in re.findall(r"^```json\n(.*?)^```$", DOCUMENT.read_text(), re.M | re.S)
]
PATTERNS = [block for block in BLOCKS if "source" in block]
EXAMPLES = [block for block in BLOCKS if "source" not in block]

FIRED = replace(
    CHANGE,
    rule_configuration_name="LossDiverging",
    severity=Severity.CRITICAL,
)
NIGHTLY = replace(SUMMARY, training_job_name="nightly-7", run="s3://b/jobs/nightly-7")
EVENTS: dict[str, RunEvent] = {
    "fired": FIRED,
    "fired, a warning": replace(FIRED, severity=Severity.WARNING),
    "another rule fired": replace(FIRED, rule_configuration_name="Overfit"),
    "resolved": replace(
        FIRED,
        previous_status=RuleStatus.ISSUES_FOUND,
        rule_evaluation_status=RuleStatus.IN_PROGRESS,
    ),
    "a nightly job ended badly": NIGHTLY,
    "a nightly job ended well": replace(NIGHTLY, rule_evaluation_status=RuleStatus.NO_ISSUES_FOUND),
    "another job ended badly": SUMMARY,
    "a rule is refused": ConfigurationRefused("j1", RUN, "r", "rules[3]", "no such rule", ""),
}
"""By the ``DedupId`` that they get."""


def action_taken(outcome: ActionOutcome) -> ActionTaken:
    task = Task("1", "stop", "fired", dedup_ids={"LossDiverging": outcome.value})
    (event,) = taken(task, AlertGroup(RUN, "j1"), Result(outcome, "asked SageMaker to stop it"))
    return event


@pytest.fixture(scope="module")
def heard() -> Iterator[list[dict[str, dict[str, Any]]]]:
    """What came through each of the patterns, and through one for all: details by their id."""
    with mock_aws():
        events, sqs = (boto3.client(name, region_name="us-east-1") for name in ("events", "sqs"))
        events.create_event_bus(Name="tocsin")
        queues = []
        for number, pattern in enumerate([*PATTERNS, {"source": ["tocsin"]}]):
            name = f"pattern-{number}"
            queues.append(sqs.create_queue(QueueName=name)["QueueUrl"])
            found = sqs.get_queue_attributes(QueueUrl=queues[-1], AttributeNames=["QueueArn"])
            target = {"Id": name, "Arn": found["Attributes"]["QueueArn"]}
            events.put_rule(Name=name, EventBusName="tocsin", EventPattern=json.dumps(pattern))
            events.put_targets(Rule=name, EventBusName="tocsin", Targets=[target])
        metrics = boto3.client("cloudwatch", region_name="us-east-1")
        publisher = AwsPublisher(
            Bus(events, "tocsin"), MetricSink(metrics), lambda: 1_700_000_001.0, True
        )
        for label, event in EVENTS.items():
            publisher.publish([replace(event, dedup_id=label)])
        for outcome in ActionOutcome:
            entry = {
                "EventBusName": "tocsin",
                "Source": "tocsin",
                "DetailType": "Tocsin Action Taken",
                "Detail": msgspec.json.encode(action_taken(outcome)).decode(),
            }
            events.put_events(Entries=[entry])
        yield [received(sqs, queue) for queue in queues]


def received(sqs: Any, queue: str) -> dict[str, dict[str, Any]]:
    found = {}
    while batch := sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
        for message in batch:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
            detail = json.loads(message["Body"])["detail"]
            found[detail["DedupId"]] = detail
    return found


@pytest.mark.parametrize(
    ("number", "through"),
    [
        (0, {"fired"}),
        (1, {"resolved"}),
        (2, {"a nightly job ended badly"}),
        (3, {"a rule is refused"}),
        (4, {ActionOutcome.REFUSED, ActionOutcome.FAILED}),
        (5, {"fired", "fired, a warning", "another rule fired"}),
        (6, {"fired", "fired, a warning", "another rule fired", "resolved"}),
    ],
)
def test_what_comes_through_a_pattern(
    heard: list[dict[str, Any]], number: int, through: set[str]
) -> None:
    assert set(heard[number]) == through
    assert len(heard) == len(PATTERNS) + 1 == 8
    public = {id_ for id_, detail in heard[-1].items() if "Changes" not in detail}
    assert public == {*EVENTS, *ActionOutcome}


@pytest.mark.parametrize(
    ("number", "published"),
    [
        (1, ActionOutcome.DONE),
        (2, "another job ended badly"),
        (3, "a rule is refused"),
    ],
)
def test_examples_have_the_fields_that_are_published(
    heard: list[dict[str, Any]], number: int, published: str
) -> None:
    assert shape(EXAMPLES[number]) == shape(heard[-1][published])


def test_the_example_of_a_change_has_its_fields(heard: list[dict[str, Any]]) -> None:
    assert EXAMPLES[0].keys() == heard[-1]["fired"].keys()


def shape(value: Any) -> Any:
    """The fields of objects, in lists the first item's; what they hold does not count."""
    match value:
        case dict():
            return {key: shape(inner) for key, inner in value.items()}
        case [first, *_]:
            return [shape(first)]
    return None
