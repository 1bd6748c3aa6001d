from __future__ import annotations

from typing import Any

import pytest
from tocsin import rules
from tocsin.actions import Outcome, Request, Result
from tocsin.actions._email import email


def test_publishes_for_every_protocol(make_alert: Any, world: Any) -> None:
    stopped = Result(Outcome.DONE, "asked SageMaker to stop training job j1")
    result = email(Request(make_alert(), "email", stopped), world.ports)
    assert result == Result(Outcome.DONE, "published to the topic for email subscribers")
    [message] = world.messages()
    assert message.subject.endswith("; stop requested")
    assert message.texts["default"] == message.texts["email"]
    assert "asked SageMaker to stop training job j1" in message.texts["email"]
    assert len(message.texts["sms"]) < 160
    assert message.attributes == {
        "action": "email",
        "job": "j1",
        "rule": "VanishingGradient",
        "severity": "warning",
        "status": "IssuesFound",
    }


def test_gives_the_rules_own_meaning_and_advice(make_alert: Any, world: Any) -> None:
    email(Request(make_alert(RuleConfigurationName="mine"), "email"), world.ports)
    [message] = world.messages()
    assert "Gradients of a layer have become too small to learn from." in message.texts["email"]
    assert rules.get_rule("VanishingGradient").advice in message.texts["email"]


def test_a_rule_that_nobody_knows_is_told_all_the_same(make_alert: Any, world: Any) -> None:
    email(Request(make_alert(Rule="Homemade"), "email"), world.ports)
    assert "What to look at" not in world.messages()[0].texts["email"]


def test_a_broken_registry_keeps_no_email_back(
    make_alert: Any, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str) -> None:
        raise ImportError("somebody's rule does not import")

    monkeypatch.setattr(rules, "find_rule", broken)
    assert email(Request(make_alert(), "email"), world.ports).outcome is Outcome.DONE
    assert len(world.messages()) == 1


def test_says_if_the_deployment_subscribes_nobody(make_alert: Any, make_world: Any) -> None:
    world = make_world(subscribed=frozenset({"sms"}))
    result = email(Request(make_alert(), "email"), world.ports)
    assert result.outcome is Outcome.DONE
    assert result.detail.endswith("this deployment subscribes nobody itself")
    assert len(world.messages()) == 1


@pytest.mark.parametrize("action", ["email:a.b@c-d.co.uk", "email:"])
def test_a_run_chooses_no_recipients(make_alert: Any, world: Any, action: str) -> None:
    result = email(Request(make_alert(), action), world.ports)
    assert (result.outcome, world.did) == (Outcome.REFUSED, [])
    assert "write just 'email'" in result.detail


def test_trouble_is_raised(make_alert: Any, make_world: Any) -> None:
    with pytest.raises(TimeoutError):
        email(Request(make_alert(), "email"), make_world(broken={"publish": TimeoutError()}).ports)
