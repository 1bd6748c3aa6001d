"""What is news of a run as events on the bus, changes of status also as CloudWatch metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from botocore.exceptions import ClientError

from tocsin.events import (
    DETAIL_TYPES,
    ISSUES_FOUND,
    METRIC_NAMESPACE,
    SOURCE,
    ConfigurationRefused,
    RunEvent,
    StatusChange,
    encode,
    timestamp,
)
from tocsin.model import RuleStatus
from tocsin.words import label

# EventBridge takes 10 entries and 256 KB in a request; a target gets the detail in an envelope.
_MOST_ENTRIES = 10
_MOST_BYTES = 240_000
_MOST_DETAIL = 200_000
_MOST_DATA = 500

_METRIC: dict[tuple[RuleStatus | None, RuleStatus], float] = {
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

    def publish(self, events: Sequence[RunEvent]) -> None:
        for entries in _requests(self._entry(event) for event in events):
            answer = self._events.put_events(Entries=entries)
            if answer["FailedEntryCount"]:
                codes = {entry.get("ErrorCode") for entry in answer["Entries"]} - {None}
                raise NotPublished(f"{answer['FailedEntryCount']} events not taken: {codes}")
        changes = [event for event in events if isinstance(event, StatusChange)]
        data = [datum for change in changes for datum in self._metrics(change)]
        for start in range(0, len(data), _MOST_DATA):
            self._put_metrics(data[start : start + _MOST_DATA])

    def _entry(self, event: RunEvent) -> dict[str, str]:
        if not isinstance(event, ConfigurationRefused):
            event = msgspec.structs.replace(event, evaluated_at=timestamp(self._now()))
        return {
            "Source": SOURCE,
            "DetailType": DETAIL_TYPES[type(event)],
            "EventBusName": self._bus,
            "Detail": encode(event, _MOST_DETAIL),
        }

    def _metrics(self, change: StatusChange) -> list[dict[str, Any]]:
        value = _METRIC.get((change.previous_status, change.rule_evaluation_status))
        if value is None:
            return []
        rule = {"Name": "Rule", "Value": label(change.rule_configuration_name)}
        job = {"Name": "TrainingJobName", "Value": label(change.training_job_name)}
        # without dimensions: what the deployment's alarm looks at
        dimensions = [[], [rule], [rule, job]] if self._job_metrics else [[], [rule]]
        return [
            {"MetricName": ISSUES_FOUND, "Dimensions": by, "Value": value, "Unit": "Count"}
            for by in dimensions
        ]

    def _put_metrics(self, data: list[dict[str, Any]]) -> None:
        """CloudWatch refuses a request for one bad datum. The others are sent without it; it
        would be as bad the next time, and hold up all that comes after it in the outbox.
        """
        try:
            self._cloudwatch.put_metric_data(Namespace=METRIC_NAMESPACE, MetricData=data)
        except ClientError as error:
            if not error.response["Error"]["Code"].startswith(("InvalidParameter", "Validation")):
                raise
            for datum in data if len(data) > 1 else ():
                self._put_metrics([datum])


def _requests(entries: Iterable[dict[str, str]]) -> Iterator[list[dict[str, str]]]:
    """The entries in their order, as many at a time as a request may carry."""
    request: list[dict[str, str]] = []
    room = _MOST_BYTES
    for entry in entries:
        size = sum(len(entry[part].encode()) for part in ("Source", "DetailType", "Detail"))
        if request and (len(request) == _MOST_ENTRIES or size > room):
            yield request
            request, room = [], _MOST_BYTES
        request.append(entry)
        room -= size
    if request:
        yield request
