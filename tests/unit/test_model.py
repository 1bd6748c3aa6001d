from __future__ import annotations

import json
import math

import msgspec
import pytest
from tocsin.model import Mode, Outcome, Reason, RuleStatus, TensorSummary, Verdict, json_number


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.5, 0.5),
        (-0.0, -0.0),
        (1.7976931348623157e308, 1.7976931348623157e308),
        (3, 3),
        (10**400, 10**400),
        ("text", "text"),
        ("NaN", "NaN"),
        (math.nan, "NaN"),
        (-math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
    ],
)
def test_json_number(value: float | int | str, expected: float | int | str) -> None:
    number = json_number(value)
    assert number == expected
    assert json.loads(json.dumps(number, allow_nan=False)) == expected


@pytest.mark.parametrize("outcome", Outcome)
def test_only_a_violation_is_one(outcome: Outcome) -> None:
    verdict = Verdict(outcome, Reason.WITHIN_BOUNDS)
    assert verdict.violation is (outcome is Outcome.VIOLATION)


def test_verdicts_do_not_share_evidence() -> None:
    one, other = (Verdict(Outcome.HEALTHY, Reason.WITHIN_BOUNDS) for _ in range(2))
    assert one.evidence is not other.evidence


def test_modes_are_numbered_as_in_the_files_of_smdebug() -> None:
    assert [(mode.name, mode.value) for mode in Mode] == [
        ("TRAIN", 1),
        ("EVAL", 2),
        ("PREDICT", 3),
        ("GLOBAL", 4),
    ]


def test_statuses_are_called_as_in_amazons_api() -> None:
    amazons = {"InProgress", "NoIssuesFound", "IssuesFound", "Error", "Stopped"}
    assert {status.value for status in RuleStatus} == amazons | {"NotApplicable"}


@pytest.mark.parametrize(
    ("summary", "encoded"),
    [
        (TensorSummary(), b"{}"),
        (TensorSummary(nan=0), b'{"nan":0}'),
        (TensorSummary(size=2, mean=0.5), b'{"size":2,"mean":0.5}'),
    ],
)
def test_a_summary_leaves_out_what_is_unknown(summary: TensorSummary, encoded: bytes) -> None:
    assert msgspec.json.encode(summary) == encoded
    assert msgspec.json.decode(encoded, type=TensorSummary) == summary


@pytest.mark.parametrize("content", [b'{"nan": 0.5}', b'{"mean": "1"}', b'{"mean": 1e999}', b"[]"])
def test_a_summary_is_checked_when_read(content: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(content, type=TensorSummary)


def test_a_summary_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        TensorSummary().mean = 1.0  # type: ignore[misc]
