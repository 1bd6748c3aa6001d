"""Messages about a run that is judged without AWS."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tocsin.actions.endpoint import Endpoint
from tocsin.aws.https import NotDelivered
from tocsin.events import StatusChange
from tocsin.judge.notify import Notifier
from tocsin.judge.targets import PAGERDUTY, Target, webhook

from tests.unit.alerts.world import EPOCH, RUN, alert
from tests.waiting import becomes

SLACK = Endpoint("https://hooks.slack.com/services/x", format="slack")
PAGER = Endpoint(PAGERDUTY, format="pagerduty", routing_key="key")


class Desk:
    """A notifier, its clock, what it has posted and what it says."""

    def __init__(self, *endpoints: Endpoint) -> None:
        self.time = EPOCH
        self.posted: list[tuple[str, Any]] = []
        self.said: list[str] = []
        self.answers: list[Exception] = []
        self.sequence = 0
        targets = [webhook(each, self._send) for each in endpoints]
        self.notifier = Notifier(RUN, targets, lambda: self.time, self.said.append)

    def _send(self, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        if self.answers:
            raise self.answers.pop(0)
        self.posted.append((url, json.loads(body)))

    def publish(self, *changes: StatusChange) -> None:
        self.notifier.publish(changes)

    def alert(self, rule: str, *, firing: bool = True, **fields: Any) -> StatusChange:
        self.sequence += 1
        return alert(rule, firing=firing, Sequence=self.sequence, **fields)

    def wait_for(self, posts: int) -> list[Any]:
        assert becomes(lambda: len(self.posted) == posts)
        return [body for _, body in self.posted]


def test_a_critical_finding_is_posted_at_once() -> None:
    desk = Desk(SLACK)
    desk.publish(desk.alert("ExplodingTensor", Severity="critical", Step=7))
    (message,) = desk.wait_for(1)
    assert message["text"] == "critical: ExplodingTensor in j1"
    assert "What to do: " in message["blocks"][1]["text"]["text"]
    desk.notifier.close()
    assert (len(desk.posted), desk.said) == (1, [])


def test_others_wait_for_each_other_and_nothing_is_lost_at_the_end() -> None:
    desk = Desk(SLACK)
    desk.publish(desk.alert("A", Severity="warning"))
    desk.publish(desk.alert("B", Severity="warning"))
    desk.notifier.close()
    (message,) = desk.wait_for(1)
    assert message["text"] == "warning: A and 1 more in j1"


def test_a_rule_that_another_inhibits_and_one_without_actions_are_not_sent() -> None:
    desk = Desk(SLACK)
    desk.publish(
        desk.alert("A", Severity="critical", Inhibits=["B"]),
        desk.alert("B", Severity="warning"),
        desk.alert("C", Severity="info", Actions=[]),
    )
    desk.notifier.close()
    (message,) = desk.wait_for(1)
    assert message["text"] == "critical: A in j1"


def test_an_incident_is_resolved_when_no_rule_fires_any_more() -> None:
    desk = Desk(PAGER)
    notify = {"GroupWait": 0, "GroupInterval": 0, "SendResolved": True}
    desk.publish(
        desk.alert("A", Severity="critical", Notify=notify),
        desk.alert("B", Severity="warning", Notify=notify),
    )
    desk.wait_for(1)
    for rule in ("B", "A"):
        desk.time += 3600
        desk.publish(desk.alert(rule, firing=False, Notify=notify))
        desk.wait_for(2 if rule == "B" else 3)
    first, still, over = desk.wait_for(3)
    assert (first["event_action"], first["routing_key"]) == ("trigger", "key")
    assert still["event_action"] == "trigger"
    assert (still["payload"]["severity"], still["payload"]["summary"]) == (
        "critical",
        "critical: A in j1",
    )
    assert (over["event_action"], over["dedup_key"]) == ("resolve", first["dedup_key"])
    desk.notifier.close()


def test_each_endpoint_gets_it_and_one_that_fails_is_named() -> None:
    desk = Desk(SLACK, PAGER)
    desk.answers = [NotDelivered("no answer from hooks.slack.com")]
    desk.publish(desk.alert("A", Severity="critical"))
    assert becomes(lambda: len(desk.posted) == 1 and len(desk.said) == 1)
    assert desk.posted[0][0] == PAGERDUTY
    assert desk.said == ["not notified: slack-1: NotDelivered: no answer from hooks.slack.com"]
    desk.notifier.close()


def test_a_mail_server_gets_what_a_webhook_gets() -> None:
    sent: list[Any] = []
    target = Target("smtp", lambda event, key, now: sent.append((event["detail-type"], key)))
    notifier = Notifier(RUN, [target], lambda: EPOCH, sent.append)
    notifier.publish([alert("A", Severity="critical", Sequence=1)])
    notifier.close()
    ((kind, _),) = sent
    assert kind == "Tocsin Alert"
