"""The wiring of the deployed function ``patrol``: who is told when something is due."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tocsin.alerts.aws._connect import Client, real_client
from tocsin.alerts.aws._groups import PREFIX
from tocsin.alerts.aws._settings import PatrolSettings
from tocsin.alerts.aws._timer import SqsTimer
from tocsin.evaluation import patrol
from tocsin.evaluation.aws import RUN_PREFIX, SqsHints, due_items


def connect_patrol(
    settings: PatrolSettings, client: Client = real_client
) -> Callable[[float], int]:
    """``patrol`` for one deployment: takes the time, returns how many messages were sent."""
    dynamodb, sqs = client("dynamodb"), client("sqs")
    senders = {
        RUN_PREFIX: SqsHints(sqs, settings.evaluate_queue_url).send_ticks,
        PREFIX: SqsTimer(sqs, settings.act_queue_url).flush_all,
    }
    return partial(patrol, due=partial(due_items, dynamodb, settings.table), senders=senders)
