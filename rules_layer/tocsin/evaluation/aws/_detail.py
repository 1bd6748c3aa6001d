"""What is published as the details of events, never larger than the bus takes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from tocsin.evaluation._news import Refusal, RuleSummary, RunSummary, StatusChange
from tocsin.tensors import job_name
from tocsin.watch import Policy, Silence

_STATUSES = "DebugRuleEvaluationStatuses"
_SILENCES = "Silences"


def detail(run: str, change: StatusChange, now: float) -> dict[str, Any]:
    """A status change as the interface promises it."""
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
        "Sequence": change.sequence,
        "Inhibits": list(change.inhibits),
        "Notify": _notify(change.policy),
        _SILENCES: [_silence(silence) for silence in change.silences],
        _STATUSES: [_status(summary) for summary in change.statuses],
    }


def summary_detail(run: str, summary: RunSummary, now: float) -> dict[str, Any]:
    """A run's end as the interface promises it."""
    return {
        "TrainingJobName": job_name(run),
        "Run": run,
        "RunId": summary.run_id,
        "Ending": summary.ending,
        "Sequence": summary.sequence,
        "Steps": {
            "evaluated": summary.evaluated,
            "first": summary.first,
            "last": summary.last,
        },
        "RuleEvaluationStatus": None if summary.status is None else summary.status.value,
        "Summary": list(summary.policy.summary),
        "Notify": _notify(summary.policy),
        "DryRun": summary.dry_run,
        "EvaluatedAt": _iso(now),
        "DedupId": summary.dedup_id,
        _SILENCES: [_silence(silence) for silence in summary.silences],
        _STATUSES: [_status(status) for status in summary.statuses],
    }


def refusal_detail(run: str, refusal: Refusal) -> dict[str, Any]:
    """A part of a configuration that cannot be used, as the interface promises it."""
    return {
        "TrainingJobName": job_name(run),
        "Run": run,
        "RunId": refusal.run_id,
        "Where": refusal.where,
        "Detail": refusal.why,
        "DedupId": refusal.dedup_id,
    }


def encode_detail(detail: dict[str, Any], most: int) -> str:
    """The detail as JSON in at most ``most`` bytes of UTF-8.

    What says least gives way first: the details of the run's statuses, then the last of these
    statuses; then all silences but the one that lasts longest, which holds back as much; at last
    what a rule tells of its finding, which may be anybody's rule. The rest is bounded: by the key
    of the run, and by the limits of the watch file and of status details.
    """
    data = b""
    for candidate in _ever_smaller(detail):
        data = msgspec.json.encode(candidate)
        if len(data) <= most:
            break
    return data.decode()


def _ever_smaller(detail: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield detail
    statuses = [{**status, "StatusDetails": ""} for status in detail.get(_STATUSES, ())]
    while statuses:
        yield {**detail, _STATUSES: statuses}
        statuses = statuses[: len(statuses) // 2]
    less = {**detail, _STATUSES: [], _SILENCES: detail.get(_SILENCES, [])[-1:]}
    yield {**detail, _STATUSES: []}
    yield less
    yield {**less, "Evidence": {}, "Tensor": None, "Worker": None}


def _notify(policy: Policy) -> dict[str, Any]:
    return {
        "GroupWait": policy.group_wait,
        "RepeatInterval": policy.repeat_interval,
        "SendResolved": policy.send_resolved,
        "Summary": list(policy.summary),
    }


def _silence(silence: Silence) -> dict[str, Any]:
    return {
        "Until": msgspec.to_builtins(silence.until),
        "Job": silence.job,
        "Author": silence.author,
        "Reason": silence.reason,
        "Id": silence.id,
    }


def _status(summary: RuleSummary) -> dict[str, Any]:
    return {
        "RuleConfigurationName": summary.name,
        "RuleEvaluationStatus": summary.status.value,
        "StatusDetails": summary.details,
        "LastModifiedTime": None if summary.changed_at is None else _iso(summary.changed_at),
    }


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
