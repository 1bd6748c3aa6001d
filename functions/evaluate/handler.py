"""Lambda ``evaluate``: evaluates new steps of a run."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import tocsin.starting
from aws_lambda_powertools.utilities.typing import LambdaContext
from tocsin.aws.clients import LazyClient
from tocsin.aws.connect.evaluate import connect_evaluate
from tocsin.aws.installed_rules import load_installed_rules
from tocsin.aws.settings import EvaluateSettings
from tocsin.aws.sqs import Queue, Received
from tocsin.evaluation import Hint, JobEnded, end_job, evaluate, handle_batch
from tocsin.observability import logger, metrics
from tocsin.watch import read_watch

load_installed_rules()
settings = EvaluateSettings.read()
ports = connect_evaluate(settings, read_watch(Path(__file__).with_name("watch.json")))
queue = Queue(LazyClient("sqs"), settings.evaluate_queue_url)
tocsin.starting.started()


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Handles up to ten SQS messages. What fails, SQS delivers again, up to five times."""
    ends = time.time() + context.get_remaining_time_in_millis() / 1000
    handle = partial(_handle, owner=context.aws_request_id, ends=ends)
    batch = Received(queue, event["Records"])
    failures = handle_batch(batch.bodies, handle, batch.hand_on, owner=ports.owner)
    for error in failures.errors:
        logger.error("message failed", exc_info=error)
    return batch.answer(failures)


def _handle(message: Hint | JobEnded, owner: str, ends: float) -> None:
    if isinstance(message, JobEnded):
        logger.info("job has ended", extra={"runs": end_job(message, ports)})
        return
    report = evaluate(message, ports, owner=owner, ends=ends)
    for line in report.log:
        logger.warning(line)
    for name, unit, value in report.metrics:
        metrics.add_metric(name, unit, value)
