"""The services that ``patrol`` is connected to."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tocsin.aws.clients import Client, LazyClient
from tocsin.aws.dynamodb import Table
from tocsin.aws.settings import GROUP_PREFIX, RUN_PREFIX, PatrolSettings
from tocsin.aws.sqs import Queue, SqsHints, SqsTimer
from tocsin.patrol import PatrolReport, patrol


def connect_patrol(
    settings: PatrolSettings, client: Client = LazyClient
) -> Callable[..., PatrolReport]:
    """``patrol`` for one deployment: takes the time, and ``ends``."""
    sqs = client("sqs")
    senders = {
        RUN_PREFIX: SqsHints(Queue(sqs, settings.evaluate_queue_url)).send_ticks,
        GROUP_PREFIX: SqsTimer(Queue(sqs, settings.act_queue_url)).flush_all,
    }
    due = Table(client("dynamodb"), settings.table).due
    return partial(patrol, due=due, senders=senders)
