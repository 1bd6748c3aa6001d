"""Fold: statuses of rules that do not come from a verdict, and the events of each change. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum

import msgspec

from tocsin.evaluation.checkpoint import Checkpoint, RuleRecord, Violation
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
from tocsin.model import Role, RuleStatus, Severity, Withdrawal
from tocsin.rules import Step
from tocsin.tensors import IndexFile, job_name
from tocsin.watch import Refused, Silence, Watch, Watched, policy
from tocsin.words import cut

MOST_SILENCES = 3  # of an event; the ones that last longest hold back as much as all
_EDITED = "judged from the start again: its configuration was edited"
_MOST_STARTS = 100  # remembered as superseded; a job with more restarts is in other trouble


class NotJudged(StrEnum):
    """Why a rule has judged nothing.

    NO_LOSS: a loss is all that it lacks.
    TOO_FEW_STEPS: its tensors are there, but too few of them for a verdict, or no step so far
        that its options let it see.
    NOT_CAPTURED: the run does not have what it judges: tensors, or a second worker, another run,
        enough features. Its details say what.
    """

    NO_LOSS = "no_loss"
    TOO_FEW_STEPS = "too_few_steps"
    NOT_CAPTURED = "not_captured"


def why_not_judged(record: RuleRecord) -> NotJudged | None:
    """None for a rule that has judged a step, and for one in Error."""
    if record.data_points or record.status is RuleStatus.ERROR:
        return None
    if record.applicable or (record.last_step is None and not record.missing):
        return NotJudged.TOO_FEW_STEPS
    if record.missing and all(Role.LOSS in roles for roles in record.missing.values()):
        return NotJudged.NO_LOSS
    return NotJudged.NOT_CAPTURED


def configure(
    checkpoint: Checkpoint, watched: Iterable[Watched], refused: Iterable[Refused]
) -> Checkpoint:
    """The checkpoint with a record for each configured rule: kept if unchanged, else a new one.

    A rule that is refused gives an event, and so does one that starts again and thereby loses the
    status it had, and one that is removed while it fires.
    """
    before, now = checkpoint.rules, last_step(checkpoint)
    watched = tuple(watched)
    dry_run = any(rule.dry_run for rule in watched)  # a property of the whole file
    records: dict[str, RuleRecord] = {}
    changed: list[tuple[str, RuleStatus, Watched | None, Withdrawal | None]] = []
    for rule in watched:
        kept = before.get(rule.name)
        if kept is not None and kept.fingerprint == rule.fingerprint:
            firing = kept.status is RuleStatus.ISSUES_FOUND
            severity = rule.severity_of(kept.severity if firing else None)
            records[rule.name] = replace(kept, severity=severity)
            continue
        records[rule.name] = RuleRecord(
            rule.rule_name,
            rule.fingerprint,
            rule.parameters,
            rule.severity,
            details=checkpoint.note,
        )
        if kept is not None and kept.status is not RuleStatus.IN_PROGRESS:
            why = Withdrawal.EDITED if kept.fingerprint else Withdrawal.RESTARTED
            changed.append((rule.name, kept.status, rule, why))
    for bad in refused:
        record = RuleRecord(
            bad.rule_name,
            bad.fingerprint,
            status=RuleStatus.ERROR,
            details=bad.reason,
            disabled=True,
        )
        kept = before.get(bad.name)
        if kept is not None and replace(kept, last_change=None) == record:
            records[bad.name] = kept
            continue
        records[bad.name] = record
        previous = kept.status if kept is not None else RuleStatus.IN_PROGRESS
        changed.append((bad.name, previous, None, None))
    checkpoint = replace(checkpoint, rules=records)
    for name, previous, watched_rule, withdrawal in changed:
        checkpoint = with_change(
            checkpoint,
            name,
            previous,
            now,
            rule=watched_rule,
            dry_run=dry_run,
            withdrawal=withdrawal,
        )
    for name in before.keys() - records.keys():
        checkpoint = _with_removal(checkpoint, before[name], now)
    return checkpoint


def _with_removal(checkpoint: Checkpoint, removed: RuleRecord, now: Step) -> Checkpoint:
    """The checkpoint with an event of a rule that fires, and is watched no longer."""
    fired, run, run_id = removed.last_change, checkpoint.run, checkpoint.run_id
    if removed.status is not RuleStatus.ISSUES_FOUND or fired is None:
        return checkpoint
    name, status = fired.rule_configuration_name, RuleStatus.STOPPED
    change = msgspec.structs.replace(
        fired,
        rule_evaluation_status=status,
        dedup_id=dedup_id(run, run_id, name, status, now.step),
        previous_status=removed.status,
        status_details="removed from the configuration while it fired",
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


def restarted(checkpoint: Checkpoint, first: IndexFile, since: float) -> Checkpoint:
    """The checkpoint before the first step of a new start of the job.

    Where the start has no run id, files older than ``since`` are not its own.
    Rules keep their records until ``configure`` gives them new ones, with an event. A start that
    did not resume sets the counters to zero, too.
    """
    step = first.step
    if first.meta is None:
        checkpoint = replace(checkpoint, since=since, delivered={}, incomplete=())
    elif first.meta.resumed_from is None:
        checkpoint = replace(
            checkpoint, steps=0, first_step=None, first_time=None, files=0, workers=()
        )
    return replace(
        checkpoint,
        frontier=step - 1,
        superseded=superseding(checkpoint, checkpoint.run_ids.values()),
        rules={name: replace(old, fingerprint="") for name, old in checkpoint.rules.items()},
        references={},
        waits=0,
        counted_to="",
        counted=0,
        ended=None,
        refused={},
        note=f"evaluated again from step {step}: the job was restarted",
    )


def superseding(checkpoint: Checkpoint, starts: Iterable[str]) -> tuple[str, ...]:
    """The superseded starts of the job, with these."""
    return tuple(dict.fromkeys([*checkpoint.superseded, *starts]))[-_MOST_STARTS:]


def reopen(checkpoint: Checkpoint) -> Checkpoint:
    """Steps came after the end: rules that it had closed are in progress again."""
    closed = (RuleStatus.NO_ISSUES_FOUND, RuleStatus.NOT_APPLICABLE, RuleStatus.STOPPED)
    rules = {
        name: replace(record, status=RuleStatus.IN_PROGRESS, details="")
        if record.status in closed
        else record
        for name, record in checkpoint.rules.items()
    }
    return replace(checkpoint, ended=None, rules=rules)


def finish(
    checkpoint: Checkpoint,
    watched: Iterable[Watched],
    ending: Ending,
    watch: Watch | None = None,
) -> Checkpoint:
    """The run's end: a final status for each rule that has found nothing, and the summary."""
    last = last_step(checkpoint)
    for rule in watched:
        record = checkpoint.rules[rule.name]
        if record.status is RuleStatus.IN_PROGRESS:
            if record.details == checkpoint.note:  # a restart says nothing of how it ended
                record = replace(record, details="")
            status, details = _final(record, ending), _details(record, rule)
            if checkpoint.seen_at is not None:  # no step yet
                status = RuleStatus.NOT_APPLICABLE
                details = "the run ended before a step of it could be evaluated"
            after = replace(record, status=status, details=cut(details, 1024))
            checkpoint = with_record(checkpoint, rule, after, last)
    return _with_summary(replace(checkpoint, ended=ending), ending, watch or Watch())


