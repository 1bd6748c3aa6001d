"""Alerts on the deployed stack: each recipient gets each message once, or a reason."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tocsin.aws.dynamodb import Table
from tocsin.aws.limits import StopGuard
from tocsin.aws.silences import DynamoSilences
from tocsin.parsing import StopLimit
from tocsin.tensors import STOP, NotFound
from tocsin.watch import Silence

from local.environment import inherited
from local.stack import LocalAws
from tests.e2e.alerts import NAN, Alerting, alerting

pytestmark = pytest.mark.e2e

BAD = {"rule": "ExplodingTensor", "actions": ["stop", "email"], "severity": "critical"}


def outcomes(run: Alerting) -> Counter[tuple[str, str]]:
    return Counter(
        (entry.action, str(entry.outcome)) for entry in run.group().log if entry.decision == "send"
    )


@pytest.fixture
def silence(aws: LocalAws) -> Iterator[Any]:
    """Silences a job for an hour; lifted at the end."""
    table = Table(aws.client("dynamodb"), aws.outputs["StateTableName"])
    silences = DynamoSilences(table, time.time)
    added = []

    def add(job: str) -> None:
        until = datetime.now(UTC) + timedelta(hours=1)
        added.append(silences.add(Silence(until, job=job, author="ana", reason="known")))

    yield add
    for each in added:
        silences.expire(each.id, time.time())


def test_a_silenced_run_disturbs_nobody_and_its_status_says_so(aws: LocalAws, silence: Any) -> None:
    run = alerting(aws, rules=[BAD])
    silence(run.job)
    run.write([1.0, NAN])
    group = run.until(lambda group: group.ended and len(group.held) == 2)
    assert (group.tasks, run.mails()) == ((), [])
    with pytest.raises(NotFound):
        run.storage.head(STOP)
    command = [sys.executable, "-m", "tocsin", "status", run.storage.url, "--json"]
    environment = inherited() | dict(aws.environment)
    told = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert told.returncode == 1, "what the rule has found is not silenced"
    document = json.loads(told.stdout)
    (silenced,) = document["silences"]
    assert (silenced["job"], silenced["author"]) == (run.job, "ana")
    assert {(line["action"], line["reason"]) for line in document["alerts"]} == {
        ("stop", "silenced"),
        ("email", "silenced"),
    }
    assert all("by ana" in line["detail"] for line in document["alerts"])


def test_each_gets_its_own_once_and_who_may_not_is_refused_aloud(aws: LocalAws) -> None:
    topic, sns = aws.outputs["AlertTopicArn"], aws.client("sns")
    actions = ["email:a.b@c-d.example.org", "email:else@elsewhere.example.net"]
    for _ in range(2):
        run = alerting(aws, rules=[{**BAD, "actions": actions}])
        run.write([1.0, NAN])
        run.settled(2)
        assert outcomes(run) == {(actions[0], "done"): 1, (actions[1], "refused"): 1}
        (mail,) = run.mails()
        assert mail.attributes["action"] == actions[0]
    pages = sns.get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic)
    found = [each for page in pages for each in page["Subscriptions"]]
    endpoints = [each["Endpoint"] for each in found]
    assert endpoints.count("a.b@c-d.example.org") == 1
    assert "else@elsewhere.example.net" not in endpoints
    (own,) = (each for each in found if each["Endpoint"] == "a.b@c-d.example.org")
    policy = sns.get_subscription_attributes(SubscriptionArn=own["SubscriptionArn"])
    assert json.loads(policy["Attributes"]["FilterPolicy"]) == {"action": [actions[0]]}


@pytest.fixture
def guarded(aws: LocalAws) -> Iterator[None]:
    """As many jobs as may be stopped have just been stopped."""
    dynamodb, table = aws.client("dynamodb"), aws.outputs["StateTableName"]
    guard = StopGuard(
        Table(dynamodb, table), StopLimit(50, 600.0), StopLimit(250, 600.0), time.time
    )
    for number in range(50):
        guard.may(f"s3://captures/jobs/{number}", "hook")
    yield
    dynamodb.delete_item(TableName=table, Key={"pk": {"S": "stop-guard-files"}})


def test_the_stop_guard_trips_and_tells_people_instead(aws: LocalAws, guarded: None) -> None:
    run = alerting(aws, rules=[{**BAD, "actions": ["stop"]}])
    run.write([1.0, NAN])
    expected = {("stop", "refused"): 1, ("email", "done"): 1}  # the stop waits for room
    run.until(lambda _: outcomes(run) == expected)
    with pytest.raises(NotFound):
        run.storage.head(STOP)
    (mail,) = run.mails()
    assert "50" in mail.body
