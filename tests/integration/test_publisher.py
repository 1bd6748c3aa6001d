"""What the publisher sends when names are odd, details are large and AWS says no."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.exceptions import ClientError
from msgspec.structs import replace
from tocsin.aws.cloudwatch import MetricSink
from tocsin.aws.events import AwsPublisher, Bus
from tocsin.events import (
    RUN_NEWS,
    ConfigurationRefused,
    RuleStatusEntry,
    RunEvent,
    RunNews,
    decode,
)
from tocsin.model import RuleStatus

from tests.events import CHANGE, RUN, SUMMARY


def size(entry: dict[str, str]) -> int:
    return sum(len(entry[part].encode()) for part in ("Source", "DetailType", "Detail"))


def acceptable(datum: dict[str, Any]) -> bool:
    """What CloudWatch's reference asks of a dimension's value, and one name to refuse."""
    values = [dimension["Value"] for dimension in datum["Dimensions"]]
    return "refused" not in values and all(
        value.isascii() and value.isprintable() and value.strip() and value[0] != ":"
        for value in values
        if len(value) <= 1024
    )


@dataclass
class Aws:
    """EventBridge and CloudWatch with their limits; an error to answer metrics with, perhaps."""

    error: str | None = None
    requests: list[list[dict[str, str]]] = field(default_factory=list)
    news: list[dict[str, str]] = field(default_factory=list)
    data: list[dict[str, Any]] = field(default_factory=list)

    def put_events(self, *, Entries: list[dict[str, str]]) -> dict[str, Any]:  # noqa: N803
        assert 1 <= len(Entries) <= 10
        assert sum(size(entry) for entry in Entries) < 256 * 1024
        public = [entry for entry in Entries if entry["DetailType"] != RUN_NEWS]
        self.news += [entry for entry in Entries if entry not in public]
        if public:
            self.requests.append(public)
        return {"FailedEntryCount": 0, "Entries": [{"EventId": "e"} for _ in Entries]}

    def put_metric_data(self, *, Namespace: str, MetricData: list[dict[str, Any]]) -> None:  # noqa: N803
        assert Namespace == "Tocsin"
        code = self.error
        if code is None and not all(map(acceptable, MetricData)):
            code = "InvalidParameterValue"
        if code:
            raise ClientError({"Error": {"Code": code, "Message": "no"}}, "PutMetricData")
        self.data += MetricData

    @property
    def details(self) -> list[dict[str, Any]]:
        return [json.loads(entry["Detail"]) for entries in self.requests for entry in entries]


def publish(aws: Aws, changes: Sequence[RunEvent]) -> None:
    now = 1_700_000_001.0
    AwsPublisher(Bus(aws, "tocsin"), MetricSink(aws), lambda: now, True).publish(changes)


@pytest.mark.parametrize(
    "name", ["Verlüst", "実験", ":loss", "", "a\x00b", " ", "\xa8", "x" * 3000]
)
def test_any_name_becomes_a_metric(name: str) -> None:
    aws = Aws()
    publish(aws, [replace(CHANGE, rule_configuration_name=name, training_job_name=name or ":")])
    assert [len(datum["Dimensions"]) for datum in aws.data] == [0, 1, 2]
    assert aws.details[0]["RuleConfigurationName"] == name


@pytest.mark.parametrize("code", ["InvalidParameterValue", "ValidationError"])
def test_metrics_that_are_refused_hold_nothing_up(code: str) -> None:
    aws = Aws(error=code)
    publish(aws, [CHANGE, CHANGE])
    assert (len(aws.details), aws.data) == (2, [])


def test_one_metric_that_is_refused_costs_no_other() -> None:
    aws = Aws()
    publish(aws, [replace(CHANGE, rule_configuration_name=name) for name in ("a", "refused", "b")])
    names = [datum["Dimensions"][0]["Value"] for datum in aws.data if datum["Dimensions"]]
    assert names == ["a", "a", "b", "b"]
    assert len(aws.data) == 7  # the third also counts for the deployment, where it has no name


@pytest.mark.parametrize("code", ["Throttling", "InternalServiceFault", "AccessDenied"])
def test_what_may_pass_raises_after_the_events(code: str) -> None:
    aws = Aws(error=code)
    with pytest.raises(ClientError, match=code):
        publish(aws, [CHANGE])
    assert len(aws.details) == 1


def test_requests_are_filled_by_bytes_and_by_number() -> None:
    aws = Aws()
    status = RuleStatusEntry("rule", RuleStatus.IN_PROGRESS, "x" * 1000, "2023-11-14T22:13:20.000Z")
    large = replace(CHANGE, debug_rule_evaluation_statuses=(status,) * 70)  # 80 KB
    changes = [large] * 5 + [CHANGE] * 15
    publish(aws, [replace(change, dedup_id=str(at)) for at, change in enumerate(changes)])
    assert [len(entries) for entries in aws.requests] == [2, 2, 10, 6]
    assert [detail["DedupId"] for detail in aws.details] == [str(at) for at in range(20)]
    assert len(aws.details[0]["DebugRuleEvaluationStatuses"]) == 70


def test_what_is_too_large_for_the_bus_is_made_to_fit() -> None:
    aws = Aws()
    publish(aws, [replace(CHANGE, tensor="x" * 300_000)])
    (found,) = aws.details
    assert (found["DedupId"], found["Tensor"]) == ("d", None)


def test_each_of_very_many_changes_lists_fewer_rules() -> None:
    aws = Aws()
    text, at = "x" * 100, "2023-11-14T22:13:20.000Z"
    statuses = [RuleStatusEntry(f"r{n}", RuleStatus.IN_PROGRESS, text, at) for n in range(200)]
    change = replace(CHANGE, debug_rule_evaluation_statuses=tuple(statuses))
    publish(aws, [replace(change, dedup_id=str(number)) for number in range(200)])
    assert len(aws.details) == 200
    assert all(detail["Evidence"] == change.evidence for detail in aws.details)
    assert {len(detail["DebugRuleEvaluationStatuses"]) for detail in aws.details} == {50}
    assert sum(size(entry) for entries in aws.requests for entry in entries) < 2_100_000


def test_a_summary_and_a_refusal_are_events_of_their_own_kind() -> None:
    aws = Aws()
    refusal = ConfigurationRefused(
        "j1", RUN, "r", "watch.json: notify.repeat_interval", "0 is not a time", "f"
    )
    publish(aws, [refusal, CHANGE, SUMMARY])
    ((first, _, last),) = aws.requests
    assert [first["DetailType"], last["DetailType"]] == [
        "Tocsin Configuration Refused",
        "Tocsin Run Summary",
    ]
    assert aws.details[0] == {
        "TrainingJobName": "j1",
        "Run": RUN,
        "RunId": "r",
        "Where": "watch.json: notify.repeat_interval",
        "Detail": "0 is not a time",
        "DedupId": "f",
    }
    assert aws.details[2] == {
        "TrainingJobName": "j1",
        "Run": RUN,
        "RunId": "r",
        "Ending": "marker",
        "Sequence": 17,
        "Steps": {"evaluated": 50, "first": 0, "last": 490},
        "RuleEvaluationStatus": "IssuesFound",
        "Summary": ["email"],
        "Notify": {
            "GroupWait": 10.0,
            "RepeatInterval": 14400.0,
            "SendResolved": True,
            "Summary": ["email"],
            "GroupInterval": 300.0,
        },
        "DryRun": False,
        "EvaluatedAt": "2023-11-14T22:13:21.000Z",
        "DedupId": "s",
        "Silences": [],
        "DebugRuleEvaluationStatuses": [
            {
                "RuleConfigurationName": "eval-loss",
                "RuleEvaluationStatus": "IssuesFound",
                "StatusDetails": "loss is nan",
                "LastModifiedTime": "2023-11-14T22:13:20.000Z",
            }
        ],
    }
    assert len(aws.data) == 3  # of the change alone


def test_act_reads_what_is_published() -> None:
    aws = Aws()
    publish(aws, [CHANGE, SUMMARY])
    (news,) = aws.news
    body = {"source": news["Source"], "detail-type": news["DetailType"]}
    read = decode(json.dumps({**body, "detail": json.loads(news["Detail"])}))
    assert isinstance(read, RunNews)
    (alert,), (summary,) = read.changes, read.summaries
    assert alert.debug_rule_evaluation_statuses == ()
    assert (alert.sequence, alert.inhibits, alert.notify.wait) == (17, ("Overfit",), 10.0)
    assert alert.silences[0].until == CHANGE.silences[0].until
    assert (summary.summary, summary.steps.last) == (("email",), 490)


def test_one_commit_is_one_piece_of_news_with_what_asks_for_a_decision() -> None:
    aws = Aws()
    healthy = replace(
        CHANGE,
        rule_evaluation_status=RuleStatus.NO_ISSUES_FOUND,
        previous_status=RuleStatus.IN_PROGRESS,
    )
    publish(aws, [healthy])
    assert aws.news == []
    publish(aws, [replace(CHANGE, dedup_id=str(at)) for at in range(30)])
    assert len(aws.news) == 1


def test_news_of_many_rules_with_long_texts_come_in_parts_that_the_bus_takes() -> None:
    aws = Aws()
    publish(aws, [replace(CHANGE, dedup_id=str(at), tensor="x" * 5000) for at in range(200)])
    assert len(aws.news) > 1
    assert all(len(entry["Detail"]) < 240_000 for entry in aws.news)
