"""The function ``patrol`` against AWS in process."""

from __future__ import annotations

import time

import boto3
import pytest
from botocore.stub import Stubber
from tocsin.alerts import AlertGroup, Flush, parse_message
from tocsin.aws.dynamodb import Table
from tocsin.aws.groups import DynamoGroups
from tocsin.aws.settings import DUE_SHARDS
from tocsin.aws.sqs import Queue, SqsHints, SqsTimer
from tocsin.own_messages import encode_flush
from tocsin.patrol import HintsLost

from .conftest import Context, Deployment, cold_start


def put_run(run: str, due_at: float | None) -> None:
    due = {} if due_at is None else {"due_shard": {"S": "0"}, "due_at": {"N": str(due_at)}}
    boto3.client("dynamodb").put_item(
        TableName="table", Item={"pk": {"S": f"run#{run}"}, "hints": {"N": "3"}, **due}
    )


def put_group(run: str, due_at: float | None) -> None:
    groups = DynamoGroups(Table(boto3.client("dynamodb"), "table"), time.time)
    groups.save(AlertGroup(run, wake_at=due_at), None)


def test_patrol_sends_for_what_is_due(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    overdue = [f"s3://captures/jobs/{number:02d}\uffff" for number in range(23)]
    for number, run in enumerate(overdue):
        put_run(run, now - 100 + number)
        put_group(run, now - 100 + number)
    for put in (put_run, put_group):
        put("s3://captures/later", now + 3600)
        put("s3://captures/never", None)

    cold_start(monkeypatch, "patrol").handler({}, Context(function_name="patrol"))

    hints = deployment.received(deployment.evaluate)
    assert sorted(hint["run"] for hint in hints) == overdue
    for hint in hints:
        assert (hint["tocsin"], hint["why"]) == ("hint", "patrol")
        assert now <= hint["tick"] <= time.time()
    flushes = deployment.received(deployment.act)
    assert sorted(flush["run"] for flush in flushes) == overdue
    assert {flush["tocsin"] for flush in flushes} == {"flush"}


def test_every_shard_is_looked_at_and_items_of_earlier_versions_too(
    deployment: Deployment,
) -> None:
    table, now = Table(boto3.client("dynamodb"), "table"), time.time()
    old, new = [f"s3://captures/old/{n}" for n in range(3)], []
    for number, run in enumerate(old):
        put_run(run, now - 200 + number)
    for number in range(40):
        run = f"s3://captures/{number}"
        new.append(run)
        put_group(run, now - 100 + number)
    items = boto3.client("dynamodb").scan(TableName="table")["Items"]
    shards = {item["due_shard"]["S"] for item in items}
    assert len(shards) > 8
    assert shards <= {str(shard) for shard in range(DUE_SHARDS)}
    assert list(table.due(now)) == [*(f"run#{run}" for run in old), *(f"alerts#{r}" for r in new)]


def test_patrol_with_nothing_due_sends_nothing(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold_start(monkeypatch, "patrol").handler({}, Context(function_name="patrol"))
    assert deployment.received(deployment.evaluate) == []
    assert deployment.received(deployment.act) == []


@pytest.mark.parametrize("kind", ["hints", "flushes"])
def test_a_message_that_the_queue_refuses_is_no_success(deployment: Deployment, kind: str) -> None:
    client = boto3.client("sqs")
    answer = {
        "Successful": [{"Id": "0", "MessageId": "m", "MD5OfMessageBody": "0" * 32}],
        "Failed": [{"Id": "1", "SenderFault": False, "Code": "InternalError"}],
    }
    queue = Queue(client, "https://sqs/queue")
    send = SqsHints(queue).send_ticks if kind == "hints" else SqsTimer(queue).flush_all
    with Stubber(client) as stubber:
        stubber.add_response("send_message_batch", answer)
        expected = "1 of 2 messages, the first for s3://captures/b: InternalError"
        with pytest.raises(HintsLost, match=expected):
            send(["s3://captures/a", "s3://captures/b"], 1.0)


def test_a_flush_names_its_run_whatever_that_is_called() -> None:
    run = "s3://captures/\u5c64\uffff"
    assert encode_flush(run).isascii()
    assert parse_message(encode_flush(run)) == Flush(run)
