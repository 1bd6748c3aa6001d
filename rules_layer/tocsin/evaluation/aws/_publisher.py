"""Status changes as events on the bus and as CloudWatch metrics."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from tocsin.evaluation._checkpoint import RuleSummary, StatusChange
from tocsin.model import RuleStatus
from tocsin.tensors import job_name

SOURCE = "tocsin"
DETAIL_TYPE = "Tocsin Rule Evaluation Status Change"
NAMESPACE = "Tocsin"
_METRIC = {
    (RuleStatus.IN_PROGRESS, RuleStatus.ISSUES_FOUND): 1.0,
    (RuleStatus.ERROR, RuleStatus.ISSUES_FOUND): 1.0,
    (RuleStatus.ISSUES_FOUND, RuleStatus.IN_PROGRESS): 0.0,
}


class NotPublished(Exception):
    """The bus did not take every event; they stay in the outbox and are sent again."""


class AwsPublisher:
    """Events first, they stop jobs; then the metric IssuesFound."""

    def __init__(
        self, events: Any, cloudwatch: Any, bus: str, now: Callable[[], float], job_metrics: bool
    ) -> None:
        self._events = events
        self._cloudwatch = cloudwatch
        self._bus = bus
        self._now = now
        self._job_metrics = job_metrics

    def publish(self, run: str, changes: Sequence[StatusChange]) -> None:
        entries = [
            {
                "Source": SOURCE,
                "DetailType": DETAIL_TYPE,
                "EventBusName": self._bus,
                "Detail": json.dumps(detail(run, change, self._now())),
            }
            for change in changes
        ]
        for some in _batches(entries, 10):
            answer = self._events.put_events(Entries=some)
            if answer["FailedEntryCount"]:
                codes = {entry.get("ErrorCode") for entry in answer["Entries"]} - {None}
                raise NotPublished(f"{answer['FailedEntryCount']} events not taken: {codes}")
        data = [datum for change in changes for datum in self._metrics(run, change)]
        for some in _batches(data, 500):
            self._cloudwatch.put_metric_data(Namespace=NAMESPACE, MetricData=some)

    def _metrics(self, run: str, change: StatusChange) -> list[dict[str, Any]]:
        value = _METRIC.get((change.previous, change.status))
        if value is None:
            return []
        rule = {"Name": "Rule", "Value": change.name[:1024]}
        job = {"Name": "TrainingJobName", "Value": job_name(run)[:1024]}
        dimensions = [[rule], [rule, job]] if self._job_metrics else [[rule]]
        return [
            {"MetricName": "IssuesFound", "Dimensions": by, "Value": value, "Unit": "Count"}
            for by in dimensions
        ]


def _batches(items: list[dict[str, Any]], most: int) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(items), most):
        yield items[start : start + most]


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
        "DebugRuleEvaluationStatuses": [_status(summary) for summary in change.statuses],
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
