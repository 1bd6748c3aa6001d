"""Lambda ``evaluate``: wakes up for a run in which something may be new."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext
from tocsin.evaluation import JobEnded, end_job, evaluate, parse_message
from tocsin.evaluation.aws import Settings, connect, read_settings
from tocsin.events import EVALUATION_LAG, RULE_ERRORS, STEPS_EVALUATED
from tocsin.observability import logger, metrics
from tocsin.rules import load_installed
from tocsin.watch import read_watch

load_installed()
world = connect(read_settings(Settings), read_watch(Path(__file__).with_name("watch.json")))


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Takes one SQS message; raising brings it back, at last into the dead-letter queue."""
    for record in event["Records"]:
        for message in parse_message(record["body"]):
            if isinstance(message, JobEnded):
                logger.info("job is over", extra={"runs": end_job(message.job, world)})
                continue
            ends = time.time() + context.get_remaining_time_in_millis() / 1000
            report = evaluate(message, world, owner=context.aws_request_id, ends=ends)
            for line in report.log:
                logger.warning(line)
            metrics.add_metric(STEPS_EVALUATED, MetricUnit.Count, report.steps)
            metrics.add_metric("BytesRead", MetricUnit.Bytes, report.bytes_read)
            metrics.add_metric("RefusedFiles", MetricUnit.Count, report.refused)
            metrics.add_metric("LateIndexFiles", MetricUnit.Count, report.late)
            metrics.add_metric("MissingWorkers", MetricUnit.Count, report.missing_workers)
            metrics.add_metric("LostSteps", MetricUnit.Count, report.lost_steps)
            metrics.add_metric(RULE_ERRORS, MetricUnit.Count, report.errors)
            if report.steps:
                metrics.add_metric(EVALUATION_LAG, MetricUnit.Milliseconds, 1000 * report.lag)
