"""Builds what each deployed function needs, from its settings and real clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial

from tocsin.actions import Effects, Links, Lookups, refusal
from tocsin.actions.recent import recent
from tocsin.alerts import AlertPorts, RunCaps
from tocsin.aws.clients import AWS_ERRORS, Client, real_client
from tocsin.aws.cloudwatch import MetricSink
from tocsin.aws.coordination import RUN_PREFIX, DynamoCoordination
from tocsin.aws.dynamodb import Table
from tocsin.aws.events import AwsPublisher, Bus, NotPublished
from tocsin.aws.groups import GROUP_PREFIX, DynamoGroups
from tocsin.aws.iam import Roles
from tocsin.aws.limits import StopGuard, TextCap
from tocsin.aws.members import AllAccounts, member_client
from tocsin.aws.reports import S3Reports, make_report
from tocsin.aws.s3 import KnownRuns, S3Checkpoints, S3Traces
from tocsin.aws.sagemaker import SageMakerJobs
from tocsin.aws.settings import (
    ActSettings,
    EvaluateSettings,
    Names,
    PatrolSettings,
    ReportSettings,
)
from tocsin.aws.silences import DynamoSilences
from tocsin.aws.sns import Topic
from tocsin.aws.sqs import Queue, SqsHints, SqsTimer
from tocsin.aws.ssm import Endpoints
from tocsin.evaluation import EvaluationPorts, PatrolReport, patrol
from tocsin.tensors import open_storage
from tocsin.watch import Watch


def connect_evaluate(
    settings: EvaluateSettings, default: Watch, client: Client = real_client
) -> EvaluationPorts:
    """``default`` is the configuration of runs that bring none. ``client`` makes the client of a
    service by its name; clients are made once, at cold start.
    """
    s3 = client("s3")
    return EvaluationPorts(
        storage=lambda run: open_storage(run, client=s3),
        checkpoints=S3Checkpoints(s3, settings.state_bucket),
        traces=S3Traces(s3, settings.state_bucket),
        coordination=DynamoCoordination(Table(client("dynamodb"), settings.table), time.time),
        publisher=AwsPublisher(
            Bus(client("events"), settings.bus),
            MetricSink(client("cloudwatch"), Names(settings.stage or "").namespace),
            time.time,
            settings.job_metrics,
        ),
        hints=SqsHints(Queue(client("sqs"), settings.evaluate_queue_url)),
        jobs=_jobs(settings.member_roles, client),
        default=default,
        now=time.time,
        outages=(*AWS_ERRORS, OSError, NotPublished),
    )


def connect_act(
    settings: ActSettings, client: Client = real_client, now: Callable[[], float] = time.time
) -> AlertPorts:
    """The stores and the timer for decisions about alerts, and what actions use."""
    s3, table = client("s3"), Table(client("dynamodb"), settings.table)
    jobs = _jobs(settings.member_roles, client)
    topic = Topic(
        client("sns"), settings.topic_arn, {"email": settings.emails, "sms": settings.phones}
    )
    names = Names(settings.stage or "")
    allowed = (*settings.emails, *settings.phones, *settings.allowed_recipients)
    return AlertPorts(
        groups=DynamoGroups(table, now),
        silences=DynamoSilences(table, now),
        checkpoints=KnownRuns(S3Checkpoints(s3, settings.state_bucket), now),
        timer=SqsTimer(Queue(client("sqs"), settings.act_queue_url)),
        lookups=Lookups(
            describe_job=jobs.to_stop,
            job_tags=jobs.tags,
            refuses=lambda kind, recipient: refusal(kind, recipient, allowed),
            recent=lambda alert: recent(open_storage(alert.run, client=s3), alert),
            now=lambda: datetime.fromtimestamp(now(), UTC),
            broadcast={"email": len(settings.emails), "sms": len(settings.phones)},
            links=Links(dashboard=settings.dashboard),
            report=S3Reports(s3, settings.state_bucket).links,
            namespace=names.namespace,
            role_prefix=Roles(client("iam")).prefix,
        ),
        effects=Effects(
            reserve_stop=StopGuard(table, settings.stop_limit, settings.ceiling, now).may,
            stop_job=jobs.stop,
            write=lambda run, key, data: open_storage(run, client=s3).write(key, data),
            subscribe=topic.subscribe,
            reserve_texts=TextCap(table, settings.sms_monthly_cap, now).may,
            publish=topic.publish,
            post=Endpoints(client("ssm"), settings.webhooks, prefix=names.webhooks).post,
            put_metric=MetricSink(client("cloudwatch"), names.namespace).put,
        ),
        put_event=Bus(client("events"), settings.bus).put,
        now=now,
        caps=RunCaps(settings.texts_of_run, settings.email_run_cap, settings.metric_run_cap),
    )


def _jobs(member_roles: Sequence[str], client: Client) -> SageMakerJobs | AllAccounts:
    own = SageMakerJobs(client("sagemaker"))
    if not member_roles:
        return own
    sts = client("sts")
    members = (SageMakerJobs(member_client(role, sts)) for role in member_roles)
    return AllAccounts((own, *members))


def connect_report(
    settings: ReportSettings, client: Client = real_client, now: Callable[[], float] = time.time
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


def connect_patrol(
    settings: PatrolSettings, client: Client = real_client
) -> Callable[..., PatrolReport]:
    """``patrol`` for one deployment: takes the time, and ``ends``."""
    sqs = client("sqs")
    senders = {
        RUN_PREFIX: SqsHints(Queue(sqs, settings.evaluate_queue_url)).send_ticks,
        GROUP_PREFIX: SqsTimer(Queue(sqs, settings.act_queue_url)).flush_all,
    }
    due = Table(client("dynamodb"), settings.table).due
    return partial(patrol, due=due, senders=senders)
