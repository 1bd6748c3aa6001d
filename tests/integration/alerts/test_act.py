"""The function ``act`` against AWS in process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import boto3
import pytest
from tocsin.alerts import TryAgain, decode_group, encode_flush, encode_retry
from tocsin.events import BadEvent

from .conftest import RUN, Context, Deployment, body, cold_start, record


@pytest.fixture
def act(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return cold_start(monkeypatch, "act")


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


def logged(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def metrics(lines: list[dict[str, Any]]) -> dict[str, float]:
    """The sums of what was put by embedded metric format; ``AlertsSent fired`` by reason."""
    sums: dict[str, float] = {}
    for line in lines:
        for directive in line.get("_aws", {}).get("CloudWatchMetrics", ()):
            labels = [line[name] for name in directive["Dimensions"][0]]
            for metric in directive["Metrics"]:
                key = " ".join([metric["Name"], *labels])
                sums[key] = sums.get(key, 0.0) + sum(line[metric["Name"]])
    return sums


def broken_topic(act: ModuleType) -> Any:
    def publish(message: object) -> None:
        raise TimeoutError("Rate exceeded")

    return replace(act.world, ports=replace(act.world.ports, publish=publish))


def queued_retry(deployment: Deployment, run: str, task: str) -> Mapping[str, Any]:
    """A retry as it really lies in the queue, so that its visibility can be changed."""
    deployment.sqs.send_message(QueueUrl=deployment.act, MessageBody=encode_retry(run, task))
    [message] = receive(deployment)
    return {"Records": [lambda_record(message)]}


def receive(deployment: Deployment) -> list[dict[str, Any]]:
    answer = deployment.sqs.receive_message(
        QueueUrl=deployment.act, AttributeNames=["ApproximateReceiveCount"]
    )
    found: list[dict[str, Any]] = answer.get("Messages", [])
    return found


def lambda_record(message: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message["Attributes"],
    }


def test_takes_all_actions_and_tells_of_them(
    act: ModuleType,
    deployment: Deployment,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    act.handler(record(body()), Context())

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
    assert {(detail["Action"], detail["Outcome"]) for detail in told} == {
        ("stop", "done"),
        ("email", "done"),
        ("sms", "done"),
        ("metric", "done"),
    }
    assert told[0]["Action"] == "stop"
    assert {detail["DedupId"] for detail in told} == {"d1"}
    assert metrics(logged(capsys)) == {
        "AlertsSent fired": 2.0,
        "AlertsSent first_notification": 2.0,
        "ActionsFailed": 0.0,
        "StopGuardTripped": 0.0,
    }
    assert "send email for VanishingGradient: first_notification" in caplog.messages


def test_what_is_not_critical_waits_for_its_group(
    act: ModuleType, deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    act.handler(record(body(Severity="warning", Actions=["email"])), Context())
    assert deployment.received(deployment.email) == []
    assert metrics(logged(capsys))["AlertsHeld group_wait"] == 1.0
    item = deployment.item(f"alerts#{RUN}")
    wake_at = decode_group(item["body"]["B"]).wake_at
    assert wake_at is not None
    assert float(item["due_at"]["N"]) == pytest.approx(wake_at, abs=0.001)
    act.world = replace(act.world, now=lambda: wake_at)
    act.handler(record(encode_flush(RUN)), Context())
    [email] = deployment.received(deployment.email)
    assert email["Subject"] == "Tocsin warning: VanishingGradient in j1 at step 120"


def test_a_second_copy_does_nothing(act: ModuleType, deployment: Deployment) -> None:
    act.handler(record(body()), Context())
    asked, item = stop_request(), deployment.item(f"alerts#{RUN}")
    for queue in (deployment.email, deployment.sms, deployment.bus):
        assert deployment.received(queue)
    act.handler(record(body()), Context())
    for queue in (deployment.email, deployment.sms, deployment.bus):
        assert deployment.received(queue) == []
    assert (stop_request(), deployment.item(f"alerts#{RUN}")) == (asked, item)
    assert metric_sum("TrainingScalar") == 3.1e-9


def test_what_failed_is_tried_again_by_a_message_of_its_own(
    act: ModuleType, deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    good = act.world
    act.world = broken_topic(act)
    act.handler(record(body(Actions=["email", "metric"])), Context())
    assert metrics(logged(capsys))["ActionsFailed"] == 1.0
    assert metric_sum("TrainingScalar") == 3.1e-9
    [task] = decode_group(deployment.item(f"alerts#{RUN}")["body"]["B"]).tasks
    with pytest.raises(TryAgain, match="Rate exceeded"):
        act.handler(queued_retry(deployment, RUN, task.id), Context())
    assert metrics(logged(capsys))["ActionsFailed"] == 1.0

    act.world = good
    act.handler(record(encode_retry(RUN, task.id)), Context())
    assert len(deployment.received(deployment.email)) == 1
    told = [event["detail"] for event in deployment.received(deployment.bus)]
    emails = [detail["Outcome"] for detail in told if detail["Action"] == "email"]
    assert emails == ["failed", "done"]
    assert decode_group(deployment.item(f"alerts#{RUN}")["body"]["B"]).tasks == ()


def test_what_never_works_ends_among_the_dead_letters(
    act: ModuleType, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    act.world = broken_topic(act)
    act.handler(record(body(Actions=["email"])), Context())
    [task] = decode_group(deployment.item(f"alerts#{RUN}")["body"]["B"]).tasks
    deployment.sqs.purge_queue(QueueUrl=deployment.act)
    deployment.sqs.send_message(QueueUrl=deployment.act, MessageBody=encode_retry(RUN, task.id))
    waits: list[int] = []

    def at_once(**asked: Any) -> None:
        waits.append(asked["VisibilityTimeout"])
        boto3.client("sqs").change_message_visibility(**{**asked, "VisibilityTimeout": 0})

    monkeypatch.setattr(act.back_off.sqs, "change_message_visibility", at_once)
    while messages := receive(deployment):
        with pytest.raises(TryAgain):
            act.handler({"Records": [lambda_record(messages[0])]}, Context())
    assert waits == [15, 45, 135, 405, 900]
    [dead] = deployment.received(deployment.dead)
    assert dead == {"tocsin": "retry", "run": RUN, "task": task.id}
    told = [event["detail"]["Outcome"] for event in deployment.received(deployment.bus)]
    assert told == ["failed"]
    entry = decode_group(deployment.item(f"alerts#{RUN}")["body"]["B"]).log[-1]
    assert (entry.action, entry.outcome) == ("email", "failed")


def test_somebody_else_at_a_task_sends_the_message_back(
    act: ModuleType, deployment: Deployment
) -> None:
    act.world = broken_topic(act)
    act.handler(record(body(Actions=["email"])), Context())
    group = decode_group(deployment.item(f"alerts#{RUN}")["body"]["B"])
    [task] = group.tasks
    later = act.world.now() + 3600
    taken = replace(group, tasks=(replace(task, claim="other", claimed_until=later),))
    stored = act.world.groups.load(RUN)
    act.world.groups.save(taken, stored.version)
    with pytest.raises(TryAgain, match="is being worked on"):
        act.handler(queued_retry(deployment, RUN, task.id), Context())


def test_not_finite_is_counted_not_published(act: ModuleType) -> None:
    act.handler(record(body(Actions=["metric:loss"], Evidence={"loss": "NaN"})), Context())
    assert (metric_sum("lossNonFinite"), metric_sum("loss")) == (1.0, 0.0)


def test_what_never_fired_leaves_no_trace(act: ModuleType, deployment: Deployment) -> None:
    act.handler(record(body(RuleEvaluationStatus="NoIssuesFound")), Context())
    assert deployment.item(f"alerts#{RUN}") == {}
    assert deployment.received(deployment.bus) == []


def test_a_message_that_is_none_of_ours_comes_back(act: ModuleType) -> None:
    with pytest.raises(BadEvent, match=r"\$\.Run|\$\.detail\.Run"):
        act.handler(record(body(Run="/var/run")), Context())


@pytest.mark.parametrize(
    ("recipient", "outcome", "why"),
    [
        ("email:a.b@example.org", "done", "a.b@example.org"),
        ("email:someone@example.net", "refused", "allowedRecipients"),
        ("email:first.last@", "refused", "first.last@"),
        ("webhook:ops", "refused", "webhooks"),
        ("fax", "refused", "unknown action"),
    ],
)
def test_who_may_be_told(
    act: ModuleType, deployment: Deployment, recipient: str, outcome: str, why: str
) -> None:
    act.handler(record(body(Actions=[recipient, "email"])), Context())
    told = [event["detail"] for event in deployment.received(deployment.bus)]
    [detail] = [each for each in told if (each["Target"] or each["Action"] == "fax")]
    assert detail["Outcome"] == outcome
    assert why in detail["Detail"]
    assert len(deployment.received(deployment.email)) == 1


def test_throttling_is_retried_before_it_is_a_failure(act: ModuleType) -> None:
    ports = act.world.ports
    for port in (ports.describe_job, ports.publish, ports.put_event):
        assert port.__self__.client.meta.config.retries["mode"] == "standard"
