"""The services that ``act`` is connected to."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from tocsin.actions import Effects, Links, Lookups, refusal
from tocsin.actions.beside import machine_findings
from tocsin.actions.recent import recent
from tocsin.alerts import AlertPorts, RunCaps
from tocsin.aws.clients import Client, LazyClient
from tocsin.aws.cloudwatch import MetricSink
from tocsin.aws.dynamodb import Table
from tocsin.aws.events import Bus
from tocsin.aws.groups import DynamoGroups
from tocsin.aws.known_runs import KnownRuns
from tocsin.aws.limits import Shares, StopGuard, action_caps
from tocsin.aws.members import all_jobs
from tocsin.aws.reports import S3Reports
from tocsin.aws.s3 import S3Checkpoints
from tocsin.aws.settings import ActSettings, Names
from tocsin.aws.silences import DynamoSilences
from tocsin.aws.sns import Topic
from tocsin.aws.sqs import Queue, SqsTimer
from tocsin.aws.ssm import Endpoints
from tocsin.aws.stepfunctions import start_once
from tocsin.aws.turns import Turns
from tocsin.owners import owner_of
from tocsin.tensors import open_storage


def connect_act(
    settings: ActSettings, client: Client = LazyClient, now: Callable[[], float] = time.time
) -> AlertPorts:
    """Return the stores, timer and action services of ``act``."""
    s3, table = client("s3"), Table(client("dynamodb"), settings.table)
    jobs = all_jobs(settings.member_roles, client)
    owner = partial(owner_of, prefix=settings.capture_prefix)
    caps = RunCaps(
        settings.texts_of_run,
        settings.email_run_cap,
        settings.metric_run_cap,
        settings.webhook_run_cap,
    )
    shares = Shares(table, action_caps(settings.sms_monthly_cap, caps), owner, now)
    topic = Topic(
        client("sns"),
        settings.topic_arn,
        {"email": settings.emails, "sms": settings.phones},
        reserve=partial(shares.take, "subscription"),
    )
    names = Names(settings.stage or "")
    allowed = (*settings.emails, *settings.phones, *settings.allowed_recipients)
    known = KnownRuns(S3Checkpoints(s3, settings.state_bucket), now)
    return AlertPorts(
        groups=DynamoGroups(table, now),
        silences=DynamoSilences(table, now),
        checkpoints=known,
        timer=SqsTimer(Queue(client("sqs"), settings.act_queue_url)),
        turns=Turns(table, settings.deliverers, now),
        lookups=Lookups(
            describe_job=jobs.to_stop,
            job_tags=jobs.tags,
            refuses=lambda kind, recipient: refusal(kind, recipient, allowed),
            recent=lambda alert: recent(open_storage(alert.run, client=s3), alert),
            now=lambda: datetime.fromtimestamp(now(), UTC),
            broadcast={"email": len(settings.emails), "sms": len(settings.phones)},
            reaches=topic.reaches,
            links=Links(dashboard=settings.dashboard),
            report=S3Reports(s3, settings.state_bucket).links,
            machine=lambda run: machine_findings(run, known.last_changes),
            relaunch_roles=frozenset(settings.relaunch_roles),
            namespace=names.namespace,
        ),
        effects=Effects(
            reserve_stop=StopGuard(table, settings.stop_limit, settings.ceiling, now, owner).may,
            stop_job=jobs.stop,
            relaunch=lambda plan: start_once(
                client("stepfunctions"),
                settings.relaunch_machine or "",  # without roles it is never asked for
                plan.execution,
                {"plan": plan},
            ),
            write=lambda run, key, data: open_storage(run, client=s3).write(key, data),
            subscribe=topic.subscribe,
            reserve=shares.take,
            release=shares.give_back,
            publish=topic.publish,
            post=Endpoints(client("ssm"), settings.webhooks, prefix=names.webhooks).post,
            put_metric=MetricSink(client("cloudwatch"), names.namespace).put,
        ),
        put_events=Bus(client("events"), settings.bus).put_all,
        now=now,
        caps=caps,
        owner=owner,
    )
