"""Lambda ``patrol``: sends a message, once a minute, for each run and group that is due."""

from __future__ import annotations

import time
from typing import Any

import tocsin.starting
from aws_lambda_powertools.utilities.typing import LambdaContext
from tocsin.aws.connect.patrol import connect_patrol
from tocsin.aws.settings import PatrolSettings
from tocsin.observability import logger

MARGIN = 10.0  # seconds, to count what is left

patrol = connect_patrol(PatrolSettings.read())
tocsin.starting.started()


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Raises if a queue did not accept every message. Its run is due again a minute later."""
    now = time.time()
    report = patrol(now, ends=now + context.get_remaining_time_in_millis() / 1000 - MARGIN)
    log = logger.warning if report.left else logger.info
    log("patrolled", extra={"messages": report.sent, "left": report.left})
