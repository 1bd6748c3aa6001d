"""Lambda ``patrol``: once a minute, hints at every run that is due."""

from __future__ import annotations

import os
import time
from typing import Any

import boto3
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.config import Config
from tocsin.evaluation._patrol import DueIndex, HintQueue, PatrolSettings, patrol
from tocsin.observability import logger

settings = PatrolSettings.read(os.environ)
config = Config(retries={"mode": "standard", "total_max_attempts": 4})
due_runs = DueIndex(boto3.client("dynamodb", config=config), settings.table)
send_hints = HintQueue(boto3.client("sqs", config=config), settings.evaluate_queue_url)


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Raises if the queue did not take every hint; the runs are still due a minute later."""
    sent = patrol(time.time(), due_runs, send_hints)
    logger.info("patrolled", extra={"hints": sent})
