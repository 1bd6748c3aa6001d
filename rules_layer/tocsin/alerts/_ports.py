"""What alerts need of the world beside what actions need, given from outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tocsin.alerts._group import Group
from tocsin.events import StatusChange
from tocsin.watch import Silence


class Conflict(Exception):
    """The group is not the version that was read: another invocation committed."""


@dataclass(frozen=True)
class Stored:
    """A group and the version to commit on; a version of None is a run never seen."""

    group: Group
    version: int | None


@dataclass(frozen=True)
class Known:
    """What the run's checkpoint says: its rules' last alerts, all its rules, and the last
    sequence number.
    """

    alerts: Sequence[StatusChange] = ()
    rules: frozenset[str] = frozenset()
    sequence: int = 0


class GroupStore(Protocol):
    def load(self, run: str) -> Stored: ...

    def save(self, group: Group, version: int | None) -> int:
        """Commit on ``version`` and return the new one; ``wake_at`` is when patrol is due.
        Raises Conflict.
        """


class Silences(Protocol):
    def active(self, now: float) -> Sequence[Silence]:
        """Those that have not expired at ``now`` (seconds since the epoch)."""


class Checkpoints(Protocol):
    def known(self, run: str) -> Known | None:
        """What is known of the run; None where there is no checkpoint, or none that is readable."""


class Timer(Protocol):
    def flush(self, run: str, delay: float) -> None:
        """Have a look at the run's group after ``delay`` seconds (at most 900)."""

    def retry(self, run: str, task: str, delay: float) -> None:
        """Have the task tried again, by a message of its own."""
