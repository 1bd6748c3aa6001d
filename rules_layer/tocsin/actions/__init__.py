"""Actions: stop the job, tell people, publish a metric. One file each."""

from __future__ import annotations

from tocsin.actions._ports import Job, Links, Message, NotRunning, Ports, UnknownEndpoint
from tocsin.actions._recipient import recipients, refusal
from tocsin.actions._request import Action, Outcome, Request, Result
from tocsin.actions._take import ACTIONS, take

__all__ = [
    "ACTIONS",
    "Action",
    "Job",
    "Links",
    "Message",
    "NotRunning",
    "Outcome",
    "Ports",
    "Request",
    "Result",
    "UnknownEndpoint",
    "recipients",
    "refusal",
    "take",
]
