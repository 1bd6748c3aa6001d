"""Lambda ``patrol``: once a minute, sends for every run of which something is due."""

from __future__ import annotations

import os
import time
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from tocsin.alerts.aws import PatrolSettings, connect_patrol
from tocsin.evaluation.aws import read_settings
from tocsin.observability import logger

patrol = connect_patrol(read_settings(PatrolSettings, os.environ))


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Raises if a queue did not take every message; what it was for is due a minute later."""
    logger.info("patrolled", extra={"messages": patrol(time.time())})
