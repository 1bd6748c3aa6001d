"""A checkpoint with news in it: that a rule's status changed, that the run ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tocsin.evaluation._checkpoint import Checkpoint
from tocsin.evaluation._news import Ending, RunSummary, StatusChange, news_id
from tocsin.model import RuleStatus, Severity
from tocsin.rules import Step
from tocsin.tensors import job_name
from tocsin.watch import Policy, Silence, Watched

MOST_SILENCES = 3  # of a change; of more those that last longest, which hold back as much

_WORST_FIRST = (
    RuleStatus.ISSUES_FOUND,
    RuleStatus.ERROR,
    RuleStatus.STOPPED,
    RuleStatus.IN_PROGRESS,
    RuleStatus.NO_ISSUES_FOUND,
    RuleStatus.NOT_APPLICABLE,
)


@dataclass(frozen=True)
class Told:
    """How a status change is to be told, by the rule's configuration if it has a good one."""

    severity: Severity = Severity.WARNING
    actions: tuple[str, ...] = ()
    dry_run: bool = False
    inhibits: tuple[str, ...] = ()
    policy: Policy = field(default_factory=Policy)
    silences: tuple[Silence, ...] = ()


@dataclass(frozen=True)
class ToldOfRun:
    """How a run's end is to be told. ``silences`` are all of the watch file."""

    policy: Policy = field(default_factory=Policy)
    dry_run: bool = False
    silences: tuple[Silence, ...] = ()


def told_of(rule: Watched, run: str) -> Told:
    """As the rule's configuration has it, with the silences that cover the run's job."""
    job = job_name(run)
    covering = (each for each in rule.silences if each.covers(job, rule.name, rule.severity))
    return Told(
        rule.severity,
        rule.actions,
        rule.dry_run,
        rule.inhibits,
        rule.policy,
        _longest(covering),
    )


def _longest(silences: Iterable[Silence]) -> tuple[Silence, ...]:
    return tuple(sorted(silences, key=lambda each: each.until)[-MOST_SILENCES:])


def with_change(
    checkpoint: Checkpoint, name: str, told: Told, previous: RuleStatus, step: Step
) -> Checkpoint:
    """The checkpoint with the change of the rule's status in its outbox and in its record."""
    after = checkpoint.rules[name]
    sequence = checkpoint.sequence + 1
    change = StatusChange(
        name=name,
        rule=after.rule,
        status=after.status,
        previous=previous,
        details=after.details,
        step=step.step,
        mode=step.mode,
        mode_step=step.mode_step,
        index_modified=step.time,
        run_id=checkpoint.run_id,
        dedup_id=news_id(checkpoint.run, checkpoint.run_id, name, after.status, step.step),
        violation=after.last_violation if after.status is RuleStatus.ISSUES_FOUND else None,
        sequence=sequence,
        **vars(told),
    )
    return replace(
        checkpoint,
        rules={**checkpoint.rules, name: replace(after, told=change)},
        sequence=sequence,
        outbox=(*checkpoint.outbox, change),
    )


def with_end(checkpoint: Checkpoint, ending: Ending, told: ToldOfRun) -> Checkpoint:
    """The checkpoint with the run's end in it."""
    summary = _summary(checkpoint, ending, told)
    return replace(checkpoint, ended=ending, summaries=(*checkpoint.summaries, summary))


def _summary(checkpoint: Checkpoint, ending: Ending, told: ToldOfRun) -> RunSummary:
    statuses = [record.status for record in checkpoint.rules.values()]
    sequence, last = checkpoint.sequence, checkpoint.last_step
    job = job_name(checkpoint.run)
    return RunSummary(
        ending=ending,
        sequence=sequence,
        evaluated=checkpoint.steps,
        first=checkpoint.first_step,
        last=last,
        status=min(statuses, key=_WORST_FIRST.index, default=None),
        policy=told.policy,
        dry_run=told.dry_run,
        run_id=checkpoint.run_id,
        dedup_id=news_id(checkpoint.run, checkpoint.run_id, "summary", ending, last, sequence),
        statuses=checkpoint.statuses,
        silences=_longest(each for each in told.silences if each.covers_all(job)),
    )
