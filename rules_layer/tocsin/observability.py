"""The logger and the metrics of a Lambda function."""

from __future__ import annotations

from collections.abc import Mapping

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

__all__ = ["count_reasons", "logger", "metrics"]

# Service name, level and namespace come from POWERTOOLS_* in the function's environment. Metrics
# have no dimension, not even the service, because alarms use only their names.
logger = Logger()
metrics = Metrics(service="")


def count_reasons(name: str, reasons: Mapping[str, int]) -> None:
    """Counts in metric ``name`` with the one dimension ``Reason``."""
    for reason, count in reasons.items():
        each = EphemeralMetrics(service="")
        each.add_dimension("Reason", reason)
        each.add_metric(name, MetricUnit.Count, count)
        each.flush_metrics()
