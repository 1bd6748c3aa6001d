"""A rule that fires and resolves all the time, and what one run may use of what all share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tocsin.actions import Effects
from tocsin.alerts import RunCaps
from tocsin.events import StatusChange

from tests.faults.room import CAPTURES, Act, Deployed, SageMaker, alert, throttled

MINUTE = 60.0
GROUP_INTERVAL = 5 * MINUTE  # between two messages of a run by one action
NOISY = ("x0", "x1", "x2")  # as many jobs as the stop guard lets through
MOST_METRICS = 100  # that one run may make: each costs 0.30 $ a month


@pytest.mark.parametrize("severity", ["warning", "critical"])
def test_a_flapping_rule_is_a_message_every_five_minutes(severity: str) -> None:
    act, every, minutes = Act(), 10.0, 10
    fields = {"Severity": severity, "Actions": ["email", "sms"]}
    for number in range(int(minutes * MINUTE / every)):
        act.receive(alert("LossSpike", firing=number % 2 == 0, Sequence=number + 1, **fields))
        act.pass_time(every)
    most = 1 + minutes * MINUTE / GROUP_INTERVAL
    sent = [message.attributes["action"] for message in act.published]
    emails, texts = sent.count("email"), sent.count("sms")
    assert 0 < emails <= most
    assert 0 < texts <= most


@pytest.mark.usefixtures("aws")
def test_one_run_leaves_sms_to_the_others() -> None:
    cap = 8
    act = Deployed(TOCSIN_PHONES="+15551230000", TOCSIN_SMS_MONTHLY_CAP=str(cap))
    trial, production = f"{CAPTURES}intern/try-1", f"{CAPTURES}prod/llm"
    fields = {"Actions": ["sms"], "Severity": "critical"}
    for number in range(cap + 4):
        firing = number % 2 == 0
        fields |= {"Run": trial, "TrainingJobName": "try-1", "Sequence": number + 1}
        act.receive(alert("LossSpike", firing=firing, **fields))
        act.pass_time(3600)
    assert act.outcomes(trial, "sms").count("done") >= 2
    fields |= {"Run": production, "TrainingJobName": "llm", "Sequence": 1}
    act.receive(alert("ExplodingTensor", **fields))
    assert act.outcomes(production, "sms") == ["done"]


def test_one_run_makes_a_limited_number_of_metrics() -> None:
    act = Act()
    for number in range(6):
        metrics = [f"metric:of_rule_{number}.{at}" for at in range(19)]
        fields = {"Sequence": number + 1, "Actions": metrics, "Evidence": {"loss": 1.0}}
        act.receive(alert(f"rule-{number}", **fields))
    assert act.metric_names
    assert len(act.metric_names) <= MOST_METRICS


def stop(folder: str, job: str) -> StatusChange:
    fields = {"Run": f"{CAPTURES}{folder}/{job}", "TrainingJobName": job, "Sequence": 1}
    return alert("LossDiverging", Actions=["stop"], Severity="critical", **fields)


def jobs(folder: str, *names: str) -> dict[str, Any]:
    return {name: SageMaker.job(f"{CAPTURES}{folder}/{name}") for name in names}


@pytest.mark.usefixtures("aws")
def test_stop_files_do_not_count_against_stops_of_sagemaker() -> None:
    act = Deployed(SageMaker(**jobs("team", "victim")), TOCSIN_STOP_GUARD="3/10m")
    for name in NOISY:
        act.receive(stop("nobody", name))
        assert act.outcomes(f"{CAPTURES}nobody/{name}", "stop") == ["done"]
    act.receive(stop("team", "victim"))
    assert act.sagemaker.stopped == ["victim"]


@pytest.mark.usefixtures("aws")
def test_the_stop_guard_counts_each_owner_by_itself() -> None:
    known = {**jobs("noisy", *NOISY), **jobs("team", "victim")}
    act = Deployed(SageMaker(**known), TOCSIN_STOP_GUARD="3/10m")
    for name in NOISY:
        act.receive(stop("noisy", name))
    act.receive(stop("team", "victim"))
    assert act.sagemaker.stopped == [*NOISY, "victim"]


@pytest.mark.usefixtures("aws")
def test_a_stop_that_the_guard_holds_back_is_done_when_its_window_has_passed() -> None:
    act = Deployed(SageMaker(**jobs("team", *NOISY, "next")), TOCSIN_STOP_GUARD="3/10m")
    for name in (*NOISY, "next"):
        act.receive(stop("team", name))
    assert act.sagemaker.stopped == [*NOISY]
    for _ in range(3):
        act.pass_time(4 * MINUTE)
    assert act.sagemaker.stopped == [*NOISY, "next"]


def test_a_run_that_has_used_up_its_emails_says_so() -> None:
    act = Act(caps=RunCaps(emails=2))
    for number in range(6):
        act.receive(alert("LossSpike", firing=number % 2 == 0, Sequence=number + 1))
        act.pass_time(6 * MINUTE)
    assert len(act.subjects) == 2
    refused = next(event for event in act.events if event.outcome == "refused")
    assert "emailRunCap" in refused.detail
    assert refused.detail in [line.detail for line in act.group().log]


class Texting(Act):
    """Counts the SMS of the month as the deployment does."""

    counted = 0

    @property
    def effects(self) -> Effects:
        return replace(super().effects, reserve=self._add, release=self._remove)

    def _add(self, kind: str, run: str, count: int) -> None:
        self.counted += count

    def _remove(self, kind: str, run: str, count: int) -> None:
        self.counted -= count


def test_a_text_that_sns_does_not_take_counts_once_and_is_given_back() -> None:
    act = Texting()
    act.broken["publish"] = throttled("Publish")
    never = {"RepeatInterval": 365 * 86400.0}
    act.receive(alert("LossSpike", Actions=["sms"], Severity="critical", Notify=never))
    act.pass_time(3600)
    assert (act.published, act.counted) == ([], 1)
    act.pass_time(30 * 3600)
    assert (act.group().tasks, act.counted) == ((), 0)
    assert set(act.group().spent.values()) <= {0}


def test_a_text_that_sns_takes_late_counts_once() -> None:
    act = Texting()
    act.broken["publish"] = throttled("Publish")
    act.receive(alert("LossSpike", Actions=["sms"], Severity="critical"))
    act.pass_time(3600)
    act.broken.clear()
    act.pass_time(3600)
    assert (len(act.published), act.counted) == (1, 1)
    assert set(act.group().spent.values()) == {1}
