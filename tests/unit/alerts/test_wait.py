"""How long a message waits for more."""

from __future__ import annotations

from typing import Any

import pytest
from tocsin.alerts import Group, Noted, Send, Sent
from tocsin.alerts._stage import Batch, View, identities
from tocsin.alerts._wait import wait

from tests.unit.alerts.world import EPOCH, alert


def waited(
    *notes: Noted, now: float, reason: Send = Send.FIRST, told: tuple[str, ...] = ()
) -> Batch:
    firing = {note.alert.rule_configuration_name: note for note in notes}
    sent = Sent({rule: id_ for rule, id_ in identities(firing).items() if rule in told})
    group = Group("s3://b/r", alerts=firing, sent={"email": sent})
    return wait(Batch("email", firing, {}, reason=reason), View(group, (), now))


def note(rule: str = "A", at: float = EPOCH, **fields: Any) -> Noted:
    return Noted(alert(rule, **fields), at)


@pytest.mark.parametrize(
    ("given", "after", "goes"),
    [
        pytest.param({}, 9.9, False, id="not yet"),
        pytest.param({}, 10.0, True, id="at ten seconds"),
        pytest.param({"Severity": "critical"}, 0.0, True, id="critical: at once"),
        pytest.param({"Notify": {"GroupWait": 0}}, 0.0, True, id="no wait wanted"),
        pytest.param({"Notify": {"GroupWait": 60}}, 59.0, False, id="a minute wanted"),
        pytest.param({"Notify": {"GroupWait": 1e9}}, 900.0, True, id="no longer than 15 minutes"),
        pytest.param({"Notify": {"GroupWait": -5}}, 0.0, True, id="less than nothing"),
    ],
)
def test_the_wait(given: dict[str, Any], after: float, goes: bool) -> None:
    batch = waited(note(**given), now=EPOCH + after)
    assert (batch.reason is Send.FIRST) == goes
    assert (len(batch.held) == 0) == goes


def test_the_first_news_counts_and_takes_the_others_along() -> None:
    early, late = note("A"), note("B", EPOCH + 9)
    assert {held.until for held in waited(early, late, now=EPOCH + 9).held} == {EPOCH + 10}
    assert waited(early, late, now=EPOCH + 10).reason is Send.FIRST


def test_what_was_told_does_not_hurry_what_is_new() -> None:
    old, new = note("A", EPOCH - 100, Severity="critical"), note("B")
    batch = waited(old, new, now=EPOCH + 1, reason=Send.NEW_IN_GROUP, told=("A",))
    assert [held.rule for held in batch.held] == ["B"]


def test_a_repetition_waits_for_nothing() -> None:
    assert waited(note(), now=EPOCH, reason=Send.REPEAT, told=("A",)).reason is Send.REPEAT
