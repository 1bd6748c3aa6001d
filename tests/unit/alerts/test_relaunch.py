"""A job that is stopped, and started again: in which order, how often, and what is told of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tocsin.actions import ActionOutcome, JobToStop, StopHeld
from tocsin.alerts import Relaunched, parse_message
from tocsin.events import BadEvent, StatusChange

from tests.unit.alerts import world
from tests.unit.alerts.world import RUN, Fake

ROLE = "arn:aws:iam::111122223333:role/training"
ARN = "arn:aws:sagemaker:::training-job/j1"
DEFINITION = {"RoleArn": ROLE, "CheckpointConfig": {"S3Uri": "s3://checkpoints/j1"}}
ASKS: dict[str, Any] = {
    "Actions": ["email", "relaunch", "stop"],
    "LastGood": {"FirstSign": 9, "Checkpoint": "/opt/ml/checkpoints/5", "CheckpointStep": 5},
    "Relaunch": {"Attempts": 1},
    "Severity": "critical",
}


@pytest.fixture
def fake() -> Fake:
    job = JobToStop(ARN, "InProgress", (RUN,), DEFINITION)
    return Fake(job=job, relaunch_roles=frozenset({ROLE}))


def alert(**fields: Any) -> StatusChange:
    return world.alert(**{**ASKS, **fields})


def log(fake: Fake) -> list[tuple[str, str | None]]:
    return [(entry.action, entry.outcome) for entry in fake.group().log if entry.decision == "send"]


def test_the_job_is_stopped_then_started_again_then_people_hear_of_both(fake: Fake) -> None:
    fake.receive(alert())
    assert log(fake) == [("stop", "done"), ("relaunch", "done"), ("email", "done")]
    (plan,) = fake.relaunched
    assert (plan.name, plan.checkpoint_step) == ("j1-r1", 5)
    (mail,) = fake.published
    assert "Relaunch: j1-r1 starts from the checkpoint of step 5" in mail.texts["email"]


def test_two_rules_start_it_once(fake: Fake) -> None:
    fake.receive(alert())
    fake.receive(alert(rule="B"))
    assert {plan.execution for plan in fake.relaunched} == {fake.relaunched[0].execution}


def test_while_it_is_silenced_nothing_is_stopped_or_started(fake: Fake) -> None:
    fake.receive(alert(Silences=[{"Until": "2099-01-01T00:00:00Z"}]))
    assert (fake.stopped, fake.relaunched) == ([], [])


def test_it_waits_for_a_stop_that_the_guard_delays(fake: Fake) -> None:
    fake.guard = StopHeld("the limit is reached", fake.now + 100)
    fake.receive(alert())
    assert (fake.stopped, fake.relaunched) == ([], [])
    fake.guard = None
    fake.pass_time(300)
    assert fake.stopped == ["j1"]
    assert len(fake.relaunched) == 1


def test_it_does_not_wait_for_ever(fake: Fake) -> None:
    fake.guard = StopHeld("the limit is reached", fake.now + 100)
    fake.receive(alert())
    assert fake.job is not None
    fake.job = replace(fake.job, status="Completed")
    fake.pass_time(300)
    assert fake.relaunched == []
    assert [outcome for action, outcome in log(fake) if action == "relaunch"] == ["refused"] * 2
    why = [event.detail for event in fake.events if event.action == "relaunch"]
    assert why[-1] == "j1 is Completed, and this deployment has not stopped it"


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("outcome", [ActionOutcome.DONE, ActionOutcome.FAILED])
def test_the_outcome_is_on_the_bus_and_in_the_log(
    fake: Fake, copies: int, outcome: ActionOutcome
) -> None:
    fake.receive(alert())
    done = Relaunched(RUN, "A", "A-IssuesFound-0", outcome, "started j1-r1")
    fake.receive(*[done] * copies)
    published = [
        (event.outcome, event.reason, event.detail, event.training_job_name)
        for event in fake.events
        if event.action == "relaunch"
    ]
    assert published[1:] == [(outcome, "job_ended", "started j1-r1", "j1")]
    assert log(fake)[3:] == [("relaunch", outcome)]
    fake.pass_time(24 * 3600)
    assert len(fake.relaunched) == 1


def test_the_message_of_the_state_machine() -> None:
    body = (
        b'{"tocsin": "relaunch", "run": "s3://b/r", "rule": "A", "dedup_id": "d", '
        b'"outcome": "refused", "detail": "gone\\u0007"}'
    )
    assert parse_message(body) == Relaunched("s3://b/r", "A", "d", ActionOutcome.REFUSED, "gone")
    with pytest.raises(BadEvent):
        parse_message(body.replace(b"refused", b"anything"))
