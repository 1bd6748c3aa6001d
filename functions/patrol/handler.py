"""Lambda ``patrol``: sends a message, once a minute, for each run and group that is due."""

from __future__ import annotations

import time
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from tocsin.aws.connect import connect_patrol
from tocsin.aws.settings import PatrolSettings
from tocsin.observability import logger

patrol = connect_patrol(PatrolSettings.read())


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Raises if a queue did not accept every message. Its run is due again a minute later."""
    logger.info("patrolled", extra={"messages": patrol(time.time())})
