"""The heart: (checkpoint, step) → checkpoint', with the status changes in its outbox. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import msgspec

from tocsin.evaluation._checkpoint import Checkpoint, RuleRecord, Violation
from tocsin.evaluation._not_judged import NotJudged, roles_read, why_not_judged
from tocsin.evaluation._telling import with_change, with_end
from tocsin.events import Ending
from tocsin.model import Outcome, RuleStatus, Verdict, json_number
from tocsin.rules import Step
from tocsin.watch import Options, Refused, Watch, Watched

STATE_BYTES = 256 << 10  # of one rule, encoded; past it the rule is in Error and the others go on


def configure(
    checkpoint: Checkpoint, watched: Iterable[Watched], refused: Iterable[Refused]
) -> Checkpoint:
    """The checkpoint with a record for each configured rule: kept if unchanged, else a new one.

    There is an event for a rule that is refused, and for one that starts again and so loses the
    status it had.
    """
    before, now = checkpoint.rules, _last(checkpoint)
    watched = tuple(watched)
    dry_run = any(rule.dry_run for rule in watched)  # it is the whole file's
    records: dict[str, RuleRecord] = {}
    changed: list[tuple[str, RuleStatus, Watched | None]] = []
    for rule in watched:
        kept = before.get(rule.name)
        if kept is not None and kept.fingerprint == rule.fingerprint:
            records[rule.name] = replace(kept, severity=rule.severity)
            continue
        records[rule.name] = RuleRecord(
            rule.rule_name,
            rule.fingerprint,
            rule.parameters,
            rule.severity,
            details=checkpoint.note,
        )
        if kept is not None and kept.status is not RuleStatus.IN_PROGRESS:
            changed.append((rule.name, kept.status, rule))
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
        changed.append((bad.name, previous, None))
    checkpoint = replace(checkpoint, rules=records)
    for name, previous, watched_rule in changed:
        checkpoint = with_change(
            checkpoint, name, previous, now, rule=watched_rule, dry_run=dry_run
        )
    return checkpoint


def fold(
    checkpoint: Checkpoint, watched: Iterable[Watched], steps: Mapping[str, Step]
) -> Checkpoint:
    """One step, or tick, folded in. ``steps`` has it as each rule sees it, by the rule's name
    in the configuration; rules that it leaves out are not evaluated.
    """
    for rule in watched:
        if (step := steps.get(rule.name)) is not None:
            after = _evaluated(checkpoint, rule, step)
            checkpoint = _with_record(checkpoint, rule, after, step)
    return checkpoint


def skip(checkpoint: Checkpoint, watched: Iterable[Watched], step: Step, reason: str) -> Checkpoint:
    """A step that cannot be evaluated: every rule that has found nothing so far is in Error."""
    for rule in watched:
        record = checkpoint.rules[rule.name]
        if record.status is RuleStatus.IN_PROGRESS:
            after = replace(record, status=RuleStatus.ERROR, details=reason)
            checkpoint = _with_record(checkpoint, rule, after, step)
    return checkpoint


def finish(
    checkpoint: Checkpoint,
    watched: Iterable[Watched],
    ending: Ending,
    watch: Watch | None = None,
) -> Checkpoint:
    """The run's end: what each rule that has found nothing comes to, and all of them together."""
    last = _last(checkpoint)
    for rule in watched:
        record = checkpoint.rules[rule.name]
        if record.status is RuleStatus.IN_PROGRESS:
            after = replace(record, status=_final(record, ending), details=_details(record, rule))
            checkpoint = _with_record(checkpoint, rule, after, last)
    return with_end(checkpoint, ending, watch or Watch())


def _last(checkpoint: Checkpoint) -> Step:
    """The last step that was evaluated, without its tensors."""
    number, mode_step = checkpoint.last_step or 0, checkpoint.last_mode_step
    return Step(number, checkpoint.last_mode, mode_step, checkpoint.last_time)


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


