"""Lambda ``act``: decides on the alerts of a run and acts on them."""

from __future__ import annotations

import time
from typing import Any

import tocsin.starting
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext
from tocsin.alerts import ActReport, TryAgain, parse_message, react
from tocsin.aws.clients import LazyClient
from tocsin.aws.connect.act import connect_act
from tocsin.aws.installed_rules import load_installed_rules
from tocsin.aws.settings import ActSettings
from tocsin.aws.sqs import Queue
from tocsin.events import ACTIONS_FAILED, ALERTS_HELD, ALERTS_SENT, STOP_GUARD_TRIPPED
from tocsin.observability import count_reasons, logger, metrics

load_installed_rules()
settings = ActSettings.read()
ports = connect_act(settings)
queue = Queue(LazyClient("sqs"), settings.act_queue_url)
tocsin.starting.started()


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Handles one SQS message. What fails, SQS delivers again, up to five times."""
    for record in event["Records"]:
        ends = time.time() + context.get_remaining_time_in_millis() / 1000
        try:
            _record(react(parse_message(record["body"]), ports, ends=ends))
        except Exception as error:
            queue.back_off(record)
            if not isinstance(error, TryAgain):  # that is no error: others work on the same run
                raise
            logger.info(str(error))
            return {"batchItemFailures": [{"itemIdentifier": record["messageId"]}]}
    return {}


def _record(report: ActReport) -> None:
    for line in report.log:
        logger.info(line)
    count_reasons(ALERTS_SENT, report.sent)
    count_reasons(ALERTS_HELD, report.held)
    metrics.add_metric(ACTIONS_FAILED, MetricUnit.Count, report.failed)
    metrics.add_metric(STOP_GUARD_TRIPPED, MetricUnit.Count, report.guarded)
