"""A status change as the detail of an event, never larger than the bus takes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from tocsin.evaluation._checkpoint import RuleSummary, StatusChange
from tocsin.tensors import job_name

_STATUSES = "DebugRuleEvaluationStatuses"


def detail(run: str, change: StatusChange, now: float) -> dict[str, Any]:
    """The event's detail, as the interface promises it."""
    violation = change.violation
    return {
        "TrainingJobName": job_name(run),
        "Run": run,
        "RuleConfigurationName": change.name,
        "Rule": change.rule,
        "RuleEvaluationStatus": change.status.value,
        "PreviousStatus": change.previous.value,
        "StatusDetails": change.details,
        "Severity": change.severity.value,
        "Step": change.step,
        "Mode": change.mode.name,
        "ModeStep": change.mode_step,
        "Worker": violation.worker if violation else None,
        "Tensor": violation.tensor if violation else None,
        "Reason": violation.reason if violation else None,
        "Evidence": dict(violation.evidence) if violation else {},
        "Actions": list(change.actions),
        "DryRun": change.dry_run,
        "IndexLastModified": _iso(change.index_modified),
        "EvaluatedAt": _iso(now),
        "DedupId": change.dedup_id,
        "RunId": change.run_id,
        _STATUSES: [_status(summary) for summary in change.statuses],
    }


def encode_detail(detail: dict[str, Any], most: int) -> str:
    """The detail as JSON in at most ``most`` bytes of UTF-8.

    What says least gives way first: the details of the run's statuses, then the last of these
    statuses, at last what a rule tells of its finding, which may be anybody's rule. The rest is
    bounded: by the key of the run, and by the limits of the watch file and of status details.
    """
    data = b""
    for candidate in _ever_smaller(detail):
        data = msgspec.json.encode(candidate)
        if len(data) <= most:
            break
    return data.decode()


def _ever_smaller(detail: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield detail
    statuses = [{**status, "StatusDetails": ""} for status in detail[_STATUSES]]
    while statuses:
        yield {**detail, _STATUSES: statuses}
        statuses = statuses[: len(statuses) // 2]
    yield {**detail, _STATUSES: []}
    yield {**detail, _STATUSES: [], "Evidence": {}, "Tensor": None, "Worker": None}


def _status(summary: RuleSummary) -> dict[str, Any]:
    return {
        "RuleConfigurationName": summary.name,
        "RuleEvaluationStatus": summary.status.value,
        "StatusDetails": summary.details,
        "LastModifiedTime": None if summary.changed_at is None else _iso(summary.changed_at),
    }


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
