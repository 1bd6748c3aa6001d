from __future__ import annotations

from typing import Any

import pytest
from tocsin.actions import Outcome, Result
from tocsin.actions._sms import sms

PHONE = "+15551230000"


def test_publishes_one_short_line(ask: Any, world: Any) -> None:
    refused = Result(Outcome.REFUSED, "another job's name")
    result = sms(ask("sms", stop=refused), world.ports)
    assert result == Result(Outcome.DONE, "published to the topic for sms subscribers")
    [message] = world.messages()
    assert message.subject is None
    assert message.texts["default"] == message.texts["sms"]
    assert "Stop refused." in message.texts["sms"]
    assert message.attributes["action"] == "sms"


def test_says_if_the_deployment_subscribes_nobody(ask: Any, make_world: Any) -> None:
    assert "subscribes nobody" in sms(ask("sms"), make_world(broadcast={"email": 2}).ports).detail


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
    sms(ask(action), world.ports)
    assert [what for name, what in world.did if name == "may_text"] == [texts]


def test_a_cap_that_is_used_up_refuses(ask: Any, make_world: Any) -> None:
    world = make_world(cap="100 of 100 SMS were sent this month")
    result = sms(ask("sms"), world.ports)
    assert result == Result(Outcome.REFUSED, "100 of 100 SMS were sent this month")
    assert world.messages() == []


def test_one_phone_gets_its_own(ask: Any, world: Any) -> None:
    result = sms(ask(f"sms:{PHONE}"), world.ports)
    assert result == Result(Outcome.DONE, f"published to the topic for {PHONE}")
    assert world.did[0] == ("subscribe", ("sms", PHONE))
    assert world.messages()[0].attributes["action"] == f"sms:{PHONE}"


@pytest.mark.parametrize("world_is", [{"refused": {PHONE: "no"}}, {"unconfirmed": {PHONE: "no"}}])
def test_a_phone_that_cannot_be_reached_is_refused_and_not_counted(
    ask: Any, make_world: Any, world_is: Any
) -> None:
    world = make_world(**world_is)
    assert sms(ask(f"sms:{PHONE}"), world.ports) == Result(Outcome.REFUSED, "no")
    assert [name for name, _ in world.did if name != "subscribe"] == []
