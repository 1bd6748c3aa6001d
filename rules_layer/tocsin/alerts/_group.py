"""The group: all that is known of a run's alerts between two invocations."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from tocsin.actions import Outcome
from tocsin.events import RunSummary, StatusChange

MOST_BYTES = 16 << 20  # decompressed
MOST_LOG = 1000  # entries; the oldest go
MOST_RULES = 400  # whose alerts are remembered: two watch files full


@dataclass(frozen=True)
class Noted:
    """The newest alert of a rule, and when (seconds since the epoch) it was first seen.

    Of a rule that is over, ``fired`` is the alert with which it had fired last, so that it is told
    even if nobody has come to that before it was over.
    """

    alert: StatusChange
    at: float
    fired: Noted | None = None

    def of(self, dedup_id: str) -> StatusChange | None:
        """The alert of that identity, if it is one of the two."""
        there = (self.alert, self.fired.alert) if self.fired else (self.alert,)
        return next((alert for alert in there if alert.dedup_id == dedup_id), None)


@dataclass(frozen=True)
class Sent:
    """What was done by one action, by rule with the ``DedupId``: what was told to fire and not yet
    to be over, what was told to be over, what was told to fire last; and when.
    """

    firing: Mapping[str, str] = field(default_factory=dict)
    resolved: Mapping[str, str] = field(default_factory=dict)
    at: float = 0.0
    told: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """An action to take, for some rules each with its reason.

    ``claim`` is whose it is, until ``claimed_until``. ``handed``: it has failed and is tried by a
    message of its own. ``outcome`` is set when it is taken, and only left to be told. ``dropped``
    are rules that were over, or fired anew, before it was taken: that is decided by itself.
    """

    id: str
    action: str
    reason: str
    firing: tuple[str, ...] = ()
    resolved: tuple[str, ...] = ()
    ongoing: tuple[str, ...] = ()
    dedup_ids: Mapping[str, str] = field(default_factory=dict)
    claim: str = ""
    claimed_until: float = 0.0
    handed: bool = False
    outcome: Outcome | None = None
    detail: str = ""
    dropped: tuple[str, ...] = ()

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that it tells something new of."""
        return (*self.firing, *self.resolved)


@dataclass(frozen=True)
class Entry:
    """A line of the notification log: why something was done or not, and what came of it.

    ``decision`` is ``send`` or ``hold``; ``outcome`` is None until it is known.
    """

    at: float
    rule: str
    decision: str
    reason: str
    action: str
    outcome: Outcome | None = None
    detail: str = ""
    task: str = ""


@dataclass(frozen=True)
class Group:
    """A run's alerts by rule, what was sent by action, what is still to do, and the log.

    ``held`` is why something is held back at present, by action and rule, so that the log tells
    it once. ``made`` counts tasks; ``wake_at`` is when to look again, None: when something comes.
    ``seen`` are identities of unnumbered alerts that are not their rule's newest any more.
    ``summary`` is how the run ended, ``summed_up`` the one that was told; it is ``ended`` until
    something newer comes.
    """

    run: str
    job: str = ""
    alerts: Mapping[str, Noted] = field(default_factory=dict)
    sent: Mapping[str, Sent] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    tasks: tuple[Task, ...] = ()
    log: tuple[Entry, ...] = ()
    made: int = 0
    wake_at: float | None = None
    seen: tuple[str, ...] = ()
    summary: RunSummary | None = None
    summed_up: str = ""
    ended: bool = False

    @property
    def firing(self) -> dict[str, Noted]:
        return {rule: noted for rule, noted in self.alerts.items() if noted.alert.firing}


_decoder = msgspec.json.Decoder(Group)


def encode_group(group: Group) -> bytes:
    return zlib.compress(msgspec.json.encode(group), level=6)


def decode_group(data: bytes) -> Group:
    """Raises ValueError on what is no group of this version."""
    inflate = zlib.decompressobj()
    try:
        return _decoder.decode(inflate.decompress(data, MOST_BYTES))
    except (zlib.error, msgspec.DecodeError) as error:
        raise ValueError(f"not a group of alerts: {error}") from error


def alerts_document(group: Group) -> list[dict[str, object]]:
    """The log as ``tocsin status RUN --json`` has it under ``alerts``, the oldest first."""
    return [
        {
            "at": entry.at,
            "RuleConfigurationName": entry.rule,
            "decision": entry.decision,
            "reason": entry.reason,
            "action": entry.action,
            "outcome": entry.outcome,
            "detail": entry.detail,
        }
        for entry in group.log
    ]
