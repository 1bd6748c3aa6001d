"""Lambda ``report``: writes the page of a run after status changes, actions, and at its end."""

from __future__ import annotations

from typing import Any

import tocsin.starting
from aws_lambda_powertools.utilities.typing import LambdaContext
from tocsin.alerts import named_run
from tocsin.aws.clients import LazyClient
from tocsin.aws.connect.report import connect_report
from tocsin.aws.installed_rules import load_installed_rules
from tocsin.aws.settings import ReportSettings
from tocsin.aws.sqs import Queue
from tocsin.observability import logger

load_installed_rules()
settings = ReportSettings.read()
make = connect_report(settings)
queue = Queue(LazyClient("sqs"), settings.report_queue_url)
tocsin.starting.started()


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Handles one SQS message. After an exception SQS delivers it again, up to five times."""
    for record in event["Records"]:
        try:
            run = named_run(record["body"])
            logger.info("report", extra={"run": run, "written": make(run)})
        except Exception:
            queue.back_off(record)
            raise
