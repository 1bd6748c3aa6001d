"""Lambda ``evaluate``: evaluates new steps of a run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from tocsin.aws.clients import real_client
from tocsin.aws.connect import connect_evaluate
from tocsin.aws.settings import EvaluateSettings
from tocsin.aws.sqs import Queue
from tocsin.custom import load_installed
from tocsin.evaluation import EvaluationReport, JobEnded, end_job, evaluate, parse_message
from tocsin.observability import logger, metrics
from tocsin.watch import read_watch

load_installed()
default = read_watch(Path(__file__).with_name("watch.json"))
settings = EvaluateSettings.read()
ports = connect_evaluate(settings, default)
queue = Queue(real_client("sqs"), settings.evaluate_queue_url)


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Handles one SQS message. After an exception SQS delivers it again, up to five times."""
    for record in event["Records"]:
        ends = time.time() + context.get_remaining_time_in_millis() / 1000
        try:
            for message in parse_message(record["body"]):
                if isinstance(message, JobEnded):
                    logger.info("job has ended", extra={"runs": end_job(message.job, ports)})
                else:
                    _count(evaluate(message, ports, owner=context.aws_request_id, ends=ends))
        except Exception:
            queue.back_off(record)
            raise


def _count(report: EvaluationReport) -> None:
    for line in report.log:
        logger.warning(line)
    for name, unit, value in report.metrics:
        metrics.add_metric(name, unit, value)
