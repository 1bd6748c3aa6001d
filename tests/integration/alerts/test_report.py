"""The function ``report``: what it writes into the state bucket, when, and where it is linked."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from types import ModuleType

import boto3
import msgspec
import numpy as np
import pytest
import requests
from tocsin.alerts import AlertPorts, Deliver, Flush, react
from tocsin.aws.connect.act import connect_act
from tocsin.aws.connect.evaluate import connect_evaluate
from tocsin.aws.connect.report import connect_report
from tocsin.aws.dynamodb import Table
from tocsin.aws.reports import Later, S3Reports, pause_after, report_key
from tocsin.aws.s3 import checkpoint_key, trace_key
from tocsin.aws.settings import GROUP_PREFIX, EvaluateSettings, ReportSettings
from tocsin.evaluation import EvaluationPorts, Hint, evaluate
from tocsin.events import ACTION_TAKEN, SOURCE
from tocsin.model import Mode
from tocsin.own_messages import encode_flush
from tocsin.report import Page
from tocsin.tensors import (
    END_MARKER,
    Captured,
    Collection,
    RunWriter,
    machine_run,
    open_storage,
)
from tocsin.watch import to_watch
from tocsin_hooks.machine import Minute, write_minutes

from .conftest import RUN, Context, Deployment, cold_start

NEWS = {"Records": [{"body": encode_flush(RUN), "receiptHandle": "h"}]}
WATCH = {"rules": [{"rule": "ExplodingTensor", "actions": ["email"], "severity": "critical"}]}


@pytest.fixture
def report(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The function, which writes a page as often as it is asked to."""
    monkeypatch.setattr("tocsin.aws.reports.pause_after", lambda took: 0.0)
    return cold_start(monkeypatch, "report")


class Training:
    """A run that ``evaluate`` looks at after each of its steps."""

    def __init__(self, deployment: Deployment) -> None:
        settings = EvaluateSettings("table", "state", deployment.evaluate, "tocsin")
        self.ports: EvaluationPorts = connect_evaluate(settings, to_watch(WATCH))
        self.storage = open_storage(RUN, client=boto3.client("s3"))
        self.writer = RunWriter(self.storage, run_id="r1")
        self.writer.write_collections([Collection("losses", include_regex=("^loss$",))])

    def save(self, step: int, loss: float) -> None:
        key = self.writer.write(step, Mode.TRAIN, step, [Captured("loss", np.float32(loss))])
        self.look(str(key))

    def look(self, *keys: str) -> None:
        evaluate(Hint(RUN, keys), self.ports, owner="me", ends=time.time() + 60)


@pytest.fixture
def training(deployment: Deployment) -> Training:
    return Training(deployment)


def act(ports: AlertPorts) -> None:
    """Decide what to do about the run, and do it."""
    for message in (Flush(RUN), Deliver(RUN)):
        react(message, ports, ends=time.time() + 60)


def page() -> Page:
    answer = boto3.client("s3").get_object(Bucket="state", Key=report_key(RUN, "json"))
    return msgspec.json.decode(answer["Body"].read(), type=Page)


def test_it_shows_the_run_at_its_first_alert_and_at_its_end(
    report: ModuleType, training: Training
) -> None:
    training.save(0, 1.0)
    training.save(1, np.nan)
    report.handler(NEWS, Context())
    first = page()
    training.storage.write(END_MARKER, b"")
    training.look(END_MARKER)
    report.handler(NEWS, Context())

    assert (first.run.state, first.verdict.level, first.run.steps.last) == (
        "running",
        "critical",
        1,
    )
    assert first.verdict.sentence.startswith("Training broke at step 1: ")
    assert [(rule.name, rule.spans) for rule in first.rules] == [
        ("ExplodingTensor", [(0, 1, "h"), (1, 1, "f")])
    ]
    assert [(curve.name, curve.y) for curve in first.losses] == [("loss", [1.0, None])]
    assert page().run.state == "finished"


def test_the_page_and_the_mail_name_the_verdict_on_the_machine(
    report: ModuleType, training: Training, deployment: Deployment
) -> None:
    run = machine_run(RUN)
    slow = Minute(60.0, {}, {"TRAIN": [0.1] * 100, "wait": [0.3] * 100})
    write_minutes(run, [slow] * 6)
    while evaluate(Hint(run), training.ports, owner="me", ends=time.time() + 60).steps:
        pass  # an invocation ends with its share of time
    training.save(0, np.nan)
    report.handler(NEWS, Context())
    act(connect_act(deployment.settings))

    machine = page().machine
    assert machine is not None
    assert machine.rules[0].name == "InputBottleneck"
    assert machine.shares[0].wait == pytest.approx(0.5)
    mails = [mail["Message"] for mail in deployment.received(deployment.email)]
    (mail,) = [text for text in mails if "ExplodingTensor fired" in text]
    assert "The machine at that time:\n  InputBottleneck, warning since" in mail


def test_it_is_the_page_for_a_browser(report: ModuleType, training: Training) -> None:
    training.save(0, np.nan)
    report.handler(NEWS, Context())
    found = boto3.client("s3").get_object(Bucket="state", Key=report_key(RUN))
    html = found["Body"].read().decode()

    assert found["ContentType"] == "text/html; charset=utf-8"
    assert html.startswith("<!doctype html>")
    assert "Training broke at step 0: " in html


def test_a_state_that_is_shown_is_not_shown_again(report: ModuleType, training: Training) -> None:
    training.save(0, np.nan)
    assert report.make(RUN)
    assert not report.make(RUN)


