"""The function ``act`` against AWS in process."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import boto3
import pytest
from tocsin.alerts import CommitConflict, decode_group
from tocsin.events import BadEvent
from tocsin.own_messages import encode_flush

from .conftest import RUN, Context, Deployment, body, cold_start, record


@pytest.fixture
def act(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The function; what it hands on, it gets as its next messages."""
    module = cold_start(monkeypatch, "act")
    handler = module.handler

    def handle(event: dict[str, Any], context: Context) -> dict[str, Any]:
        answer: dict[str, Any] = handler(event, context)
        while bodies := deployment.received(deployment.act):
            for each in bodies:
                if each["tocsin"] == "deliver":
                    handler(record(json.dumps(each)), context)
        return answer

    monkeypatch.setattr(module, "handler", handle)
    return module


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

    return replace(act.ports, effects=replace(act.ports.effects, publish=publish))


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
    act.ports = replace(act.ports, now=lambda: wake_at)
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


def test_what_failed_is_tried_again_after_a_pause(
    act: ModuleType, deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    good = act.ports
    act.ports = broken_topic(act)
    act.handler(record(body(Actions=["email", "metric"])), Context())
    assert metrics(logged(capsys))["ActionsFailed"] == 1.0
    assert metric_sum("TrainingScalar") == 3.1e-9
    [task] = decode_group(deployment.item(f"alerts#{RUN}")["body"]["B"]).tasks
    due_at = deployment.item(f"alerts#{RUN}")["due_at"]["N"]
    assert float(due_at) == pytest.approx(task.retry_at, abs=0.001)
    act.handler(record(encode_flush(RUN)), Context())
    assert "ActionsFailed" not in {k for k, n in metrics(logged(capsys)).items() if n}, "too early"

    act.ports = replace(good, now=lambda: task.retry_at)
    act.handler(record(encode_flush(RUN)), Context())
    assert len(deployment.received(deployment.email)) == 1
    told = [event["detail"] for event in deployment.received(deployment.bus)]
    emails = [detail["Outcome"] for detail in told if detail["Action"] == "email"]
    assert emails == ["failed", "done"]
    assert decode_group(deployment.item(f"alerts#{RUN}")["body"]["B"]).tasks == ()


def test_a_message_that_fails_comes_back_soon(
    act: ModuleType, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []
    monkeypatch.setattr(
        act.queue.client._client,
        "change_message_visibility",
        lambda **asked: waits.append(asked["VisibilityTimeout"]),
    )
    for receives in (1, 2, 5):
        with pytest.raises(BadEvent):
            act.handler(record("{}", receives), Context())
    assert waits == [15, 45, 900]


def test_a_run_that_others_work_on_is_no_error_of_the_function(
    act: ModuleType, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After errors, Lambda gives all runs fewer invocations."""

    def others_were_faster(*_: object) -> None:
        raise CommitConflict(RUN)

    waits: list[int] = []
    monkeypatch.setattr(
        act.queue.client._client,
        "change_message_visibility",
        lambda **asked: waits.append(asked["VisibilityTimeout"]),
    )
    monkeypatch.setattr(type(act.ports.groups), "save", others_were_faster)
    event = record(body())
    answer = act.handler(event, Context())
    (message,) = (each["messageId"] for each in event["Records"])
    assert answer == {"batchItemFailures": [{"itemIdentifier": message}]}
    assert waits == [15]


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
    ports = act.ports
    for port in (ports.lookups.describe_job, ports.effects.publish, ports.put_events):
        assert port.__self__.client.meta.config.retries["mode"] == "standard"
