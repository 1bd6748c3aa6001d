"""The world of the deployed function ``act``."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import boto3
from botocore.config import Config

from tocsin.actions import Links, Ports, refusal
from tocsin.actions.aws import Bus, Endpoints, MetricSink, RunFiles, SageMaker, Topic, recent
from tocsin.alerts._react import World
from tocsin.alerts.aws._checkpoints import KnownRuns
from tocsin.alerts.aws._groups import DynamoGroups
from tocsin.alerts.aws._guard import StopGuard
from tocsin.alerts.aws._items import Items
from tocsin.alerts.aws._settings import Settings
from tocsin.alerts.aws._silences import DynamoSilences
from tocsin.alerts.aws._texts import TextCap
from tocsin.alerts.aws._timer import SqsTimer
from tocsin.tensors import open_storage

# "Standard" retries throttling and passing faults, with back-off; what is left SQS retries.
_CONFIG = Config(
    retries={"mode": "standard", "total_max_attempts": 4}, connect_timeout=3, read_timeout=5
)

Client = Callable[[str], Any]


def real_client(service: str) -> Any:
    return boto3.client(service, config=_CONFIG)


def connect(
    settings: Settings, client: Client = real_client, now: Callable[[], float] = time.time
) -> World:
    """All that one deployment's alerts need. ``client`` makes a service's client by its name."""
    s3, dynamodb, table = client("s3"), client("dynamodb"), settings.table
    return World(
        groups=DynamoGroups(dynamodb, table, now),
        silences=DynamoSilences(dynamodb, table, now),
        checkpoints=KnownRuns(s3, settings.state_bucket, now),
        timer=SqsTimer(client("sqs"), settings.act_queue_url),
        ports=_ports(settings, client, s3, dynamodb, now),
        now=now,
    )


def _ports(
    settings: Settings, client: Client, s3: Any, dynamodb: Any, now: Callable[[], float]
) -> Ports:
    jobs, topic = SageMaker(client("sagemaker")), Topic(client("sns"), settings.topic_arn)
    allowed = (*settings.emails, *settings.phones, *settings.allowed_recipients)
    return Ports(
        describe_job=jobs.describe,
        job_tags=jobs.tags,
        stop_job=jobs.stop,
        may_stop=StopGuard(Items(dynamodb, settings.table), settings.stop_limit, now).may,
        write=RunFiles(s3).write,
        publish=topic.publish,
        subscribe=topic.subscribe,
        refuses=lambda kind, recipient: refusal(kind, recipient, allowed),
        may_text=TextCap(dynamodb, settings.table, settings.sms_monthly_cap, now).may,
        post=Endpoints(client("ssm"), settings.webhooks).post,
        put_metric=MetricSink(client("cloudwatch")).put,
        put_event=Bus(client("events"), settings.bus).put,
        recent=lambda alert: recent(open_storage(alert.run, client=s3), alert),
        now=lambda: datetime.fromtimestamp(now(), UTC),
        broadcast={"email": len(settings.emails), "sms": len(settings.phones)},
        links=Links(dashboard=settings.dashboard),
    )
