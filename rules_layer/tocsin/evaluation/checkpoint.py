"""The checkpoint of a run: all that is remembered of it between two invocations."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import field
from msgspec.structs import replace

from tocsin.causes import Finding, Lead, causes_first
from tocsin.evaluation.trace import Point
from tocsin.evaluation.upgrade import VERSION, upgraded, without_references
from tocsin.events import (
    ConfigurationRefused,
    Ending,
    RuleStatusEntry,
    RunEvent,
    RunSummary,
    StatusChange,
    timestamp,
)
from tocsin.model import Evidence, Mode, Role, RuleStatus, Severity, TensorSummary
from tocsin.tensors import Entry, IndexFile, SavedCheckpoint
from tocsin.watch import Watch, Watched

MOST_BYTES = 64 << 20  # decompressed; the state caps keep real ones far below


class Violation(msgspec.Struct, frozen=True):
    """One evaluation that broke a rule."""

    step: int
    mode: Mode
    mode_step: int
    worker: str | None
    tensor: str | None
    reason: str
    detail: str
    evidence: Evidence


class Reference(msgspec.Struct, frozen=True):
    """An earlier save of a tensor: its summary if that was captured, its record if there is one."""

    step: int
    event_key: str | None = None
    start: int | None = None
    length: int | None = None
    summary: TensorSummary | None = None

    def file(self, name: str, worker: str) -> tuple[IndexFile, Entry]:
        """As much of the index file as is needed to read the record."""
        entry = Entry(name=name, start=self.start, length=self.length)
        index = IndexFile(self.step, worker, Mode.GLOBAL, self.step, self.event_key, None, (entry,))
        return index, entry


class PartlyJudged(msgspec.Struct, frozen=True):
    """A step after the frontier that some rules have judged: those that have it in their records.

    rules: their names in the configuration.
    """

    step: int
    rules: tuple[str, ...]


References = Mapping[str, tuple[Reference, ...]]
"""Mode, worker and tensor -> its earlier saves that rules look back at, newest first."""


class RuleRecord(msgspec.Struct, frozen=True):
    """A rule's state and what it has found.

    severity: as configured, or that of the verdict; None in a checkpoint of an earlier version.
    state: the rule's own memory.
    missing: the rule's reads that have found nothing so far, with the roles that would satisfy
        each; None before the first step.
    disabled: the rule is not evaluated any more.
    streak, healthy: violations in a row, and healthy evaluations in a row.
    firings: how often the rule has begun to fire.
    candidate: the first violation of the present streak.
    first_violation: the first one of the first streak that fired.
    fired_at: the violation at which the rule first fired.
    healthy_at: the last step that was judged healthy before the first violation.
    last_change: the last change of its status.
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
    firings: int = 0
    candidate: Violation | None = None
    first_violation: Violation | None = None
    fired_at: Violation | None = None
    healthy_at: int | None = None
    last_violation: Violation | None = None
    last_change: StatusChange | None = None