def test_a_page_that_another_wrote_meanwhile_is_made_again(
    report: ModuleType, training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    training.save(0, np.nan)
    save, calls = S3Reports.save, []

    def late(
        self: S3Reports, run: str, page: Page, state: str, version: str | None, took: float
    ) -> bool:
        calls.append(version)
        if len(calls) == 1:
            save(self, run, page, "of an earlier look", None)
        return save(self, run, page, state, version, took)

    monkeypatch.setattr(S3Reports, "save", late)
    assert report.make(RUN)
    assert len(calls) == 2
    assert S3Reports(boto3.client("s3"), "state").shown(RUN).state == "1 running 0"


def test_what_changes_soon_after_a_page_is_shown_by_one_page_later(
    deployment: Deployment, training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = cold_start(monkeypatch, "report")
    training.save(3, np.nan)
    report.handler(NEWS, Context())
    act(connect_act(deployment.settings))
    for _ in range(3):
        report.handler(NEWS, Context())
    assert page().alerts == []
    sqs = boto3.client("sqs")
    found = sqs.get_queue_attributes(
        QueueUrl=deployment.report, AttributeNames=["ApproximateNumberOfMessagesDelayed"]
    )
    assert found["Attributes"]["ApproximateNumberOfMessagesDelayed"] == "1"
    monkeypatch.setattr("tocsin.aws.reports.pause_after", lambda took: 0.0)
    report.handler(NEWS, Context())
    assert [alert.action for alert in page().alerts] == ["email"]


def test_pages_that_take_long_are_written_more_rarely(
    deployment: Deployment, training: Training
) -> None:
    reports, asked = S3Reports(boto3.client("s3"), "state"), list[float]()
    training.save(0, np.nan)
    clock = iter([time.time(), *[time.time() + 20.0] * 9])

    def make(now: Callable[[], float]) -> bool:
        settings = ReportSettings("table", "state", deployment.report)
        later = Later(lambda run, delay: asked.append(delay))
        return connect_report(settings, now=now)(RUN, later=later)

    assert make(lambda: next(clock))
    assert reports.shown(RUN).took == pytest.approx(20.0, abs=0.1)
    assert not make(lambda: reports.shown(RUN).written + 150.0)
    assert asked == [pytest.approx(50.0)]
    assert (pause_after(0.1), pause_after(20.0)) == (5.0, 200.0)


def test_it_lists_the_actions_that_were_taken(
    report: ModuleType, deployment: Deployment, training: Training
) -> None:
    training.save(3, np.nan)
    act(connect_act(deployment.settings))
    report.handler(NEWS, Context())
    (taken,) = page().alerts
    assert (taken.step, taken.rule, taken.action, taken.outcome) == (
        3,
        "ExplodingTensor",
        "email",
        "done",
    )


def test_an_action_alone_makes_the_page_again(
    report: ModuleType, deployment: Deployment, training: Training
) -> None:
    training.save(3, np.nan)
    report.handler(NEWS, Context())
    act(connect_act(deployment.settings))
    taken = {"source": SOURCE, "detail-type": ACTION_TAKEN, "detail": {"Run": RUN}}
    body = json.dumps(taken)
    report.handler({"Records": [{"body": body, "receiptHandle": "h"}]}, Context())

    assert [alert.action for alert in page().alerts] == ["email"]
    assert not report.make(RUN)


def test_a_damaged_group_costs_the_actions_only(
    report: ModuleType, deployment: Deployment, training: Training
) -> None:
    training.save(3, np.nan)
    Table(boto3.client("dynamodb"), "table").save(f"{GROUP_PREFIX}{RUN}", b"rubbish", None)
    assert report.make(RUN)
    assert page().alerts == []


@pytest.mark.parametrize("damage", [False, True])
def test_a_run_that_nobody_has_evaluated_has_no_report(report: ModuleType, damage: bool) -> None:
    s3 = boto3.client("s3")
    if damage:
        s3.put_object(Bucket="state", Key=checkpoint_key(RUN), Body=b"rubbish")
    report.handler(NEWS, Context())
    assert "Contents" not in s3.list_objects_v2(Bucket="state", Prefix="reports/")


def test_a_damaged_trace_costs_the_lanes_only(report: ModuleType, training: Training) -> None:
    training.save(0, np.nan)
    boto3.client("s3").put_object(Bucket="state", Key=trace_key(RUN), Body=b"rubbish")
    assert report.make(RUN)
    assert page().verdict.level == "critical"


def test_it_fails_where_the_run_cannot_be_read(
    report: ModuleType, training: Training, deployment: Deployment
) -> None:
    training.save(0, np.nan)
    s3 = boto3.client("s3")
    for item in s3.list_objects_v2(Bucket="captures")["Contents"]:
        s3.delete_object(Bucket="captures", Key=item["Key"])
    s3.delete_bucket(Bucket="captures")
    record = {"attributes": {"ApproximateReceiveCount": "1"}, **NEWS["Records"][0]}
    with pytest.raises(Exception, match="captures"):
        report.handler({"Records": [record]}, Context())


def test_the_mail_links_to_it_before_it_is_there(
    deployment: Deployment, training: Training
) -> None:
    training.save(0, np.nan)
    ports = connect_act(deployment.settings)
    act(ports)
    (mail,) = [message["Message"] for message in deployment.received(deployment.email)]
    key = report_key(RUN)
    (link,) = [line.strip() for line in mail.splitlines() if f"/state/{key}?X-Amz-" in line]

    assert "X-Amz-Expires=43200" in link
    assert f"/s3/object/state?region=us-east-1&prefix={key}" in mail
    boto3.client("s3").put_object(Bucket="state", Key=key, Body=b"<!doctype html>")
    assert requests.get(link, timeout=5).text == "<!doctype html>"
