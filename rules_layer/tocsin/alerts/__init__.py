"""Alerts: what to tell whom. Stages decide: inhibit, silence, dedup, group; then act, record."""

from __future__ import annotations

from tocsin.alerts._group import (
    Entry,
    Group,
    Noted,
    Sent,
    Task,
    alerts_document,
    decode_group,
    encode_group,
)
from tocsin.alerts._messages import (
    Flush,
    Message,
    Retry,
    encode_flush,
    encode_retry,
    parse_message,
)
from tocsin.alerts._ports import Checkpoints, Conflict, GroupStore, Known, Silences, Stored, Timer
from tocsin.alerts._react import Report, TryAgain, World, react
from tocsin.alerts._reason import Hold, Send

__all__ = [
    "Checkpoints",
    "Conflict",
    "Entry",
    "Flush",
    "Group",
    "GroupStore",
    "Hold",
    "Known",
    "Message",
    "Noted",
    "Report",
    "Retry",
    "Send",
    "Sent",
    "Silences",
    "Stored",
    "Task",
    "Timer",
    "TryAgain",
    "World",
    "alerts_document",
    "decode_group",
    "encode_flush",
    "encode_group",
    "encode_retry",
    "parse_message",
    "react",
]
