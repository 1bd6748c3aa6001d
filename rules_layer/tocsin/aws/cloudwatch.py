"""Values of CloudWatch metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from tocsin.aws.clients import error_code
from tocsin.events import ISSUES_FOUND, METRIC_NAMESPACE, StatusChange
from tocsin.model import RuleStatus
from tocsin.words import label

Datum = dict[str, Any]

_log = logging.getLogger("tocsin")

_MOST_DATA = 500  # that CloudWatch takes in a request

_ISSUES: dict[tuple[RuleStatus | None, RuleStatus], float] = {
    (RuleStatus.IN_PROGRESS, RuleStatus.ISSUES_FOUND): 1.0,
    (RuleStatus.ERROR, RuleStatus.ISSUES_FOUND): 1.0,
    (RuleStatus.ISSUES_FOUND, RuleStatus.IN_PROGRESS): 0.0,
}


@dataclass(frozen=True)
class MetricSink:
    client: Any
    namespace: str = METRIC_NAMESPACE

    def put(self, name: str, value: float, dimensions: Mapping[str, str]) -> None:
        """Add one value; raise if CloudWatch refuses it."""
        labels = [{"Name": key, "Value": label} for key, label in dimensions.items()]
        self._put([{"MetricName": name, "Value": value, "Dimensions": labels}])

    def put_all(self, data: Sequence[Datum]) -> None:
        """Add all but those that CloudWatch refuses: it refuses a request for one bad datum, which
        would be as bad the next time, and hold up all that comes after it.
        """
        for start in range(0, len(data), _MOST_DATA):
            self._put_acceptable(data[start : start + _MOST_DATA])

    def _put_acceptable(self, data: Sequence[Datum]) -> None:
        try:
            self._put(data)
        except ClientError as error:
            if not error_code(error).startswith(("InvalidParameter", "Validation")):
                raise
            for datum in data if len(data) > 1 else ():
                self._put_acceptable([datum])

    def _put(self, data: Sequence[Datum]) -> None:
        self.client.put_metric_data(Namespace=self.namespace, MetricData=data)


Admit = Callable[[str, Collection[str]], Mapping[str, str]]
"""Says why a run (URL) must not use names in metrics, by name."""


def issue_metrics(
    changes: Iterable[StatusChange], job_metrics: bool, admit: Admit
) -> Iterator[Datum]:
    """Yield ``IssuesFound`` of one run: 1 when a rule begins to fire and 0 when it is resolved.

    A run's own watch file names its rules, and CloudWatch bills each name: without dimensions only,
    where ``admit`` refuses the name.
    """
    found = [(change, value) for change in changes if (value := _issue(change)) is not None]
    if not found:
        return
    names = [
        "|".join(each["Value"] for each in _labels(change, job_metrics)) for change, _ in found
    ]
    refused = admit(found[0][0].run, names)
    if refused:
        example = next(iter(refused))
        text = "no metric %s by %d names such as %s: %s"
        _log.warning(text, ISSUES_FOUND, len(refused), example, refused[example])
    for (change, value), name in zip(found, names, strict=True):
        labels = [] if name in refused else _labels(change, job_metrics)
        # without dimensions: what the deployment's alarm looks at
        for by in range(len(labels) + 1):
            yield {
                "MetricName": ISSUES_FOUND,
                "Dimensions": labels[:by],
                "Value": value,
                "Unit": "Count",
            }


def _issue(change: StatusChange) -> float | None:
    return _ISSUES.get((change.previous_status, change.rule_evaluation_status))


def _labels(change: StatusChange, job_metrics: bool) -> list[dict[str, str]]:
    rule = {"Name": "Rule", "Value": label(change.rule_configuration_name)}
    job = {"Name": "TrainingJobName", "Value": label(change.training_job_name)}
    return [rule, job] if job_metrics else [rule]
