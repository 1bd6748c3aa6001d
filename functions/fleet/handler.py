"""Lambda ``fleet``: the table of runs on the dashboard. CloudWatch calls it for each viewer."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

import tocsin.starting
from aws_lambda_powertools.utilities.typing import LambdaContext
from tocsin.aws.clients import real_client
from tocsin.aws.fleet import DOCUMENTATION, MOST_ROWS, fleet_table, stored_runs
from tocsin.aws.settings import FleetSettings
from tocsin.observability import logger

settings = FleetSettings.read()
s3 = real_client("s3")
tocsin.starting.started()


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> str:
    """HTML, or the widget's documentation if the event asks for that."""
    if event.get("describe"):
        return DOCUMENTATION
    runs = (run for _, run in stored_runs(s3, settings.state_bucket, MOST_ROWS))
    region, bucket = os.environ["AWS_REGION"], settings.state_bucket
    return fleet_table(runs, datetime.now(UTC), region, bucket)
