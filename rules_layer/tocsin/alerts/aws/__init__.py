"""The AWS side of alerts: one adapter per service and purpose, and the functions' worlds."""

from __future__ import annotations

from tocsin.actions.aws import unconfirmed
from tocsin.alerts.aws._back_off import BackOff
from tocsin.alerts.aws._checkpoints import KnownRuns
from tocsin.alerts.aws._connect import connect, real_client
from tocsin.alerts.aws._groups import DynamoGroups
from tocsin.alerts.aws._guard import StopGuard, counted
from tocsin.alerts.aws._items import Items
from tocsin.alerts.aws._patrol import connect_patrol
from tocsin.alerts.aws._settings import PatrolSettings, Settings
from tocsin.alerts.aws._silences import DynamoSilences
from tocsin.alerts.aws._texts import TextCap
from tocsin.alerts.aws._timer import SqsTimer

__all__ = [
    "BackOff",
    "DynamoGroups",
    "DynamoSilences",
    "Items",
    "KnownRuns",
    "PatrolSettings",
    "Settings",
    "SqsTimer",
    "StopGuard",
    "TextCap",
    "connect",
    "connect_patrol",
    "counted",
    "real_client",
    "unconfirmed",
]
