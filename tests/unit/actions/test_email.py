from __future__ import annotations

from typing import Any

import pytest
from tocsin.actions import Outcome, Result
from tocsin.actions._email import email

ADDRESS = "first.last@c-d.example.co.uk"


def test_publishes_for_every_protocol(ask: Any, world: Any) -> None:
    stopped = Result(Outcome.DONE, "asked SageMaker to stop training job j1")
    result = email(ask("email", stop=stopped), world.ports)
    assert result == Result(Outcome.DONE, "published to the topic for email subscribers")
    [message] = world.messages()
    assert message.subject.endswith("; stop requested")
    assert message.texts["default"] == message.texts["email"]
    assert "asked SageMaker to stop training job j1" in message.texts["email"]
    assert len(message.texts["sms"]) < 160


def test_says_if_the_deployment_subscribes_nobody(ask: Any, make_world: Any) -> None:
    world = make_world(broadcast={"sms": 1})
    result = email(ask("email"), world.ports)
    assert result.outcome is Outcome.DONE
    assert result.detail.endswith("this deployment subscribes nobody itself")
    assert len(world.messages()) == 1


def test_one_address_gets_its_own(ask: Any, world: Any) -> None:
    result = email(ask(f"email:{ADDRESS}"), world.ports)
    assert result == Result(Outcome.DONE, f"published to the topic for {ADDRESS}")
    assert world.did[0] == ("subscribe", ("email", ADDRESS))
    assert world.messages()[0].attributes["action"] == f"email:{ADDRESS}"


def test_a_refused_recipient_is_not_even_subscribed(ask: Any, make_world: Any) -> None:
    world = make_world(refused={ADDRESS: "not on the allow-list"})
    result = email(ask(f"email:{ADDRESS}"), world.ports)
    assert result == Result(Outcome.REFUSED, "not on the allow-list")
    assert world.did == []


def test_who_has_not_confirmed_gets_nothing(ask: Any, make_world: Any) -> None:
    world = make_world(unconfirmed={ADDRESS: f"{ADDRESS} has not confirmed yet"})
    result = email(ask(f"email:{ADDRESS}"), world.ports)
    assert result == Result(Outcome.REFUSED, f"{ADDRESS} has not confirmed yet")
    assert world.messages() == []


def test_an_empty_recipient_is_not_everybody(ask: Any, make_world: Any) -> None:
    world = make_world(refused={"": "names nobody"})
    assert email(ask("email:"), world.ports) == Result(Outcome.REFUSED, "names nobody")


def test_tells_how_a_job_ended(ask: Any, world: Any, make_summary: Any) -> None:
    result = email(ask("email", summary=make_summary()), world.ports)
    assert result.outcome is Outcome.DONE
    [message] = world.messages()
    assert message.subject == "Tocsin summary: j1: IssuesFound (Overfit)"
    assert message.texts["email"].startswith("Training job j1 has ended: IssuesFound.")


def test_trouble_is_raised(ask: Any, make_world: Any) -> None:
    with pytest.raises(TimeoutError):
        email(ask("email"), make_world(broken={"publish": TimeoutError()}).ports)
