"""The services that ``evaluate`` is connected to."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from tocsin.aws.clients import AWS_ERRORS, Client, LazyClient, is_denied
from tocsin.aws.cloudwatch import MetricSink
from tocsin.aws.coordination import DynamoCoordination
from tocsin.aws.dynamodb import Table
from tocsin.aws.events import AwsPublisher, Bus, NotPublished
from tocsin.aws.limits import Shares, issue_caps
from tocsin.aws.members import all_jobs
from tocsin.aws.s3 import S3Checkpoints, S3Traces
from tocsin.aws.settings import EvaluateSettings, Names
from tocsin.aws.sqs import Queue, SqsHints
from tocsin.aws.turns import Turns
from tocsin.evaluation import EvaluationPorts
from tocsin.owners import owner_of
from tocsin.profile import open_run
from tocsin.watch import Watch


def connect_evaluate(
    settings: EvaluateSettings,
    default: Watch,
    client: Client = LazyClient,
    now: Callable[[], float] = time.time,
) -> EvaluationPorts:
    """``default`` is the configuration of runs that bring none. ``client`` makes the client of a
    service by its name; each is made once, at its first call.
    """
    s3, table = client("s3"), Table(client("dynamodb"), settings.table)
    owner = partial(owner_of, prefix=settings.capture_prefix)
    shares = Shares(table, issue_caps(settings.metric_run_cap), owner, now)
    return EvaluationPorts(
        storage=lambda run: open_run(run, client=s3),
        checkpoints=S3Checkpoints(s3, settings.state_bucket),
        traces=S3Traces(s3, settings.state_bucket),
        coordination=DynamoCoordination(table, now),
        publisher=AwsPublisher(
            Bus(client("events"), settings.bus),
            MetricSink(client("cloudwatch"), Names(settings.stage or "").namespace),
            now,
            settings.job_metrics,
            partial(shares.admit, "issue"),
        ),
        hints=SqsHints(Queue(client("sqs"), settings.evaluate_queue_url)),
        jobs=all_jobs(settings.member_roles, client),
        default=default,
        now=now,
        outages=(*AWS_ERRORS, OSError, NotPublished),
        is_denied=is_denied,
        owner=owner,
        turns=lambda of: Turns(table, settings.backlog_turns, now, f"backlog#{of}"),
        prices=settings.by_type,
    )
