"""E-mail and SMS through the topic."""

from __future__ import annotations

from typing import Any

import pytest
from tocsin.actions import ActionOutcome, Result, take
from tocsin.actions.topic import attributes, email, sms

ADDRESS = "first.last@c-d.example.co.uk"
PHONE = "+15551230000"


def test_publishes_for_every_protocol(ask: Any, world: Any) -> None:
    stopped = Result(ActionOutcome.DONE, "asked SageMaker to stop training job j1")
    result = email(ask("email", stop=stopped), *world.ports)
    assert result == Result(ActionOutcome.DONE, "published to the topic for email subscribers")
    [message] = world.messages()
    assert message.subject.endswith("; stop requested")
    assert message.texts["default"] == message.texts["email"]
    assert "asked SageMaker to stop training job j1" in message.texts["email"]
    assert len(message.texts["sms"]) < 160


@pytest.mark.parametrize(("action", "option"), [("email", "emails"), ("sms", "phones")])
def test_what_nobody_gets_is_refused(ask: Any, make_world: Any, action: str, option: str) -> None:
    world = make_world(reaches=False)
    result = take(ask(action), *world.ports)
    assert result.outcome is ActionOutcome.REFUSED
    assert f"nobody has confirmed a subscription of the deployment's topic for {action}" in (
        result.detail
    )
    assert f"add recipients to the option {option}" in result.detail
    assert world.did == []


def test_one_address_gets_its_own(ask: Any, world: Any) -> None:
    result = email(ask(f"email:{ADDRESS}"), *world.ports)
    assert result == Result(ActionOutcome.DONE, f"published to the topic for {ADDRESS}")
    assert world.did[0] == ("subscribe", ("s3://captures/jobs/j1/debug-output", "email", ADDRESS))
    assert world.messages()[0].attributes["action"] == f"email:{ADDRESS}"


def test_a_refused_recipient_is_not_even_subscribed(ask: Any, make_world: Any) -> None:
    world = make_world(refused={ADDRESS: "not on the allow-list"})
    result = email(ask(f"email:{ADDRESS}"), *world.ports)
    assert result == Result(ActionOutcome.REFUSED, "not on the allow-list")
    assert world.did == []


def test_who_has_not_confirmed_gets_nothing(ask: Any, make_world: Any) -> None:
    world = make_world(unconfirmed={ADDRESS: f"{ADDRESS} has not confirmed yet"})
    result = email(ask(f"email:{ADDRESS}"), *world.ports)
    assert result == Result(ActionOutcome.REFUSED, f"{ADDRESS} has not confirmed yet")
    assert world.messages() == []


def test_an_empty_recipient_is_not_everybody(ask: Any, make_world: Any) -> None:
    world = make_world(refused={"": "names nobody"})
    assert email(ask("email:"), *world.ports) == Result(ActionOutcome.REFUSED, "names nobody")


def test_an_email_says_how_a_job_ended(ask: Any, world: Any, make_summary: Any) -> None:
    result = email(ask("email", summary=make_summary()), *world.ports)
    assert result.outcome is ActionOutcome.DONE
    [message] = world.messages()
    assert message.subject == "Tocsin summary: j1: IssuesFound (Overfit)"
    assert message.texts["email"].startswith("Training job j1 has ended: IssuesFound.")


def test_trouble_is_raised(ask: Any, make_world: Any) -> None:
    with pytest.raises(TimeoutError):
        email(ask("email"), *make_world(broken={"publish": TimeoutError()}).ports)


def test_publishes_one_short_line(ask: Any, world: Any) -> None:
    refused = Result(ActionOutcome.REFUSED, "another job's name")
    result = sms(ask("sms", stop=refused), *world.ports)
    assert result == Result(ActionOutcome.DONE, "published to the topic for sms subscribers")
    [message] = world.messages()
    assert message.subject is None
    assert message.texts["default"] == message.texts["sms"]
    assert "Stop refused." in message.texts["sms"]
    assert message.attributes["action"] == "sms"


@pytest.mark.parametrize(
    ("action", "broadcast", "texts"),
    [
        ("sms", {"sms": 3}, 3),
        ("sms", {}, 1),
        ("sms", {"sms": 0}, 1),
        (f"sms:{PHONE}", {"sms": 3}, 1),
    ],
)
def test_counts_what_it_sends(
    ask: Any, make_world: Any, action: str, broadcast: dict[str, int], texts: int
) -> None:
    world = make_world(broadcast=broadcast)
    request = ask(action)
    sms(request, *world.ports)
    expected = [("sms", request.run, texts)]
    assert [what for name, what in world.did if name == "reserve"] == expected


def test_a_cap_that_is_used_up_refuses(ask: Any, make_world: Any) -> None:
    world = make_world(cap="100 of 100 SMS were sent this month")
    result = sms(ask("sms"), *world.ports)
    assert result == Result(ActionOutcome.REFUSED, "100 of 100 SMS were sent this month")
    assert world.messages() == []


def test_one_phone_gets_its_own(ask: Any, world: Any) -> None:
    result = sms(ask(f"sms:{PHONE}"), *world.ports)
    assert result == Result(ActionOutcome.DONE, f"sent to {PHONE}")
    assert [message.phone for message in world.messages()] == [PHONE]
    assert "subscribe" not in [name for name, _ in world.did]


def test_a_refused_phone_is_not_counted(ask: Any, make_world: Any) -> None:
    world = make_world(refused={PHONE: "no"})
    assert sms(ask(f"sms:{PHONE}"), *world.ports) == Result(ActionOutcome.REFUSED, "no")
    assert world.did == []


def test_attributes_of_an_alert(ask: Any) -> None:
    firing = [{"Severity": "info"}, {"Severity": "critical", "RuleConfigurationName": "b"}]
    assert attributes(ask("email:a@example.com", *firing)) == {
        "action": "email:a@example.com",
        "job": "j1",
        "rule": "VanishingGradient",
        "severity": "critical",
        "status": "IssuesFound",
    }


def test_attributes_of_a_resolved_alert(ask: Any, make_alert: Any) -> None:
    resolved = make_alert(RuleEvaluationStatus="InProgress")
    assert attributes(ask("sms", resolved=(resolved,)))["status"] == "InProgress"


@pytest.mark.parametrize(("status", "more"), [("Error", {"status": "Error"}), (None, {})])
def test_attributes_of_a_jobs_end(
    ask: Any, make_summary: Any, status: str | None, more: Any
) -> None:
    summary = make_summary(RuleEvaluationStatus=status)
    assert attributes(ask("email", summary=summary)) == {"action": "email", "job": "j1", **more}


def test_empty_attributes_are_left_out_for_sns_refuses_them(ask: Any) -> None:
    odd = {"RuleConfigurationName": "\x00", "TrainingJobName": "\u202e"}
    assert set(attributes(ask("email", odd))) == {"action", "severity", "status"}
