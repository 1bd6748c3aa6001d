"""Fold: what a change of status, a removed rule or the end of a run puts into the outbox. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from tocsin.evaluation.checkpoint import Checkpoint
from tocsin.evaluation.last_good import last_good, left, not_run
from tocsin.evaluation.records import RuleRecord, Violation
from tocsin.events import (
    Ending,
    EvaluatedSteps,
    NotifyPolicy,
    RunSilence,
    RunSummary,
    StatusChange,
    dedup_id,
    timestamp,
    worst,
)
from tocsin.model import RuleStatus, Severity, Withdrawal
from tocsin.rules import Step
from tocsin.tensors import job_name
from tocsin.watch import Silence, Watch, Watched, policy

MOST_SILENCES = 3  # of an event; the ones that last longest hold back as much as all
_EDITED = "evaluated again from the start: its configuration was edited"


def with_removal(checkpoint: Checkpoint, removed: RuleRecord, now: Step) -> Checkpoint:
    """Return the checkpoint with an event of a rule that fires, and is watched no longer."""
    fired, run, run_id = removed.last_change, checkpoint.run, checkpoint.run_id
    if removed.status is not RuleStatus.ISSUES_FOUND or fired is None:
        return checkpoint
    name, status = fired.rule_configuration_name, RuleStatus.STOPPED
    change = msgspec.structs.replace(
        fired,
        rule_evaluation_status=status,
        dedup_id=dedup_id(run, checkpoint.start, name, status, now.step),
        previous_status=removed.status,
        status_details="removed from the configuration while firing",
        step=now.step,
        mode=now.mode.name,
        mode_step=now.mode_step,
        worker=None,
        tensor=None,
        reason=Withdrawal.REMOVED,
        evidence={},
        index_last_modified=timestamp(now.time),
        run_id=run_id,
        sequence=checkpoint.sequence + 1,
    )
    return replace(checkpoint, sequence=change.sequence, outbox=(*checkpoint.outbox, change))


def last_step(checkpoint: Checkpoint) -> Step:
    """Return the last step that was evaluated, without its tensors."""
    number, mode_step = checkpoint.last_step or 0, checkpoint.last_mode_step
    return Step(number, checkpoint.last_mode, mode_step, checkpoint.last_time)


def with_change(
    checkpoint: Checkpoint,
    name: str,
    previous: RuleStatus,
    step: Step,
    *,
    rule: Watched | None,
    dry_run: bool = False,
    withdrawal: Withdrawal | None = None,
) -> Checkpoint:
    """Return the checkpoint with the change of the rule's status in its outbox and in its record.

    ``rule`` None: its configuration is refused; nobody is notified of such a rule. ``withdrawal``
    says why it is judged from the start again.
    """
    record, run, run_id = checkpoint.rules[name], checkpoint.run, checkpoint.run_id
    job, sequence = job_name(run), checkpoint.sequence + 1
    firing = record.status is RuleStatus.ISSUES_FOUND
    seen: Violation | None = record.last_violation if firing else None
    silences = rule.silences if rule else ()
    severity = record.severity or (rule.severity if rule else Severity.WARNING)
    change = StatusChange(
        training_job_name=job,
        run=run,
        rule_configuration_name=name,
        rule=record.rule,
        rule_evaluation_status=record.status,
        dedup_id=dedup_id(run, checkpoint.start, name, record.status, step.step),
        previous_status=previous,
        status_details=_EDITED if withdrawal is Withdrawal.EDITED else record.details,
        severity=severity,
        step=step.step,
        mode=step.mode.name,
        mode_step=step.mode_step,
        worker=seen.worker if seen else None,
        tensor=seen.tensor if seen else None,
        reason=seen.reason if seen else withdrawal,
        evidence=dict(seen.evidence) if seen else {},
        actions=rule.actions_at(severity) if rule else (),
        dry_run=rule.dry_run if rule else dry_run,
        index_last_modified=timestamp(step.time),
        run_id=run_id,
        sequence=sequence,
        inhibits=rule.inhibits if rule else (),
        notify=rule.policy if rule else NotifyPolicy(),
        silences=_longest(each for each in silences if each.covers(job, name, severity)),
        last_good=(last_good(checkpoint) if firing else None) or msgspec.UNSET,
        relaunch=(rule.relaunching if rule and firing else None) or msgspec.UNSET,
    )
    if firing and "stop" in change.actions:
        saves = left(checkpoint) or msgspec.UNSET
        change = msgspec.structs.replace(change, stop_saves=saves)
    return replace(
        checkpoint,
        rules={**checkpoint.rules, name: replace(record, last_change=change)},
        sequence=sequence,
        outbox=(*checkpoint.outbox, change),
    )


def with_summary(checkpoint: Checkpoint, ending: Ending, watch: Watch) -> Checkpoint:
    """Return the checkpoint with the run's summary in what is to be published."""
    run, run_id, job = checkpoint.run, checkpoint.run_id, job_name(checkpoint.run)
    last, sequence = checkpoint.last_step, checkpoint.sequence
    notify = policy(watch.notify)
    summary = RunSummary(
        training_job_name=job,
        run=run,
        dedup_id=dedup_id(run, checkpoint.start, "summary", ending, last, sequence),
        sequence=sequence,
        ending=ending,
        steps=EvaluatedSteps(checkpoint.steps, checkpoint.first_step, last),
        rule_evaluation_status=worst(record.status for record in checkpoint.rules.values()),
        debug_rule_evaluation_statuses=checkpoint.statuses,
        summary=notify.summary,
        notify=notify,
        dry_run=watch.dry_run,
        run_id=run_id,
        silences=_longest(each for each in watch.silences if each.covers_all(job)),
        not_run=not_run(checkpoint) or msgspec.UNSET,
    )
    return replace(checkpoint, summaries=(*checkpoint.summaries, summary))


def _longest(silences: Iterable[Silence]) -> tuple[RunSilence, ...]:
    """The silences that last longest, as events have them."""
    chosen = sorted(silences, key=lambda each: each.until)[-MOST_SILENCES:]
    return tuple(
        RunSilence(each.until, each.job, each.author, each.reason, each.id) for each in chosen
    )
