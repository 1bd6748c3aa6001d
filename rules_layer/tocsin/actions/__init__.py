"""Actions: stop the job, tell people, publish a metric. One file each."""

from __future__ import annotations

from tocsin.actions._alert import Alert, BadAlert, Notify, Silenced, Status, Steps, Summary, decode
from tocsin.actions._ports import Job, Links, Message, NotRunning, Ports, UnknownEndpoint
from tocsin.actions._recipient import recipients, refusal
from tocsin.actions._request import Action, Outcome, Request, Result
from tocsin.actions._take import ACTIONS, take

__all__ = [
    "ACTIONS",
    "Action",
    "Alert",
    "BadAlert",
    "Job",
    "Links",
    "Message",
    "NotRunning",
    "Notify",
    "Outcome",
    "Ports",
    "Request",
    "Result",
    "Silenced",
    "Status",
    "Steps",
    "Summary",
    "UnknownEndpoint",
    "decode",
    "recipients",
    "refusal",
    "take",
]