class Checkpoint(msgspec.Struct, frozen=True):
    """The progress of a run's evaluation: its frontier, each rule's record, and events to publish.

    frontier: the last step evaluated or given up, -1 at first.
    partly: the step that is being evaluated, if an invocation ended in the middle of it.
    run_ids: each worker's present start of the job.
    began: when each present start of the job began, where its files say it.
    superseded: earlier starts, whose files do not count any more.
    delivered: the last step of each worker, of those that write no run id.
    incomplete: the last steps that were evaluated without a file of each worker.
    since: files without a run id that are older than this belong to an earlier start.
    missing, waits: how many workers the last step lacked, and how many steps in a row lacked some.
    absent: those of them that had been there before.
    wake_at: for when a hint is on its way.
    refused: files after the frontier that cannot be used, with the reason.
    configured: counts the notifications of collections files and ``watch.json``.
    counted_to, counted: at the end, how far the files have been counted, and how many there are.
    generation: how often the run began again without another run id that shows it.
    note: the details that new rule records begin with.
    ended_by: the time of the end marker that ended the run last.
    seen_at: when the run was first looked at, until its first step is evaluated.
    last_tick: the newest time that rules were given.
    references: the earlier saves that rules look back at.
    sequence: counts the changes of status.
    problems: parts of the present configuration that cannot be used, with the reason.
    refusals, outbox, summaries: what is to be published.
    points: the newest of the trace, which are not in the run's trace object yet.
    saved: the newest checkpoints of the training, by step.
    planned: how many steps the training is to have, if its hook knows.
    price: US dollars per hour of the training's machines; None: unknown.
    """

    run: str
    frontier: int = -1
    partly: PartlyJudged | None = None
    run_ids: Mapping[str, str] = field(default_factory=dict)
    began: Mapping[str, float] = field(default_factory=dict)
    superseded: tuple[str, ...] = ()
    delivered: Mapping[str, int] = field(default_factory=dict)
    incomplete: tuple[int, ...] = ()
    since: float = 0.0
    missing: int = 0
    waits: int = 0
    absent: tuple[str, ...] = ()
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
    configured: int = 0
    counted_to: str = ""
    counted: int = 0
    unreadable: int = 0
    wake_at: float | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    refused_files: int = 0
    restarts: tuple[int, ...] = ()
    generation: int = 0
    note: str = ""
    ended: Ending | None = None
    ended_by: float = 0.0
    seen_at: float | None = None
    last_tick: float = 0.0
    job_watch: Watch | None = None
    rules: Mapping[str, RuleRecord] = field(default_factory=dict)
    references: References = field(default_factory=dict)
    sequence: int = 0
    problems: tuple[tuple[str, str], ...] = ()
    refusals: tuple[ConfigurationRefused, ...] = ()
    outbox: tuple[StatusChange, ...] = ()
    summaries: tuple[RunSummary, ...] = ()
    points: tuple[Point, ...] = ()
    saved: tuple[SavedCheckpoint, ...] = ()
    planned: int | None = None
    price: float | None = None
    version: int = VERSION

    @property
    def unpublished(self) -> tuple[RunEvent, ...]:
        """All that is to be published, in this order.

        Each change gets the statuses of all rules here. The outbox leaves them out: 200 changes
        with 200 statuses each are more than can be kept.
        """
        statuses = self.statuses if self.outbox else ()
        changes = (
            msgspec.structs.replace(change, debug_rule_evaluation_statuses=statuses)
            for change in self.outbox
        )
        return (*self.refusals, *changes, *self.summaries)

    @property
    def is_restarted(self) -> bool:
        """Return whether a restart was found since the rules were last configured."""
        return any(not record.fingerprint for record in self.rules.values())

    @property
    def quiet_since(self) -> float:
        """Return when the last step was written; before the first, when the run was first looked
        at."""
        return self.last_time if self.seen_at is None else self.seen_at

    @property
    def statuses(self) -> tuple[RuleStatusEntry, ...]:
        """The present status of every rule: findings in their order, then the other rules."""
        findings = (each.name for lead in self.leads for each in lead.findings)
        return tuple(
            RuleStatusEntry(
                name,
                record.status,
                record.details,
                None if record.changed_at is None else timestamp(record.changed_at),
            )
            for name in dict.fromkeys((*findings, *self.rules))
            for record in (self.rules[name],)
        )

    @property
    def leads(self) -> tuple[Lead, ...]:
        """The findings that lead, in order, each with what it explains."""
        return causes_first(
            Finding(
                name,
                record.rule,
                record.severity or Severity.WARNING,
                record.first_violation.step if record.first_violation else None,
                record.first_violation.tensor if record.first_violation else None,
            )
            for name, record in self.rules.items()
            if record.status is RuleStatus.ISSUES_FOUND
        )

    @property
    def run_id(self) -> str | None:
        """The start of the job: the first worker's, where each worker made an id of its own."""
        return self.run_ids[min(self.run_ids)] if self.run_ids else None

    def not_judged(self, rules: Iterable[Watched], step: int) -> list[Watched]:
        """Return the rules that have not judged a step after the frontier."""
        done = self.partly.rules if self.partly is not None and step <= self.partly.step else ()
        return [rule for rule in rules if rule.name not in done]

    @property
    def start(self) -> str | None:
        """Return the key that distinguishes alerts of this start of the job from those of
        others."""
        return f"{self.run_id or ''}#{self.generation}" if self.generation else self.run_id

    def published(self) -> Checkpoint:
        """The same with nothing left to publish."""
        return replace(self, refusals=(), outbox=(), summaries=())


class _Version(msgspec.Struct):
    version: int = 1


_decoder = msgspec.json.Decoder(Checkpoint)
_version = msgspec.json.Decoder(_Version)

# Errors of the conversion of an earlier version, which comes before its types are checked.
_WRONG_SHAPE = (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError)


def last_changes(checkpoint: Checkpoint) -> tuple[StatusChange, ...]:
    """The newest change of each rule's status, oldest first; without the statuses of all rules."""
    changes = [record.last_change for record in checkpoint.rules.values() if record.last_change]
    return tuple(sorted(changes, key=lambda change: change.sequence))


class CheckpointTooLarge(ValueError):
    """A checkpoint that is over the limit that reading has."""


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Raises CheckpointTooLarge for what could not be read again."""
    content = msgspec.json.encode(checkpoint)
    if len(content) >= MOST_BYTES:
        raise CheckpointTooLarge(f"checkpoint of {len(content)} bytes, of at most {MOST_BYTES}")
    return zlib.compress(content, level=1)


def smaller(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint without points; then without half of its references, those that were not seen
    for longest; at last without the rule's state that is the largest.
    """
    if checkpoint.points:
        return replace(checkpoint, points=())
    newest_first = sorted(checkpoint.references.items(), key=lambda each: -each[1][0].step)
    if newest_first:
        return replace(checkpoint, references=dict(newest_first[: len(newest_first) // 2]))
    name, record = max(
        checkpoint.rules.items(), key=lambda each: len(msgspec.json.encode(each[1].state))
    )
    if not record.state:
        raise CheckpointTooLarge(f"the checkpoint of {checkpoint.run} cannot be made any smaller")
    fired = record.status is RuleStatus.ISSUES_FOUND
    stopped = replace(
        record,
        state={},
        disabled=True,
        status=record.status if fired else RuleStatus.ERROR,
        details="the rules of this run need more state than fits, and this one needs the most",
    )
    return replace(checkpoint, rules={**checkpoint.rules, name: stopped})


def decode_checkpoint(data: bytes) -> Checkpoint:
    """Raises ValueError on what is not a checkpoint of this version or the one before.

    A later version may mean something else by the same field: it gets another number. A field that
    is only added does not, and is left out here.
    """
    inflate = zlib.decompressobj()
    try:
        content = inflate.decompress(data, MOST_BYTES)
        version = _version.decode(content).version
        if version > VERSION:
            raise ValueError(
                f"it has version {version}, but this code reads up to version {VERSION}"
            )
        if version < VERSION:
            content = msgspec.json.encode(upgraded(msgspec.json.decode(content)))
        try:
            return _decoder.decode(content)
        except msgspec.ValidationError:
            return _decoder.decode(without_references(content))
    except (zlib.error, msgspec.DecodeError, *_WRONG_SHAPE) as error:
        raise ValueError(f"not a checkpoint: {error}") from error
