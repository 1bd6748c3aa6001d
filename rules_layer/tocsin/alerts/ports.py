"""The dependencies of alerts, given from outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tocsin.actions import Effects, Lookups
from tocsin.alerts.group import AlertGroup
from tocsin.alerts.spending import RunCaps
from tocsin.events import ActionTaken, RunSummary, StatusChange
from tocsin.owners import owner_of
from tocsin.watch import Silence


class CommitConflict(Exception):
    """The item is not the version that was read: another invocation has committed."""


@dataclass(frozen=True)
class StoredGroup:
    """A group and the version to commit on; None: the run is new."""

    group: AlertGroup
    version: int | None


@dataclass(frozen=True)
class Known:
    """The alerts in a run's checkpoint.

    alerts: the last status change of each rule that ever fired.
    rules: all rules of the run.
    sequence: the number of the last status change.
    """

    alerts: Sequence[StatusChange] = ()
    rules: frozenset[str] = frozenset()
    sequence: int = 0

    def has(self, event: StatusChange | RunSummary) -> bool:
        """Return whether the event can be one of the run's: anybody might have put it on the
        bus."""
        if isinstance(event, RunSummary):
            return event.sequence <= self.sequence
        if not 0 < event.sequence <= self.sequence:
            return False
        rule = event.rule_configuration_name
        if rule not in self.rules:
            return event.withdrawn
        last = next((each for each in self.alerts if each.rule_configuration_name == rule), None)
        if last is None or event.sequence > last.sequence:
            return False
        return event.sequence < last.sequence or event.dedup_id == last.dedup_id


class GroupStore(Protocol):
    def load(self, run: str) -> StoredGroup: ...

    def save(self, group: AlertGroup, version: int | None) -> int:
        """Commit on ``version`` and return the new one; ``due_at`` is when patrol is due. Raises
        CommitConflict.
        """


class Silences(Protocol):
    def active(self, now: float) -> Sequence[Silence]:
        """Return the silences that have not expired at ``now`` (seconds since the epoch)."""


class Checkpoints(Protocol):
    def known(self, run: str) -> Known | None:
        """Return the run's alerts; None without a checkpoint that can be read."""


class Timer(Protocol):
    def flush(self, run: str, delay: float) -> None:
        """Have the run's group looked at after ``delay`` seconds (at most 900)."""

    def deliver(self, run: str, waits: int = 0, delay: float = 0.0) -> None:
        """Have the tasks that were handed on carried out, after ``delay`` seconds."""


class Turns(Protocol):
    def take(self, owner: str, until: float) -> bool:
        """Return whether ``owner`` may deliver, until then (seconds since the epoch) at most."""

    def give_back(self, owner: str) -> None:
        """Let another one deliver."""


@dataclass(frozen=True)
class AlertPorts:
    """All that alerts use of the outside world.

    lookups, effects: for actions.
    put_events: publishes on the bus that actions were taken.
    now: the time in seconds since the epoch.
    caps: what one run may use.
    owner: the owner of a run (URL).
    """

    groups: GroupStore
    silences: Silences
    checkpoints: Checkpoints
    timer: Timer
    turns: Turns
    lookups: Lookups
    effects: Effects
    put_events: Callable[[Sequence[ActionTaken]], None]
    now: Callable[[], float]
    caps: RunCaps = field(default_factory=RunCaps)
    owner: Callable[[str], str] = owner_of
