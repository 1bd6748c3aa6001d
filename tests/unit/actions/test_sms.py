from __future__ import annotations

from typing import Any

import pytest
from tocsin.actions import Outcome, Request, Result
from tocsin.actions._sms import sms


def test_publishes_one_short_line(make_alert: Any, world: Any) -> None:
    refused = Result(Outcome.REFUSED, "another job's name")
    result = sms(Request(make_alert(), "sms", refused), world.ports)
    assert result == Result(Outcome.DONE, "published to the topic for sms subscribers")
    [message] = world.messages()
    assert message.subject is None
    assert message.texts["default"] == message.texts["sms"]
    assert "Stop refused." in message.texts["sms"]
    assert len(message.texts["sms"]) < 160
    assert message.attributes["action"] == "sms"


def test_says_if_the_deployment_subscribes_nobody(make_alert: Any, make_world: Any) -> None:
    world = make_world(subscribed=frozenset({"email"}))
    assert "subscribes nobody" in sms(Request(make_alert(), "sms"), world.ports).detail


@pytest.mark.parametrize("action", ["sms:+15551230000", "sms:"])
def test_a_run_chooses_no_recipients(make_alert: Any, world: Any, action: str) -> None:
    result = sms(Request(make_alert(), action), world.ports)
    assert (result.outcome, world.did) == (Outcome.REFUSED, [])
