"""The checkpoint of a run: all that is remembered of it between two invocations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import field
from msgspec.structs import replace

from tocsin.causes import Finding, Lead, causes_first
from tocsin.evaluation.records import PartlyJudged, References, RuleRecord
from tocsin.evaluation.trace import Point
from tocsin.evaluation.upgrade import VERSION
from tocsin.events import (
    ConfigurationRefused,
    Ending,
    RuleStatusEntry,
    RunEvent,
    RunSummary,
    StatusChange,
    timestamp,
)
from tocsin.model import Mode, RuleStatus, Severity, TrainingJobStatus
from tocsin.tensors import SavedCheckpoint
from tocsin.watch import Watch, Watched


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
    job_status: the TrainingJobStatus that the marker has, if SageMaker gave one.
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
    job_status: TrainingJobStatus | None = None
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
        """Return the same with nothing left to publish."""
        return replace(self, refusals=(), outbox=(), summaries=())


def last_changes(checkpoint: Checkpoint) -> tuple[StatusChange, ...]:
    """Return the newest change of each rule's status, oldest first; without the statuses of all
    rules."""
    changes = [record.last_change for record in checkpoint.rules.values() if record.last_change]
    return tuple(sorted(changes, key=lambda change: change.sequence))
