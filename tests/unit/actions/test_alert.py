from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tocsin.actions import Alert, BadAlert, Notify, Summary, decode
from tocsin.model import RuleStatus, Severity

KIND = "Tocsin Rule Evaluation Status Change"


def envelope(detail: Any, kind: str = KIND, source: str = "tocsin") -> str:
    return json.dumps({"version": "0", "detail-type": kind, "source": source, "detail": detail})


def test_decodes_the_event_of_the_bus(detail: dict[str, Any]) -> None:
    alert = decode(envelope(detail))
    assert alert.training_job_name == "j1"
    assert alert.rule_evaluation_status is RuleStatus.ISSUES_FOUND
    assert alert.severity is Severity.WARNING
    assert alert.evidence == {"abs_mean": 3.1e-9, "threshold": 1e-7}
    assert alert.actions == ["email"]
    assert (alert.dedup_id, alert.run_id, alert.dry_run) == ("d1", "r1", False)


def test_what_may_be_missing_has_defaults(detail: dict[str, Any]) -> None:
    needed = ("TrainingJobName", "Run", "RuleConfigurationName", "Rule", "DedupId")
    few = {key: detail[key] for key in (*needed, "RuleEvaluationStatus")}
    alert = decode(envelope(few))
    assert (alert.actions, alert.evidence, alert.step, alert.run_id) == ([], {}, None, None)


@pytest.mark.parametrize(
    "run",
    [
        "s3://captures",
        "s3://captures/j1",
        "s3://my.bucket-1/a b/Zürich/j1/debug-output",
        "s3://captures/jobs/j1/",
    ],
)
def test_accepts_runs_as_s3_allows_them(detail: dict[str, Any], run: str) -> None:
    assert decode(envelope({**detail, "Run": run})).run == run


@pytest.mark.parametrize("odd", [[""], ["x" * 513], ["\n"], ["email"] * 65, ["実験"]])
def test_an_odd_action_costs_no_other(detail: dict[str, Any], odd: list[str]) -> None:
    assert decode(envelope({**detail, "Actions": [*odd, "stop"]})).actions == [*odd, "stop"]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"Run": "/var/run"}, "Run"),
        ({"Run": "s3://"}, "Run"),
        ({"Run": "s3://UPPER/j1"}, "Run"),
        ({"Run": "s3://captures/j1\nBcc: x"}, "Run"),
        ({"Run": "s3://captures/j1\n"}, "Run"),
        ({"Run": "s3://captures/" + "x" * 2000}, "Run"),
        ({"TrainingJobName": ""}, "TrainingJobName"),
        ({"TrainingJobName": "a/b"}, "TrainingJobName"),
        ({"TrainingJobName": "a\r\nb"}, "TrainingJobName"),
        ({"TrainingJobName": None}, "TrainingJobName"),
        ({"RuleEvaluationStatus": "IssueFound"}, "RuleEvaluationStatus"),
        ({"DedupId": ""}, "DedupId"),
        ({"Actions": "stop"}, "Actions"),
        ({"Actions": [3]}, "Actions"),
        ({"Step": -1}, "Step"),
        ({"Step": 10**18}, "Step"),
        ({"Evidence": {"x": [1]}}, "Evidence"),
        ({"DryRun": "yes"}, "DryRun"),
        ({"Severity": "page"}, "Severity"),
    ],
)
def test_refuses_what_is_wrong_and_says_where(
    detail: dict[str, Any], change: dict[str, Any], where: str
) -> None:
    with pytest.raises(BadAlert, match=rf"^not an event of Tocsin's: .*\$\.{where}"):
        decode(envelope({**detail, **change}))


@pytest.mark.parametrize(
    "body",
    [
        "",
        "not json",
        "[]",
        "null",
        b"\xff\xfe",
        "{}",
        envelope({}),
        envelope({}, kind="SageMaker Training Job State Change"),
        envelope({}, source="aws.sagemaker"),
    ],
)
def test_refuses_other_messages(body: str | bytes) -> None:
    with pytest.raises(BadAlert):
        decode(body)


def test_decodes_what_the_alert_says_of_others(detail: dict[str, Any]) -> None:
    silence = {"Until": "2026-12-01T08:00:00Z", "Job": "nightly-*", "Reason": "known"}
    more = {
        "Sequence": 17,
        "Inhibits": ["Overfit"],
        "Notify": {"GroupWait": 30.0, "RepeatInterval": 600.0, "SendResolved": False},
        "Silences": [silence],
    }
    alert = decode(envelope({**detail, **more}))
    assert isinstance(alert, Alert)
    assert (alert.sequence, alert.inhibits, alert.firing) == (17, ["Overfit"], True)
    assert (alert.notify.wait, alert.notify.repeat) == (30.0, 600.0)
    assert not alert.notify.send_resolved
    [silenced] = alert.silences
    assert (silenced.job, silenced.reason) == ("nightly-*", "known")
    assert silenced.until == datetime(2026, 12, 1, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("notify", "wait", "repeat"),
    [
        (Notify(), 10.0, 14400.0),
        (Notify(group_wait=-1.0, repeat_interval=0.0), 0.0, 300.0),
        (Notify(group_wait=1e9, repeat_interval=1e9), 900.0, 1e9),
    ],
)
def test_what_is_out_of_bounds_is_brought_within(
    notify: Notify, wait: float, repeat: float
) -> None:
    assert (notify.wait, notify.repeat) == (wait, repeat)


def test_decodes_a_runs_end(summary_detail: dict[str, Any]) -> None:
    summary = decode(envelope(summary_detail, "Tocsin Run Summary"))
    assert isinstance(summary, Summary)
    assert (summary.ending, summary.summary) == ("marker", ["email"])
    assert (summary.steps.evaluated, summary.steps.first, summary.steps.last) == (12, 10, 120)
    assert summary.rule_evaluation_status is RuleStatus.ISSUES_FOUND
    assert len(summary.debug_rule_evaluation_statuses) == 3


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"Silences": [{"Until": "2026-12-01T08:00:00"}]}, "Silences"),
        ({"Sequence": -1}, "Sequence"),
        ({"Notify": {"GroupWait": "soon"}}, "Notify"),
    ],
)
def test_refuses_these_too(detail: dict[str, Any], change: dict[str, Any], where: str) -> None:
    with pytest.raises(BadAlert, match=rf"\$\.{where}"):
        decode(envelope({**detail, **change}))