def _evaluated(checkpoint: Checkpoint, rule: Watched, step: Step) -> RuleRecord:
    """The rule's record after this step."""
    record = _with_found(checkpoint.rules[rule.name], rule, step)
    if record.disabled or not _wanted(rule.options, record, step):
        return record
    try:
        state, verdict = rule.rule.evaluate(record.state, step)
        size = len(msgspec.json.encode(state))
    except Exception as error:  # noqa: BLE001  # a rule may be anybody's; it must harm no other
        what = f"{type(error).__name__} at step {step.step}: {error}"
        return _disabled(record, f"the rule failed: {what}")
    if size > STATE_BYTES:
        return _disabled(record, f"the rule's state of {size} bytes is over its {STATE_BYTES}")
    if not step.tick:
        record = replace(record, last_step=_count(rule.options, step))
    return _judged(replace(record, state=state), rule, verdict, step, checkpoint)


def _with_found(record: RuleRecord, rule: Watched, step: Step) -> RuleRecord:
    """The record with the reads that have found nothing so far, up to this step."""
    if step.tick:
        return record
    before = roles_read(rule) if record.missing is None else record.missing
    missing = {name: roles for name, roles in before.items() if not step.tensors.get(name)}
    return record if missing == record.missing else replace(record, missing=missing)


def _disabled(record: RuleRecord, reason: str) -> RuleRecord:
    fired = record.status is RuleStatus.ISSUES_FOUND
    status = RuleStatus.ISSUES_FOUND if fired else RuleStatus.ERROR
    details = f"{record.details}; {reason}" if fired else reason
    return replace(record, disabled=True, status=status, details=details[:1024])


def _wanted(options: Options, record: RuleRecord, step: Step) -> bool:
    """Whether the engine's options let the rule see this step."""
    if step.tick:
        return True
    if options.mode is not None and step.mode is not options.mode:
        return False
    now = _count(options, step)
    if now < options.start_step or (options.end_step is not None and now >= options.end_step):
        return False
    return record.last_step is None or now - record.last_step >= options.every


def _count(options: Options, step: Step) -> int:
    return step.step if options.mode is None else step.mode_step


def _judged(
    record: RuleRecord, rule: Watched, verdict: Verdict, step: Step, checkpoint: Checkpoint
) -> RuleRecord:
    """The record with the verdict counted, and the status that follows from it."""
    if verdict.outcome is Outcome.NOT_APPLICABLE:
        there = (not step.tensors or any(step.tensors.values())) and not record.applicable
        return replace(record, details=verdict.detail[:1024]) if there else record
    if not record.applicable:
        record = replace(record, applicable=True, details=checkpoint.note)
    if verdict.outcome is Outcome.UNDECIDED:
        return record
    record = replace(record, data_points=record.data_points + 1)
    if not verdict.violation:
        return _resolved(replace(record, streak=0, candidate=None), rule.options)
    if _in_grace(rule.options, step, checkpoint):
        return record
    seen = Violation(
        step.step,
        step.mode,
        step.mode_step,
        verdict.worker,
        verdict.tensor,
        verdict.reason.value,
        verdict.detail[:1024],
        {key: json_number(value) for key, value in verdict.evidence.items()},
    )
    record = replace(
        record,
        violations=record.violations + 1,
        streak=record.streak + 1,
        healthy=0,
        candidate=record.candidate or seen,
        last_violation=seen,
    )
    if record.streak < rule.options.for_steps or record.status is RuleStatus.ISSUES_FOUND:
        return record
    return replace(
        record,
        status=RuleStatus.ISSUES_FOUND,
        details=verdict.detail[:1024],
        first_violation=record.first_violation or record.candidate,
        fired_at=record.fired_at or seen,
    )


def _resolved(record: RuleRecord, options: Options) -> RuleRecord:
    """After ``resolve`` healthy evaluations in a row a fired rule is armed again."""
    if record.status is not RuleStatus.ISSUES_FOUND:
        return record
    record = replace(record, healthy=record.healthy + 1)
    if options.resolve is None or record.healthy < options.resolve:
        return record
    details = f"resolved after {record.healthy} healthy evaluations; was: {record.details}"
    return replace(record, status=RuleStatus.IN_PROGRESS, details=details[:1024], healthy=0)


def _in_grace(options: Options, step: Step, checkpoint: Checkpoint) -> bool:
    if checkpoint.first_step is None or checkpoint.first_time is None:
        return False
    return (
        step.step - checkpoint.first_step < options.grace_steps
        or step.time - checkpoint.first_time < options.grace_seconds
    )


def _with_record(
    checkpoint: Checkpoint, rule: Watched, after: RuleRecord, step: Step
) -> Checkpoint:
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
