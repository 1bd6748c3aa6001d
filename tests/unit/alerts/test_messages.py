"""What arrives in the queue."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.alerts import Flush, parse_message
from tocsin.events import BadEvent, RunSummary, StatusChange
from tocsin.own_messages import encode_flush

RUN = "s3://captures/jobs/größe"
ALERT = {
    "TrainingJobName": "j1",
    "Run": "s3://captures/jobs/j1",
    "RuleConfigurationName": "A",
    "Rule": "A",
    "RuleEvaluationStatus": "IssuesFound",
    "DedupId": "d",
}
SUMMARY = {
    "TrainingJobName": "j1",
    "Run": "s3://captures/jobs/j1",
    "DedupId": "d",
    "Summary": ["email"],
    "Steps": {"evaluated": 3, "first": 0, "last": 20},
}


def envelope(kind: str, detail: Any) -> str:
    return json.dumps({"detail-type": kind, "source": "tocsin", "detail": detail})


def test_what_is_sent_is_understood() -> None:
    assert parse_message(encode_flush(RUN)) == Flush(RUN)
    assert parse_message('{"tocsin": "retry", "run": "s3://b/r", "task": "t"}') == Flush("s3://b/r")
    assert encode_flush(RUN).isascii()


def test_events_off_the_bus() -> None:
    alert = parse_message(envelope("Tocsin Rule Evaluation Status Change", ALERT))
    assert isinstance(alert, StatusChange)
    assert alert.firing
    summary = parse_message(envelope("Tocsin Run Summary", SUMMARY))
    assert isinstance(summary, RunSummary)
    assert (summary.summary, summary.steps.last) == (("email",), 20)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[]",
        "null",
        b"\xff",
        '{"tocsin": "flush"}',
        '{"tocsin": "flush", "run": ""}',
        '{"tocsin": "flush", "run": "/etc/passwd"}',
        '{"tocsin": "dance", "run": "s3://b/r"}',
        envelope("Tocsin Action Taken", ALERT),
        envelope("Tocsin Run Summary", {}),
        envelope("Tocsin Rule Evaluation Status Change", SUMMARY),
    ],
)
def test_anything_else_is_refused_with_a_reason(body: Any) -> None:
    with pytest.raises(BadEvent, match=r"\w"):
        parse_message(body)


@given(st.binary(max_size=200))
def test_no_body_does_harm(body: bytes) -> None:
    with pytest.raises(BadEvent):
        parse_message(body)
