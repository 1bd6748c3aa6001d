"""Alerts: decide notifications in the stages inhibit, silence, dedup, wait, act, record."""

from __future__ import annotations

from tocsin.alerts.group import (
    AlertGroup,
    LogEntry,
    RuleAlert,
    Sent,
    Task,
    alerts_document,
    decode_group,
    encode_group,
)
from tocsin.alerts.messages import (
    Deliver,
    Flush,
    Incoming,
    Relaunched,
    named_run,
    parse_message,
)
from tocsin.alerts.ports import (
    AlertPorts,
    Checkpoints,
    CommitConflict,
    GroupStore,
    Known,
    Silences,
    StoredGroup,
    Timer,
    Turns,
)
from tocsin.alerts.reaction import ActReport, TryAgain, react
from tocsin.alerts.spending import RunCaps
from tocsin.alerts.stage import Hold, Send

__all__ = [
    "ActReport",
    "AlertGroup",
    "AlertPorts",
    "Checkpoints",
    "CommitConflict",
    "Deliver",
    "Flush",
    "GroupStore",
    "Hold",
    "Incoming",
    "Known",
    "LogEntry",
    "Relaunched",
    "RuleAlert",
    "RunCaps",
    "Send",
    "Sent",
    "Silences",
    "StoredGroup",
    "Task",
    "Timer",
    "TryAgain",
    "Turns",
    "alerts_document",
    "decode_group",
    "encode_group",
    "named_run",
    "parse_message",
    "react",
]
