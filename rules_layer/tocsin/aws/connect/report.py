"""What ``report`` is connected to."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from tocsin.aws.clients import Client, LazyClient
from tocsin.aws.reports import S3Reports, make_report
from tocsin.aws.s3 import S3Checkpoints, S3Traces
from tocsin.aws.settings import ReportSettings
from tocsin.tensors import open_storage


def connect_report(
    settings: ReportSettings, client: Client = LazyClient, now: Callable[[], float] = time.time
) -> Callable[[str], bool]:
    """Writes the report of a run (URL); returns whether there was anything new to write."""
    s3 = client("s3")
    return partial(
        make_report,
        reports=S3Reports(s3, settings.state_bucket),
        checkpoints=S3Checkpoints(s3, settings.state_bucket),
        traces=S3Traces(s3, settings.state_bucket),
        storage=lambda run: open_storage(run, client=s3),
        now=now,
    )
