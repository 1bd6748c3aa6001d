"""What is published of a run, once it is committed: changes of status, ends, refusals."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec

from tocsin.model import Evidence, Mode, RuleStatus, Severity
from tocsin.watch import Policy, Silence

Ending = Literal["marker", "silence"]


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
class RuleSummary:
    """A rule's status beside those of its run's other rules."""

    name: str
    status: RuleStatus
    details: str
    changed_at: float | None


@dataclass(frozen=True)
class StatusChange:
    """A rule's status became another. ``sequence`` is its number among the run's changes, from 1
    on; ``silences`` are those that cover the rule and the run's job; ``statuses`` are those of all
    rules when it is published.
    """

    name: str
    rule: str
    status: RuleStatus
    previous: RuleStatus
    details: str
    severity: Severity
    actions: tuple[str, ...]
    dry_run: bool
    step: int
    mode: Mode
    mode_step: int
    index_modified: float
    run_id: str | None
    dedup_id: str
    statuses: tuple[RuleSummary, ...] = ()
    violation: Violation | None = None
    sequence: int = 0
    inhibits: tuple[str, ...] = ()
    policy: Policy = field(default_factory=Policy)
    silences: tuple[Silence, ...] = ()


@dataclass(frozen=True)
class RunSummary:
    """A run has ended. ``sequence`` is that of its last change; ``status`` the worst of all rules,
    None if there are none; ``evaluated`` counts steps, ``first`` and ``last`` are their numbers.
    ``silences`` are those that cover all rules of the run's job.
    """

    ending: Ending
    sequence: int
    evaluated: int
    first: int | None
    last: int | None
    status: RuleStatus | None
    policy: Policy
    dry_run: bool
    run_id: str | None
    dedup_id: str
    statuses: tuple[RuleSummary, ...]
    silences: tuple[Silence, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """A part of the run's configuration cannot be used; the rest of it is."""

    where: str
    why: str
    run_id: str | None
    dedup_id: str


News: TypeAlias = StatusChange | RunSummary | Refusal


def news_id(*identity: object) -> str:
    """The same for the same news, however often it is found."""
    return hashlib.sha256(msgspec.json.encode(identity)).hexdigest()[:32]
