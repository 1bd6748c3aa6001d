"""The services that ``report`` is connected to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from tocsin.alerts import GroupStore
from tocsin.aws.clients import Client, LazyClient
from tocsin.aws.dynamodb import Table
from tocsin.aws.groups import DynamoGroups
from tocsin.aws.reports import Later, S3Reports, make_report
from tocsin.aws.s3 import S3Checkpoints, S3Traces
from tocsin.aws.settings import ReportSettings
from tocsin.aws.sqs import Queue
from tocsin.own_messages import encode_flush
from tocsin.profile import open_run
from tocsin.report import Alert, actions_of


def connect_report(
    settings: ReportSettings, client: Client = LazyClient, now: Callable[[], float] = time.time
) -> Callable[[str], bool]:
    """Write the report of a run (URL); return whether it was written now."""
    s3 = client("s3")
    queue = Queue(client("sqs"), settings.report_queue_url)
    groups = DynamoGroups(Table(client("dynamodb"), settings.table), now)
    return partial(
        make_report,
        reports=S3Reports(s3, settings.state_bucket),
        checkpoints=S3Checkpoints(s3, settings.state_bucket),
        traces=S3Traces(s3, settings.state_bucket),
        storage=lambda run: open_run(run, client=s3),
        actions=partial(_actions, groups),
        now=now,
        later=Later(lambda run, delay: queue.send(encode_flush(run), delay)),
    )


def _actions(groups: GroupStore, run: str) -> Sequence[Alert]:
    try:
        return actions_of(groups.load(run).group)
    except ValueError:  # a damaged group costs the page its actions only
        return ()
