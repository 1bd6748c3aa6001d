"""Values of CloudWatch metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
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


def issue_metrics(
    changes: Iterable[StatusChange], job_metrics: bool, admit: Callable[[str, str], str | None]
) -> list[Datum]:
    """Return ``IssuesFound``: 1 when a rule begins to fire and 0 when it is resolved.

    A run's own watch file names its rules, and CloudWatch bills each name: without dimensions only,
    where ``admit`` says why the run (URL) must not use another name.
    """
    data: list[Datum] = []
    refused: dict[str, str] = {}
    for change in changes:
        value = _ISSUES.get((change.previous_status, change.rule_evaluation_status))
        if value is None:
            continue
        rule = {"Name": "Rule", "Value": label(change.rule_configuration_name)}
        job = {"Name": "TrainingJobName", "Value": label(change.training_job_name)}
        names = [[rule], [rule, job]] if job_metrics else [[rule]]
        why = admit(change.run, "|".join(label["Value"] for label in names[-1]))
        if why is not None:
            refused[rule["Value"]] = why
        # without dimensions: what the deployment's alarm looks at
        data += [
            {"MetricName": ISSUES_FOUND, "Dimensions": by, "Value": value, "Unit": "Count"}
            for by in ([], *(names if why is None else ()))
        ]
    if refused:
        example, why = next(iter(refused.items()))
        _log.warning(
            "no metric %s of %d rules such as %s: %s", ISSUES_FOUND, len(refused), example, why
        )
    return data
