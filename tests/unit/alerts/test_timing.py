"""Alertmanager's table of what needs a notification, restated; and what is taken only once."""

from __future__ import annotations

from typing import Any

import pytest
from tocsin.alerts import AlertGroup, Hold, RuleAlert, Send, Sent
from tocsin.alerts.stage import Batch, View, identities
from tocsin.alerts.timing import needs_update, wait

from tests.unit.alerts.world import EPOCH, alert

HOUR = 3600.0
NOW = 100 * HOUR
OLD, RECENT = NOW - HOUR, NOW - HOUR / 2


def ids(*rules: str) -> dict[str, str]:
    return {rule: f"{rule}-id" for rule in rules}


@pytest.mark.parametrize(
    ("sent", "firing", "resolved", "reason"),
    [
        pytest.param(None, ids("a"), {}, Send.FIRST, id="nothing sent before"),
        pytest.param(None, {}, {}, None, id="nothing at all"),
        pytest.param(None, {}, ids("a"), None, id="resolved before it was sent"),
        pytest.param(Sent(), ids("a"), {}, Send.FIRST, id="sent, with nothing"),
        pytest.param(Sent(ids("a"), RECENT), ids("a"), {}, None, id="sent lately"),
        pytest.param(Sent(ids("a"), OLD), ids("a"), {}, Send.REPEAT, id="sent an hour ago"),
        pytest.param(Sent(ids("a"), OLD + 1), ids("a"), {}, None, id="a second short of it"),
        pytest.param(Sent(ids("a"), RECENT), ids("a", "b"), {}, Send.NEW_IN_GROUP, id="one more"),
        pytest.param(
            Sent(ids("a"), OLD), ids("a", "b"), {}, Send.NEW_IN_GROUP, id="one more, and old"
        ),
        pytest.param(Sent(ids("a", "b"), RECENT), ids("a"), {}, None, id="one less, not sent"),
        pytest.param(
            Sent(ids("a"), RECENT), {"a": "again"}, {}, Send.NEW_IN_GROUP, id="fired again"
        ),
        pytest.param(
            Sent({}, RECENT),
            {"a": "again"},
            {},
            Send.FIRST,
            id="fired again, was resolved",
        ),
        pytest.param(
            Sent(ids("a"), RECENT), {}, ids("a"), Send.ALL_RESOLVED, id="all are resolved"
        ),
        pytest.param(
            Sent(ids("a", "b"), RECENT),
            ids("b"),
            ids("a"),
            Send.NEWLY_RESOLVED,
            id="one is resolved, one still fires",
        ),
        pytest.param(Sent(ids("a"), OLD), {}, {}, None, id="resolved, not to be sent"),
    ],
)
def test_when_to_notify(
    sent: Sent | None, firing: dict[str, str], resolved: dict[str, str], reason: Send | None
) -> None:
    assert needs_update(sent, firing, resolved, repeat=HOUR, now=NOW) is reason


def test_nothing_is_repeated_without_an_interval() -> None:
    assert needs_update(Sent(ids("a"), 0.0), ids("a"), {}, repeat=None, now=NOW) is None


def waited(
    *notes: RuleAlert,
    now: float,
    reason: Send = Send.FIRST,
    sent_before: tuple[str, ...] = (),
    sent_at: float = 0.0,
) -> Batch:
    firing = {note.alert.rule_configuration_name: note for note in notes}
    before = {rule: id_ for rule, id_ in identities(firing).items() if rule in sent_before}
    sent = Sent(before, sent_at)
    group = AlertGroup("s3://b/r", alerts=firing, sent={"email": sent})
    return wait(Batch("email", firing, {}, reason=reason), View(group, (), now))


def note(rule: str = "A", at: float = EPOCH, **fields: Any) -> RuleAlert:
    return RuleAlert(alert(rule, **fields), at)


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


def test_a_rule_that_was_sent_does_not_hurry_news() -> None:
    old, new = note("A", EPOCH - 100, Severity="critical"), note("B")
    batch = waited(old, new, now=EPOCH + 1, reason=Send.NEW_IN_GROUP, sent_before=("A",))
    assert [held.rule for held in batch.held] == ["B"]


def test_a_repetition_waits_for_nothing() -> None:
    assert waited(note(), now=EPOCH, reason=Send.REPEAT, sent_before=("A",)).reason is Send.REPEAT


@pytest.mark.parametrize(
    ("given", "after", "goes"),
    [
        pytest.param({}, 299.0, False, id="five minutes are not over"),
        pytest.param({}, 300.0, True, id="five minutes"),
        pytest.param({"Severity": "critical"}, 299.0, False, id="critical ones as well"),
        pytest.param({"Notify": {"GroupInterval": 60}}, 60.0, True, id="a minute wanted"),
        pytest.param({"Notify": {"GroupInterval": 0}}, 9.0, False, id="no less than ten seconds"),
    ],
)
def test_the_interval_after_a_message(given: dict[str, Any], after: float, goes: bool) -> None:
    batch = waited(note(at=EPOCH - 60, **given), now=EPOCH + after, sent_at=EPOCH)
    assert (batch.reason is Send.FIRST) == goes
    assert {held.reason for held in batch.held} <= {Hold.GROUP_INTERVAL}
