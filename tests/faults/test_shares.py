"""Limits hold for a run, for its owner and for the deployment: nobody uses up what is others'."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import boto3
import pytest
from tocsin.alerts import RunCaps
from tocsin.events import StatusChange

from tests.faults.room import CAPTURES, START, Act, Deployed, Deployment, Room, SageMaker, alert

MINUTE = 60.0
PREFIX = "runs/"


def fired(run: str, *actions: str, firing: bool = True, number: int = 1) -> StatusChange:
    job = run.rpartition("/")[2]
    fields = {"Run": f"{CAPTURES}{run}", "TrainingJobName": job, "Sequence": number}
    rule = "LossDiverging"
    return alert(rule, firing=firing, Actions=[*actions], Severity="critical", **fields)


def flap(act: Deployed, run: str, *actions: str, times: int) -> None:
    """A rule of the run fires and resolves as often as it can notify."""
    for number in range(1, times + 1):
        act.receive(fired(run, *actions, firing=number % 2 == 1, number=number))
        act.pass_time(6 * MINUTE)


def outcomes(act: Deployed, runs: Iterable[str], action: str) -> list[str]:
    return [each for run in runs for each in act.outcomes(f"{CAPTURES}{run}", action)]


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("known", [True, False], ids=["job", "hook"])
@pytest.mark.parametrize("folder", ["", "deep/in/it/"])
def test_stops_of_one_owner_do_not_hold_back_another(known: bool, folder: str) -> None:
    runs = [f"{PREFIX}evil/{folder}x{number}" for number in range(8)]
    victim = f"{PREFIX}vision/resnet"
    urls = [f"{CAPTURES}{run}" for run in (*runs, victim)] if known else []
    sagemaker = SageMaker(**{url.rpartition("/")[2]: SageMaker.job(url) for url in urls})
    act = Deployed(sagemaker, TOCSIN_STOP_GUARD="3/10m", TOCSIN_CAPTURE_PREFIX=PREFIX)
    for run in runs:
        act.receive(fired(run, "stop"))
    act.receive(fired(victim, "stop"))
    assert outcomes(act, runs, "stop").count("done") == 3
    assert outcomes(act, [victim], "stop") == ["done"]


@pytest.mark.usefixtures("aws")
def test_the_runs_of_one_owner_leave_sms_to_others() -> None:
    act = Deployed(
        TOCSIN_PHONES="+15551230000", TOCSIN_SMS_MONTHLY_CAP="12", TOCSIN_CAPTURE_PREFIX=PREFIX
    )
    runs, victim = [f"{PREFIX}evil/x{number}" for number in range(4)], f"{PREFIX}prod/llm"
    for run in runs:
        flap(act, run, "sms", times=5)
    sent = outcomes(act, runs, "sms")
    assert (sent.count("done"), {*sent}) == (6, {"done", "refused"})
    act.receive(fired(victim, "sms"))
    assert outcomes(act, [victim], "sms") == ["done"]


@pytest.mark.usefixtures("aws")
def test_the_runs_of_one_owner_leave_emails_to_others() -> None:
    act = Deployed(TOCSIN_EMAIL_RUN_CAP="1", TOCSIN_CAPTURE_PREFIX=PREFIX)
    runs, victim = [f"{PREFIX}evil/x{number}" for number in range(12)], f"{PREFIX}prod/llm"
    for run in (*runs, victim):
        act.receive(fired(run, "email"))
    assert outcomes(act, runs, "email") == ["done"] * 10 + ["refused"] * 2
    assert outcomes(act, [victim], "email") == ["done"]


@pytest.mark.usefixtures("aws")
def test_a_run_subscribes_a_limited_number_of_addresses() -> None:
    act = Deployed(TOCSIN_CAPTURE_PREFIX=PREFIX)
    for number in range(4):
        run = f"{PREFIX}evil/x{number}"
        act.receive(fired(run, *(f"email:a{number}.{at}@example.org" for at in range(20))))
    topic = act.stack.topic
    pages = (
        boto3.client("sns").get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic)
    )
    endpoints = [each["Endpoint"] for page in pages for each in page["Subscriptions"]]
    assert sum(each.endswith("@example.org") for each in endpoints) == 50


def test_a_run_posts_a_limited_number_of_events() -> None:
    act = Act(caps=RunCaps(posts=5))
    policy = {"GroupWait": 0.0, "GroupInterval": 10.0, "RepeatInterval": 300.0}
    policy |= {"SendResolved": True, "Summary": []}
    for number in range(1, 21):
        fields = {"Sequence": number, "Actions": ["webhook:ops"], "Notify": policy}
        act.receive(alert("LossSpike", firing=number % 2 == 1, **fields))
        act.pass_time(10)
    assert len(act.posted) == 5
    assert "webhookRunCap" in act.events[-1].detail


def test_posts_that_failed_do_not_count() -> None:
    act = Act(caps=RunCaps(posts=1))
    act.broken["post"] = TimeoutError()
    act.receive(alert("LossSpike", Actions=["webhook:ops"], Severity="critical"))
    act.pass_time(30 * MINUTE)
    act.broken.clear()
    act.pass_time(30 * MINUTE)
    assert len(act.posted) == 1


@pytest.mark.usefixtures("aws")
def test_a_run_makes_a_limited_number_of_issue_metrics(tmp_path: Path) -> None:
    Deployment(watched=False)
    room = Room(tmp_path, {}, now=START + 20_000)
    metrics = room.with_metrics(boto3.client("dynamodb"), 10)
    job = room.job("evil/train")
    for edit in range(3):
        rule = {"rule": "VanishingGradient", "for_steps": 1, "actions": []}
        job.watch({"rules": [{**rule, "name": f"n{edit}-{number}"} for number in range(8)]})
        key = job.save_at(room.clock.now, edit, edit - 1 if edit else None, gradient=1e-12)
        room.look(job, "watch.json")
        room.look(job, key)
        room.wait(10)
    assert len(room.changes()) >= 3 * 8
    assert ("IssuesFound",) in metrics.billed, "the alarm's own is always there"
    assert len(metrics.billed) == 1 + 2 * 10  # each rule's by itself, and with the job
