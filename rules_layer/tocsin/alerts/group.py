"""The group: the state of a run's alerts between two invocations."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from tocsin.actions import ActionOutcome
from tocsin.events import RunSummary, StatusChange

MOST_BYTES = 16 << 20  # decompressed
MOST_LOG = 1000  # entries; the oldest go
MOST_RULES = 400  # whose alerts are remembered: two watch files full
VERSION = 2
MOST_TRIES = 100  # of a task: a day of them
_PAUSES = (15.0, 45.0, 135.0, 405.0, 900.0)  # seconds, after the first, second … try that failed
HANDED_ON = "handed on"  # in place of an owner: the task waits for an invocation that delivers
_HANDED_ON = 120.0  # seconds; then its message counts as lost
_STOP_CLAIM = 5.0  # seconds; a stop that is done twice finds the job stopped


class RuleAlert(msgspec.Struct, frozen=True):
    """The newest alert of a rule.

    at: when it was first seen, in seconds since the epoch.
    fired: for a rule that is resolved, the alert with which it last fired. It is sent even if the
        rule resolves before that.
    """

    alert: StatusChange
    at: float
    fired: RuleAlert | None = None

    def find(self, dedup_id: str) -> StatusChange | None:
        """Return the alert with this identity, if it is one of the two."""
        alerts = (self.alert, self.fired.alert) if self.fired else (self.alert,)
        return next((alert for alert in alerts if alert.dedup_id == dedup_id), None)


class Sent(msgspec.Struct, frozen=True):
    """The messages that one action has sent; each mapping is from rule to ``DedupId``.

    firing: sent as firing, and not yet as resolved.
    at: when the last message was sent.
    last_fired: the last firing that was sent.
    not_before: a stop that was refused is held back until then.
    refused: it was not the stop guard that refused it.
    """

    firing: Mapping[str, str] = {}
    at: float = 0.0
    not_before: float = 0.0
    refused: bool = False
    last_fired: Mapping[str, str] = msgspec.field(name="told", default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """The invocation that works on a task, and until when (seconds since the epoch).

    delivers: it carries out all tasks. Any other one decides, stops jobs, and hands the rest on.
    """

    owner: str
    until: float
    delivers: bool = False


class Task(msgspec.Struct, frozen=True):
    """An action to take, for some rules each with its reason.

    firing, resolved: the rules with something new.
    ongoing: rules that still fire and were sent before.
    dedup_ids: for each rule with something new the alert.
    claim, claimed_until: the invocation that works on it.
    tries: how many invocations have worked on it.
    retry_at: it has failed, and is not tried again before.
    outcome: set when the action was taken, and its outcome has yet to be published.
    reserved: SMS that it has counted and not sent yet, as in the group's ``spent``.
    dropped: rules that were resolved, or fired again, before the action was taken.
    """

    id: str
    action: str
    reason: str
    firing: tuple[str, ...] = ()
    resolved: tuple[str, ...] = ()
    ongoing: tuple[str, ...] = ()
    dedup_ids: Mapping[str, str] = {}
    claim: str = ""
    claimed_until: float = 0.0
    tries: int = 0
    retry_at: float = 0.0
    outcome: ActionOutcome | None = None
    detail: str = ""
    dropped: tuple[str, ...] = ()
    reserved: Mapping[str, int] = {}

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules with something new."""
        return (*self.firing, *self.resolved)

    @property
    def due_at(self) -> float:
        """Return when an invocation may work on it."""
        return max(self.claimed_until, self.retry_at)

    @property
    def is_handed_on(self) -> bool:
        return self.claim == HANDED_ON

    def claimed_by(self, claim: Claim, now: float) -> Task:
        """Return the task claimed; a stop only for a moment, as it cannot wait after a crash."""
        if self.action != "stop" and not claim.delivers:
            return self.handed_on(now)
        until = claim.until
        if self.action == "stop":
            until = now + max(_STOP_CLAIM, pause(self.tries) if self.tries > 1 else 0.0)
        return replace(self, claim=claim.owner, claimed_until=until, tries=self.tries + 1)

    def handed_on(self, now: float) -> Task:
        """Return the task as it waits for an invocation that delivers."""
        return replace(self, claim=HANDED_ON, claimed_until=now + _HANDED_ON)


