"""Lambda ``patrol``: once a minute, hints at every run that is due."""

from __future__ import annotations

import time
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from tocsin.evaluation.aws import PatrolSettings, connect_patrol, read_settings
from tocsin.observability import logger

patrol = connect_patrol(read_settings(PatrolSettings))


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Raises if the queue did not take every hint; the runs are still due a minute later."""
    logger.info("patrolled", extra={"hints": patrol(time.time())})
