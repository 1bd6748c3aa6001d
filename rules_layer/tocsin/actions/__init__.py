"""Actions: stop the job, notify people, publish a metric, post to a webhook."""

from __future__ import annotations

from tocsin.actions.dispatch import ACTIONS, take
from tocsin.actions.next_job import Relaunch
from tocsin.actions.ports import (
    LINK_HOURS,
    NO_EFFECTS,
    CapReached,
    Effects,
    JobToStop,
    Links,
    Lookups,
    NameTaken,
    NotRunning,
    Refused,
    ReportLinks,
    StopHeld,
    TopicMessage,
    UnknownEndpoint,
)
from tocsin.actions.recipient import recipients, refusal
from tocsin.actions.request import Action, ActionOutcome, Request, Result, finding

__all__ = [
    "ACTIONS",
    "LINK_HOURS",
    "NO_EFFECTS",
    "Action",
    "ActionOutcome",
    "CapReached",
    "Effects",
    "JobToStop",
    "Links",
    "Lookups",
    "NameTaken",
    "NotRunning",
    "Refused",
    "Relaunch",
    "ReportLinks",
    "Request",
    "Result",
    "StopHeld",
    "TopicMessage",
    "UnknownEndpoint",
    "finding",
    "recipients",
    "refusal",
    "take",
]
