"""What is remembered of a run between two invocations."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from tocsin.evaluation._references import References
from tocsin.evaluation._upgrade import VERSION, upgraded
from tocsin.events import (
    ConfigurationRefused,
    Ending,
    RuleStatusEntry,
    RunEvent,
    RunSummary,
    StatusChange,
    timestamp,
)
from tocsin.model import Evidence, Mode, Role, RuleStatus, Severity
from tocsin.watch import Watch

MOST_BYTES = 64 << 20  # decompressed; the state caps keep real ones far below


@dataclass(frozen=True)
class Violation:
    """One evaluation that broke a rule."""

    step: int
    mode: Mode
    mode_step: int
    worker: str | None
    tensor: str | None
    reason: str
    detail: str
    evidence: Evidence


@dataclass(frozen=True)
class RuleRecord:
    """A rule's state and what it has found.

    ``streak`` and ``healthy`` count evaluations in a row; ``candidate`` is the first violation
    of the present streak; ``first_violation`` is that of the first streak that fired,
    ``fired_at`` the violation at which it did; ``state`` belongs to the rule. A ``disabled`` rule
    is evaluated no more. ``missing`` are the rule's reads that have found nothing so far, with the
    roles that would satisfy each; None before the first step. ``last_change`` is the
    last change of its status.
    """

    rule: str
    fingerprint: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    severity: Severity | None = None
    status: RuleStatus = RuleStatus.IN_PROGRESS
    details: str = ""
    changed_at: float | None = None
    state: Mapping[str, Any] = field(default_factory=dict)
    applicable: bool = False
    missing: Mapping[str, tuple[Role, ...]] | None = None
    disabled: bool = False
    last_step: int | None = None
    data_points: int = 0
    violations: int = 0
    streak: int = 0
    healthy: int = 0
    candidate: Violation | None = None
    first_violation: Violation | None = None
    fired_at: Violation | None = None
    last_violation: Violation | None = None
    last_change: StatusChange | None = None


@dataclass(frozen=True)
class Checkpoint:
    """All that is known of a run: how far it is evaluated, each rule's record, what to publish.

    ``frontier`` is the last step evaluated or given up, -1 at first. ``run_ids`` are each
    worker's present start of the job, ``superseded`` the earlier ones. ``refused`` are the files
    behind the frontier that cannot be used, with the reason; ``problems`` the parts of the
    present configuration that cannot, with theirs; ``references`` the earlier saves that rules
    look back at; ``wake_at`` is for when a hint is on its way; ``note`` is what new rule records
    begin with. ``sequence`` counts the changes of status. What is to be published is in
    ``refusals``, ``outbox`` and ``summaries``.
    """

    run: str
    frontier: int = -1
    run_ids: Mapping[str, str] = field(default_factory=dict)
    superseded: tuple[str, ...] = ()
    steps: int = 0
    first_step: int | None = None
    first_time: float | None = None
    last_step: int | None = None
    last_mode: Mode = Mode.GLOBAL
    last_mode_step: int = 0
    last_time: float = 0.0
    files: int = 0
    workers: tuple[str, ...] = ()
    missing_workers: int = 0
    lost_steps: int = 0
    late_files: int = 0
    unreadable: int = 0
    wake_at: float | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    refused_files: int = 0
    restarts: tuple[int, ...] = ()
    note: str = ""
    ended: Ending | None = None
    job_watch: Watch | None = None
    rules: Mapping[str, RuleRecord] = field(default_factory=dict)
    references: References = field(default_factory=dict)
    sequence: int = 0
    problems: tuple[tuple[str, str], ...] = ()
    refusals: tuple[ConfigurationRefused, ...] = ()
    outbox: tuple[StatusChange, ...] = ()
    summaries: tuple[RunSummary, ...] = ()
    version: int = VERSION

    @property
    def unpublished(self) -> tuple[RunEvent, ...]:
        """What is to be published, in this order; each change with the statuses of all rules, which
        the outbox leaves out: 200 changes with 200 statuses each are more than can be kept.
        """
        statuses = self.statuses if self.outbox else ()
        changes = (
            msgspec.structs.replace(change, debug_rule_evaluation_statuses=statuses)
            for change in self.outbox
        )
        return (*self.refusals, *changes, *self.summaries)

    @property
    def statuses(self) -> tuple[RuleStatusEntry, ...]:
        """The present status of every rule."""
        return tuple(
            RuleStatusEntry(
                name,
                record.status,
                record.details,
                None if record.changed_at is None else timestamp(record.changed_at),
            )
            for name, record in self.rules.items()
        )

    @property
    def run_id(self) -> str | None:
        """The start of the job: that of its first worker, where each has made its own."""
        return self.run_ids[min(self.run_ids)] if self.run_ids else None

    def published(self) -> Checkpoint:
        """The same with nothing left to publish."""
        return replace(self, refusals=(), outbox=(), summaries=())


class _Version(msgspec.Struct):
    version: int = 1


_decoder = msgspec.json.Decoder(Checkpoint)
_version = msgspec.json.Decoder(_Version)

# Of an earlier version, which is changed before its types are checked.
_WRONG_SHAPE = (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError)


def last_changes(checkpoint: Checkpoint) -> tuple[StatusChange, ...]:
    """The newest change of each rule's status, oldest first; without the statuses of all rules."""
    changes = [record.last_change for record in checkpoint.rules.values() if record.last_change]
    return tuple(sorted(changes, key=lambda change: change.sequence))


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    return zlib.compress(msgspec.json.encode(checkpoint), level=1)


def decode_checkpoint(data: bytes) -> Checkpoint:
    """Raises ValueError on what is not a checkpoint of this version or the one before."""
    inflate = zlib.decompressobj()
    try:
        content = inflate.decompress(data, MOST_BYTES)
        if _version.decode(content).version < VERSION:
            content = msgspec.json.encode(upgraded(msgspec.json.decode(content)))
        return _decoder.decode(content)
    except (zlib.error, msgspec.DecodeError, *_WRONG_SHAPE) as error:
        raise ValueError(f"not a checkpoint: {error}") from error
