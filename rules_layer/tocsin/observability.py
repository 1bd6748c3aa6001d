"""The one place where a Lambda function's logger and metrics are made."""

from __future__ import annotations

from aws_lambda_powertools import Logger, Metrics

__all__ = ["logger", "metrics"]

# Service name, level and namespace come from POWERTOOLS_* in the function's environment. Metrics
# have no dimension, not even the service: alarms are set on them by name alone.
logger = Logger()
metrics = Metrics(service="")
