from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

import msgspec
import pytest
from tocsin.actions import ActionOutcome, Effects, Lookups, Request, Result, UnknownEndpoint
from tocsin.actions.webhook import Rejected, webhook
from tocsin.events import RunSummary, StatusChange

Posted = list[tuple[str, Mapping[str, Any], str]]
DETAIL: dict[str, Any] = {
    "TrainingJobName": "j1",
    "Run": "s3://captures/jobs/j1/debug-output",
    "RuleConfigurationName": "VanishingGradient",
    "Rule": "VanishingGradient",
    "RuleEvaluationStatus": "IssuesFound",
    "StatusDetails": "the mean |gradient| is 3.1e-09, below the threshold 1e-07",
    "Severity": "warning",
    "Step": 120,
    "Evidence": {"abs_mean": 3.1e-9, "worst": "NaN"},
    "Actions": ["webhook:ops"],
    "DedupId": "d1",
    "RunId": "r1",
}


def alert(**detail: Any) -> StatusChange:
    return msgspec.convert({**DETAIL, **detail}, StatusChange)


def ports(posted: Posted, error: Exception | None = None) -> tuple[Lookups, Effects]:
    """Ports of which only ``post`` may be used."""

    def unexpected(*_: object) -> Any:
        raise AssertionError("a webhook posts, and does nothing else")

    def post(name: str, event: Mapping[str, Any], key: str) -> None:
        if error:
            raise error
        posted.append((name, event, key))

    lookups = {each.name: unexpected for each in fields(Lookups) if each.default is MISSING}
    effects = {each.name: unexpected for each in fields(Effects)}
    del lookups["broadcast"]
    return Lookups(**lookups), Effects(**{**effects, "post": post})


def test_posts_what_it_is_about() -> None:
    posted: Posted = []
    request = Request(
        "webhook:ops",
        firing=(alert(),),
        resolved=(alert(RuleConfigurationName="DeadRelu", RuleEvaluationStatus="InProgress"),),
        ongoing=(alert(RuleConfigurationName="Overfit"),),
        stop=Result(ActionOutcome.ALREADY_STOPPED, "it was Completed"),
        reason="new_in_group",
        key="k1",
    )
    assert webhook(request, *ports(posted)) == Result(ActionOutcome.DONE, "posted to webhook 'ops'")
    [(name, event, key)] = posted
    assert (name, key) == ("ops", "k1")
    assert {**event, "firing": 0, "resolved": 0} == {
        "source": "tocsin",
        "detail-type": "Tocsin Alert",
        "id": "k1",
        "reason": "new_in_group",
        "TrainingJobName": "j1",
        "Run": "s3://captures/jobs/j1/debug-output",
        "firing": 0,
        "resolved": 0,
        "more": [],
        "ongoing": ["Overfit"],
        "stop": {"Outcome": "already_stopped", "Detail": "it was Completed"},
        "summary": None,
        "withdrawn": [],
        "report": {"Page": "", "Console": ""},
        "severity": "warning",
        "cause": None,
    }
    [firing], [resolved] = event["firing"], event["resolved"]
    assert {key: firing[key] for key in DETAIL} == DETAIL
    assert "DebugRuleEvaluationStatuses" not in {**firing, **resolved}
    assert resolved["RuleConfigurationName"] == "DeadRelu"
    assert msgspec.json.decode(msgspec.json.encode(event)) == event


def test_posts_the_end_of_a_job() -> None:
    posted: Posted = []
    summary = msgspec.convert(
        {"TrainingJobName": "j1", "Run": DETAIL["Run"], "DedupId": "d", "Ending": "marker"},
        RunSummary,
    )
    webhook(Request("webhook:ops", summary=summary, reason="summary"), *ports(posted))
    [(_, event, _)] = posted
    assert event["detail-type"] == "Tocsin Run Summary"
    assert event["summary"]["Ending"] == "marker"
    assert event["firing"] == event["resolved"] == event["more"] == []


@pytest.mark.parametrize(
    ("firing", "resolved", "in_full", "more"),
    [
        ([10], [10], (1, 1), 0),
        ([100_000] * 2, [100_000] * 2, (2, 0), 2),
        ([100_000], [100_000] * 3, (1, 1), 2),
        ([10**6] * 2, [10], (1, 0), 2),  # one is in full whatever its size
    ],
)
def test_alerts_beyond_the_limit_are_only_named(
    firing: list[int], resolved: list[int], in_full: tuple[int, int], more: int
) -> None:
    posted: Posted = []
    request = Request(
        "webhook:ops",
        firing=tuple(alert(StatusDetails="x" * size) for size in firing),
        resolved=tuple(alert(StatusDetails="x" * size) for size in resolved),
    )
    webhook(request, *ports(posted))
    [(_, event, _)] = posted
    assert (len(event["firing"]), len(event["resolved"])) == in_full
    assert event["more"] == ["VanishingGradient"] * more


@pytest.mark.parametrize("action", ["webhook", "webhook:", "webhook:\n"])
def test_an_endpoint_must_be_named(action: str) -> None:
    posted: Posted = []
    result = webhook(Request(action, firing=(alert(),)), *ports(posted))
    assert (result.outcome, posted) == (ActionOutcome.REFUSED, [])
    assert "webhook:NAME" in result.detail


@pytest.mark.parametrize("error", [UnknownEndpoint("no such"), Rejected("it answered 404")])
def test_what_will_never_arrive_is_refused(error: Exception) -> None:
    result = webhook(Request("webhook:ops", firing=(alert(),)), *ports([], error))
    assert result == Result(ActionOutcome.REFUSED, f"webhook 'ops': {error}")


def test_what_may_arrive_later_is_tried_again() -> None:
    with pytest.raises(TimeoutError):
        webhook(Request("webhook:ops", firing=(alert(),)), *ports([], TimeoutError()))


def test_a_likely_cause_that_is_no_alarm_goes_with_it() -> None:
    posted: Posted = []
    cause = alert(RuleConfigurationName="inputs", Rule="NotNormalizedData", StatusDetails="mean 99")
    request = Request("webhook:ops", firing=(alert(),), cause=cause, key="k1")
    webhook(request, *ports(posted))
    assert posted[0][1]["cause"] == {
        "RuleConfigurationName": "inputs",
        "Rule": "NotNormalizedData",
        "StatusDetails": "mean 99",
    }
