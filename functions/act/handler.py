"""Lambda ``act``: takes the actions of one alert."""

from __future__ import annotations

import os
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext
from msgspec import to_builtins
from tocsin.actions import ActionsFailed, Settings, act, connect, decode, remembering
from tocsin.observability import logger, metrics
from tocsin.rules import load_installed

load_installed()
ports, memory = connect(Settings.read(os.environ))


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Takes an SQS message with a status change in it; raising brings the message back later."""
    once = remembering(memory, context)
    for record in event["Records"]:
        alert = decode(record["body"])
        failed = 0
        try:
            results = act(alert, ports, once)
            logger.info(
                "acted", extra={"dedup_id": alert.dedup_id, "results": to_builtins(results)}
            )
        except ActionsFailed as error:
            failed = len(error.failed)
            raise
        finally:
            metrics.add_metric("ActionsFailed", MetricUnit.Count, failed)
