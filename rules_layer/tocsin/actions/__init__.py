"""Actions: stop the job, tell people, publish a metric. One file each."""

from __future__ import annotations

from tocsin.actions._act import ActionsFailed, Busy, Once, act
from tocsin.actions._alert import Alert, BadAlert, decode
from tocsin.actions._aws import connect
from tocsin.actions._once import remembering
from tocsin.actions._ports import Job, Message, NotRunning, Ports
from tocsin.actions._request import Outcome, Request, Result
from tocsin.actions._settings import Settings

__all__ = [
    "ActionsFailed",
    "Alert",
    "BadAlert",
    "Busy",
    "Job",
    "Message",
    "NotRunning",
    "Once",
    "Outcome",
    "Ports",
    "Request",
    "Result",
    "Settings",
    "act",
    "connect",
    "decode",
    "remembering",
]