def last_step(checkpoint: Checkpoint) -> Step:
    """The last step that was evaluated, without its tensors."""
    number, mode_step = checkpoint.last_step or 0, checkpoint.last_mode_step
    return Step(number, checkpoint.last_mode, mode_step, checkpoint.last_time)


def with_record(checkpoint: Checkpoint, rule: Watched, after: RuleRecord, step: Step) -> Checkpoint:
    """The checkpoint with the rule's new record; a new status goes into the outbox as well."""
    before = checkpoint.rules[rule.name]
    if after is before:
        return checkpoint
    changed = after.status is not before.status
    if changed:
        after = replace(after, changed_at=step.time)
    checkpoint = replace(checkpoint, rules={**checkpoint.rules, rule.name: after})
    if not changed:
        return checkpoint
    return with_change(checkpoint, rule.name, before.status, step, rule=rule)


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
    """The checkpoint with the change of the rule's status in its outbox and in its record.

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
        dedup_id=dedup_id(run, run_id, name, record.status, step.step),
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
    )
    return replace(
        checkpoint,
        rules={**checkpoint.rules, name: replace(record, last_change=change)},
        sequence=sequence,
        outbox=(*checkpoint.outbox, change),
    )


def _with_summary(checkpoint: Checkpoint, ending: Ending, watch: Watch) -> Checkpoint:
    """The checkpoint with the run's summary in what is to be published."""
    run, run_id, job = checkpoint.run, checkpoint.run_id, job_name(checkpoint.run)
    last, sequence = checkpoint.last_step, checkpoint.sequence
    notify = policy(watch.notify)
    summary = RunSummary(
        training_job_name=job,
        run=run,
        dedup_id=dedup_id(run, run_id, "summary", ending, last, sequence),
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
    )
    return replace(checkpoint, summaries=(*checkpoint.summaries, summary))


def _longest(silences: Iterable[Silence]) -> tuple[RunSilence, ...]:
    """The silences that last longest, as events have them."""
    chosen = sorted(silences, key=lambda each: each.until)[-MOST_SILENCES:]
    return tuple(
        RunSilence(each.until, each.job, each.author, each.reason, each.id) for each in chosen
    )


def _final(record: RuleRecord, ending: Ending) -> RuleStatus:
    if why_not_judged(record) in (NotJudged.NO_LOSS, NotJudged.NOT_CAPTURED):
        return RuleStatus.NOT_APPLICABLE
    return RuleStatus.NO_ISSUES_FOUND if ending == "marker" else RuleStatus.STOPPED


def _details(record: RuleRecord, rule: Watched) -> str:
    why = why_not_judged(record)
    if why is None:
        return record.details
    if why is NotJudged.TOO_FEW_STEPS:
        return record.details or "too few steps to judge by"
    reads = [read.describe() for read in rule.reads.tensors.values()]
    if not reads:
        return record.details or "never captured: what it asks the run for"
    looked_for = ", ".join(reads) + " of several workers" * rule.reads.peers
    reads_that = f"{record.details}; it reads {looked_for}"
    return reads_that if record.details else f"never captured: {looked_for}"