class LogEntry(msgspec.Struct, frozen=True):
    """A line of the notification log: decision, reason and outcome of an action.

    ``decision`` is ``send`` or ``hold``; ``outcome`` is None until it is known.
    """

    at: float
    rule: str
    decision: str
    reason: str
    action: str
    outcome: ActionOutcome | None = None
    detail: str = ""
    task: str = ""


class AlertGroup(msgspec.Struct, frozen=True):
    """A run's alerts.

    alerts: by rule.
    sent: by action.
    held: by ``action|rule`` why it is held back at present, so that the log says it once.
    tasks: what is still to do.
    made: how many tasks there were.
    beyond: how many actions were refused because the run names too many.
    wake_at: when to decide again; None: when a message arrives.
    seen: identities of unnumbered alerts that are no longer their rule's newest.
    summary: how the run ended.
    summary_sent: the identity of the summary that was sent last.
    summary_at: when that was decided.
    spent: what the run has used of its caps.
    ended: nothing newer than ``summary`` has arrived.
    """

    run: str
    job: str = ""
    alerts: Mapping[str, RuleAlert] = {}
    sent: Mapping[str, Sent] = {}
    held: Mapping[str, str] = {}
    tasks: tuple[Task, ...] = ()
    log: tuple[LogEntry, ...] = ()
    made: int = 0
    beyond: int = 0
    wake_at: float | None = None
    seen: tuple[str, ...] = ()
    summary: RunSummary | None = None
    summary_sent: str = msgspec.field(name="summed_up", default="")
    summary_at: float = 0.0
    ended: bool = False
    spent: Mapping[str, int] = {}
    version: int = VERSION

    @property
    def due_at(self) -> float | None:
        """Return the time of the next look: to decide, or to continue an abandoned task."""
        return min(self._due_times(self.tasks), default=None)

    @property
    def timer_at(self) -> float | None:
        """``due_at`` without tasks that were handed on: their message is under way."""
        rest = (task for task in self.tasks if not task.is_handed_on)
        return min(self._due_times(rest), default=None)

    def _due_times(self, tasks: Iterable[Task]) -> list[float]:
        wake = [] if self.wake_at is None else [self.wake_at]
        return [*wake, *(task.due_at for task in tasks)]

    @property
    def firing(self) -> dict[str, RuleAlert]:
        return {rule: each for rule, each in self.alerts.items() if each.alert.firing}

    @property
    def unfinished(self) -> Iterator[Task]:
        """The tasks whose action has not been taken yet."""
        return (task for task in self.tasks if task.outcome is None)

    def find_task(self, task_id: str) -> Task | None:
        return next((task for task in self.tasks if task.id == task_id), None)


_decoder = msgspec.json.Decoder(AlertGroup)


def encode_group(group: AlertGroup) -> bytes:
    return zlib.compress(msgspec.json.encode(group), level=6)


def decode_group(data: bytes) -> AlertGroup:
    """Read groups of earlier versions as well. Raises ValueError if the data is not a group, or one
    of a later version.
    """
    inflate = zlib.decompressobj()
    try:
        group = _decoder.decode(inflate.decompress(data, MOST_BYTES))
    except (zlib.error, msgspec.DecodeError) as error:
        raise ValueError(f"not a group of alerts: {error}") from error
    if group.version > VERSION:
        raise ValueError(
            f"not a group of alerts: it has version {group.version}, but this code reads up to "
            f"version {VERSION}"
        )
    return group


def pause(tries: int) -> float:
    """Seconds until a task is tried again that has failed so often."""
    return _PAUSES[min(max(tries, 1), len(_PAUSES)) - 1]


def with_entries(group: AlertGroup, *entries: LogEntry) -> AlertGroup:
    """Return the group with more lines in its log."""
    return replace(group, log=(*group.log, *entries)[-MOST_LOG:]) if entries else group


def with_task(group: AlertGroup, task: Task, now: float) -> AlertGroup:
    """Return the group with one more task, named, and a line in the log for each of its rules."""
    task = replace(task, id=f"{task.action[:40]}#{group.made}")
    group = replace(group, made=group.made + 1, tasks=(*group.tasks, task))
    lines = (
        LogEntry(now, rule, "send", task.reason, task.action, task=task.id)
        for rule in task.rules or ("",)
    )
    return with_entries(group, *lines)


def alerts_document(group: AlertGroup) -> list[dict[str, object]]:
    """Return the log as ``tocsin status RUN --json`` has it under ``alerts``, the oldest first."""
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
