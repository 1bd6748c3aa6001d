"""Fold: statuses of rules that do not come from a verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from tocsin.evaluation.checkpoint import Checkpoint
from tocsin.evaluation.not_judged import NotJudged, why_not_judged
from tocsin.evaluation.outbox import last_step, with_change, with_removal, with_summary
from tocsin.evaluation.planning import FoundFile
from tocsin.evaluation.records import RuleRecord
from tocsin.events import Ending, timestamp
from tocsin.model import RuleStatus, Withdrawal
from tocsin.rules import Step
from tocsin.tensors import IndexFile
from tocsin.watch import Refused, Watch, Watched
from tocsin.words import cut

_MOST_STARTS = 100  # remembered as superseded; a job with more restarts is in other trouble


def configure(
    checkpoint: Checkpoint, watched: Iterable[Watched], refused: Iterable[Refused]
) -> Checkpoint:
    """Return the checkpoint with a record for each configured rule: kept if unchanged, else a new
    one.

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
            last_change=kept.last_change if kept else None,  # it may not have been sent yet
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
        checkpoint = with_removal(checkpoint, before[name], now)
    return checkpoint


def restarted(checkpoint: Checkpoint, file: IndexFile, step: int, since: float) -> Checkpoint:
    """Return the checkpoint before ``step``, the first of a new start of the job, which wrote
    ``file``.

    Where the start has no run id, files older than ``since`` are not its own.
    Rules keep their records until ``configure`` gives them new ones, with an event. A start that
    did not resume sets the counters to zero, too.
    """
    # A worker may have shown this start before another worker's files show that it began again.
    others = [start for start in checkpoint.run_ids.values() if start != file.run_id]
    if file.meta is None:
        generation = checkpoint.generation + 1
        checkpoint = replace(
            checkpoint, since=since, delivered={}, incomplete=(), generation=generation
        )
    elif file.meta.resumed_from is None:
        checkpoint = replace(
            checkpoint, steps=0, first_step=None, first_time=None, files=0, workers=()
        )
    return replace(
        checkpoint,
        frontier=step - 1,
        partly=None,
        superseded=superseding(checkpoint, others),
        rules={name: replace(old, fingerprint="") for name, old in checkpoint.rules.items()},
        references={},
        waits=0,
        counted_to="",
        counted=0,
        ended=None,
        job_status=None,
        refused={},
        note=f"evaluated again from step {step}: the job was restarted",
    )


def without_start(checkpoint: Checkpoint, found: FoundFile) -> Checkpoint:
    """Return the checkpoint without the start that wrote a file, and with a note if it still
    writes.

    It does if the file is newer than one of the present start's that was evaluated.
    """
    run_id, meta = found.file.run_id, found.file.meta
    if run_id is None or meta is None:
        return checkpoint
    if run_id not in checkpoint.superseded:
        checkpoint = replace(checkpoint, superseded=superseding(checkpoint, [run_id]))
    present = {*checkpoint.run_ids.values()} - {*checkpoint.superseded}
    if not present or found.modified <= checkpoint.last_time:
        return checkpoint
    began = "" if meta.started is None else f" of {timestamp(meta.started)}"
    return _with_note(
        checkpoint,
        f"two starts of the job write into this run: the older one{began} is not evaluated; stop"
        " it, or move its files to another folder",
    )


def _with_note(checkpoint: Checkpoint, note: str) -> Checkpoint:
    """The checkpoint with a note, which rules without a finding have as their details."""
    rules = {
        name: replace(record, details=note)
        if record.status is RuleStatus.IN_PROGRESS and record.details in ("", checkpoint.note)
        else record
        for name, record in checkpoint.rules.items()
    }
    return checkpoint if note == checkpoint.note else replace(checkpoint, note=note, rules=rules)


def replayed(checkpoint: Checkpoint, note: str, now: float) -> Checkpoint:
    """Return the checkpoint of a run that is to be evaluated again from its start, with all that
    follows.

    Its alerts are new ones, numbered above all that there were, and those that fired are withdrawn.
    """
    return Checkpoint(
        checkpoint.run,
        generation=checkpoint.generation + 1,
        note=note,
        rules={name: replace(old, fingerprint="") for name, old in checkpoint.rules.items()},
        sequence=max(checkpoint.sequence, int(now)),
    )


def superseding(checkpoint: Checkpoint, starts: Iterable[str]) -> tuple[str, ...]:
    """Return the superseded starts of the job, with these."""
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
    return replace(checkpoint, ended=None, job_status=None, rules=rules)


def finish(
    checkpoint: Checkpoint,
    watched: Iterable[Watched],
    ending: Ending,
    watch: Watch | None = None,
) -> Checkpoint:
    """End the run: set a final status for each rule without a finding, and add the summary."""
    last = last_step(checkpoint)
    for rule in watched:
        record = checkpoint.rules[rule.name]
        if record.status is RuleStatus.IN_PROGRESS:
            if record.details == checkpoint.note:  # a restart says nothing of how it ended
                record = replace(record, details="")
            status, details = _final(record, ending), _details(record, rule)
            if checkpoint.seen_at is not None:  # no step yet
                status = RuleStatus.NOT_APPLICABLE
                details = "the run ended before any of its steps could be evaluated"
            after = replace(record, status=status, details=cut(details, 1024))
            checkpoint = with_record(checkpoint, rule, after, last)
    return with_summary(replace(checkpoint, ended=ending), ending, watch or Watch())


def with_record(checkpoint: Checkpoint, rule: Watched, after: RuleRecord, step: Step) -> Checkpoint:
    """Return the checkpoint with the rule's new record; a new status, or a higher severity of a
    finding, goes into the outbox as well."""
    before = checkpoint.rules[rule.name]
    if after is before:
        return checkpoint
    changed = is_news(after, before)
    if changed:
        after = replace(after, changed_at=step.time)
    checkpoint = replace(checkpoint, rules={**checkpoint.rules, rule.name: after})
    if not changed:
        return checkpoint
    return with_change(checkpoint, rule.name, before.status, step, rule=rule)


def is_news(after: RuleRecord, before: RuleRecord) -> bool:
    """Return whether a rule's status has changed, or what it has found is more severe now."""
    fires = after.status is RuleStatus.ISSUES_FOUND
    worse = fires and after.severity is not before.severity
    return worse or after.status is not before.status


def _final(record: RuleRecord, ending: Ending) -> RuleStatus:
    if why_not_judged(record) in (NotJudged.NO_LOSS, NotJudged.NOT_CAPTURED):
        return RuleStatus.NOT_APPLICABLE
    return RuleStatus.NO_ISSUES_FOUND if ending == "marker" else RuleStatus.STOPPED


def _details(record: RuleRecord, rule: Watched) -> str:
    why = why_not_judged(record)
    if why is None:
        return record.details
    if why is NotJudged.TOO_FEW_STEPS:
        return record.details or "too few steps to judge"
    reads = {name: read.describe() for name, read in rule.reads.tensors.items()}
    if not reads:
        return record.details or "the run lacks the tensors that the rule reads"
    missing = [text for name, text in reads.items() if name in (record.missing or {})]
    looked_for = (
        ", ".join(missing or reads.values()) + " of at least two workers" * rule.reads.peers
    )
    if not record.details:
        return f"not captured: {looked_for}"
    return f"{record.details}; {'not captured:' if missing else 'it reads'} {looked_for}"
