"""Lambda ``act``: looks after the alerts of a run of which something is new, or due."""

from __future__ import annotations

import os
import time
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext
from tocsin.alerts import Report, TryAgain, parse_message, react
from tocsin.alerts.aws import BackOff, Settings, connect, real_client
from tocsin.events import ACTIONS_FAILED, ALERTS_HELD, ALERTS_SENT, STOP_GUARD_TRIPPED
from tocsin.observability import count_reasons, logger, metrics
from tocsin.rules import load_installed

load_installed()
settings = Settings.read(os.environ)
world = connect(settings)
back_off = BackOff(real_client("sqs"), settings.act_queue_url)


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Takes one SQS message; raising brings it back, at last into the dead-letter queue."""
    for record in event["Records"]:
        ends = time.time() + context.get_remaining_time_in_millis() / 1000
        try:
            _tell(react(parse_message(record["body"]), world, ends=ends))
        except TryAgain:
            metrics.add_metric(ACTIONS_FAILED, MetricUnit.Count, 1)
            back_off(record)
            raise


def _tell(report: Report) -> None:
    for line in report.log:
        logger.info(line)
    count_reasons(ALERTS_SENT, report.sent)
    count_reasons(ALERTS_HELD, report.held)
    metrics.add_metric(ACTIONS_FAILED, MetricUnit.Count, report.failed)
    metrics.add_metric(STOP_GUARD_TRIPPED, MetricUnit.Count, report.guarded)
