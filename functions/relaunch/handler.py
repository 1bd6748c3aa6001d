"""Lambda ``relaunch``: starts a stopped job again. A state machine calls it until it has ended."""

from __future__ import annotations

from typing import Any

import tocsin.starting
from aws_lambda_powertools.utilities.typing import LambdaContext
from tocsin.aws.connect.relaunch import Answer, connect_relaunch
from tocsin.aws.settings import RelaunchSettings
from tocsin.observability import logger

relaunch = connect_relaunch(RelaunchSettings.read())
tocsin.starting.started()


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> Answer:
    """Return the outcome, which is ``waiting`` while the job has not ended."""
    answer = relaunch(event["plan"], event["began"])
    logger.info("relaunch", extra={"job": event["plan"]["job"], **answer})
    return answer
