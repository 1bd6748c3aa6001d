"""The memory of one rule, and of the saves that rules look back at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import field

from tocsin.events import StatusChange
from tocsin.model import Evidence, Mode, Role, RuleStatus, Severity, TensorSummary
from tocsin.tensors import Entry, IndexFile


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
