"""Fold: (checkpoint, step) → checkpoint', with the status changes in its outbox. Pure."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

import msgspec

from tocsin.evaluation.checkpoint import Checkpoint, RuleRecord, Violation
from tocsin.evaluation.outbox import last_step
from tocsin.evaluation.planning import ReadyStep
from tocsin.evaluation.status_changes import reopen, superseding, with_record
from tocsin.model import Evidence, Outcome, Role, RuleStatus, Verdict, json_number
from tocsin.rules import Step
from tocsin.tensors import parse_index_key
from tocsin.watch import Options, Watched
from tocsin.words import cut

STATE_BYTES = 256 << 10  # of one rule, encoded; past it the rule is in Error and the others go on
_MOST_RESTARTS = 20  # remembered
_MOST_INCOMPLETE = 100
_MOST_WORKERS = 10_000
_MOST_NAME = 1024  # characters of a tensor's name in a finding
_MOST_EVIDENCE = 50  # numbers
_MOST_TEXT = 200  # characters of a name or a text of the evidence

T = TypeVar("T")

OnVerdict = Callable[[str, Step, Verdict, RuleStatus], None]
"""Gets the name of a rule in the configuration, the step, the verdict and the status after it."""


def ignore(rule: str, step: Step, verdict: Verdict, status: RuleStatus) -> None:
    """Takes a verdict, and does nothing with it."""


def advance(checkpoint: Checkpoint, ready: ReadyStep) -> Checkpoint:
    """The checkpoint with its frontier at a step and the step counted; rules come after that."""
    refused = {
        key: why for key, why in checkpoint.refused.items() if not _is_at_or_before(key, ready.step)
    }
    after = replace(
        checkpoint,
        frontier=ready.step,
        counted_to="",
        counted=0,
        missing_workers=checkpoint.missing_workers + ready.missing,
        refused=refused,
    )
    if not ready.files:
        lost = len(refused) == len(checkpoint.refused)  # else it was there, but refused
        return replace(after, lost_steps=checkpoint.lost_steps + lost)
    if checkpoint.ended:
        after = reopen(after)
    after = _with_workers(_with_starts(after, ready), ready)
    step = ready.without_tensors
    return replace(
        after,
        steps=after.steps + 1,
        first_step=step.step if after.first_step is None else after.first_step,
        first_time=step.time if after.first_time is None else after.first_time,
        last_step=step.step,
        last_mode=step.mode,
        last_mode_step=step.mode_step,
        last_time=max(step.time, after.last_time),
        seen_at=None,
        files=after.files + len(ready.files),
    )


def _with_workers(checkpoint: Checkpoint, ready: ReadyStep) -> Checkpoint:
    """The checkpoint with what each worker delivered, and which are missing."""
    there = {found.file.worker: found.file for found in ready.files}
    unchained = {worker: file.step for worker, file in there.items() if file.run_id is None}
    incomplete, waits = checkpoint.incomplete, 0
    if ready.missing:
        incomplete = (*incomplete, ready.step)[-_MOST_INCOMPLETE:]
        waits = checkpoint.waits + 1 if ready.missing <= checkpoint.missing else 1
    return replace(
        checkpoint,
        delivered=_newest({**checkpoint.delivered, **unchained}),
        incomplete=incomplete,
        missing=ready.missing,
        waits=waits,
        absent=tuple(worker for worker in checkpoint.workers if worker not in there),
        workers=tuple(sorted({*checkpoint.workers, *there})[:_MOST_WORKERS]),
    )


def _with_starts(checkpoint: Checkpoint, ready: ReadyStep) -> Checkpoint:
    """The checkpoint with each worker's start of the job, and the steps at which one changed."""
    starts = {f.file.worker: f.file.run_id for f in ready.files if f.file.run_id is not None}
    present = checkpoint.run_ids
    replaced = [present[w] for w, start in starts.items() if present.get(w, start) != start]
    restarts = checkpoint.restarts
    return replace(
        checkpoint,
        run_ids=_newest({**present, **starts}),
        restarts=(*restarts, ready.step)[-_MOST_RESTARTS:] if replaced else restarts,
        superseded=superseding(checkpoint, replaced),
    )


def _newest(by_worker: dict[str, T]) -> dict[str, T]:
    return dict(list(by_worker.items())[-_MOST_WORKERS:])


def _is_at_or_before(key: str, step: int) -> bool:
    place = parse_index_key(key)
    return place is not None and place[0] <= step


def fold(
    checkpoint: Checkpoint,
    watched: Iterable[Watched],
    steps: Mapping[str, Step],
    on_verdict: OnVerdict = ignore,
) -> Checkpoint:
    """The checkpoint after each rule has judged a step, or a tick.

    ``steps`` has the step as each rule sees it, by the rule's name in the configuration. Rules
    without one are not evaluated. ``on_verdict`` gets each verdict.
    """
    for rule in watched:
        if (step := steps.get(rule.name)) is not None:
            after = _evaluated(checkpoint, rule, step, on_verdict)
            checkpoint = with_record(checkpoint, rule, after, step)
    return checkpoint


def fold_tick(checkpoint: Checkpoint, watched: Iterable[Watched], now: float) -> Checkpoint:
    """The checkpoint after the rules that read the time have judged it, each time once."""
    timed = [rule for rule in watched if rule.reads.ticks]
    if not timed or now <= checkpoint.last_tick:
        return checkpoint
    last = last_step(checkpoint)
    tick = replace(last, time=now, tick=True, waiting_since=checkpoint.seen_at)
    checkpoint = replace(checkpoint, last_tick=now)
    return fold(checkpoint, timed, {rule.name: tick for rule in timed})


def skip(checkpoint: Checkpoint, watched: Iterable[Watched], step: Step, reason: str) -> Checkpoint:
    """A step that cannot be evaluated: every rule that has found nothing so far is in Error."""
    for rule in watched:
        record = checkpoint.rules[rule.name]
        if record.status is RuleStatus.IN_PROGRESS:
            after = replace(record, status=RuleStatus.ERROR, details=reason)
            checkpoint = with_record(checkpoint, rule, after, step)
    return checkpoint


def _evaluated(
    checkpoint: Checkpoint, rule: Watched, step: Step, on_verdict: OnVerdict
) -> RuleRecord:
    """The rule's record after this step."""
    record = _with_found(checkpoint.rules[rule.name], rule, step)
    if record.disabled or not _is_seen(rule.options, record, step):
        return record
    try:
        state, verdict = rule.rule.evaluate(record.state, step)
        encoded = msgspec.json.encode(state)
        kept = msgspec.json.decode(encoded)
    except Exception as error:  # noqa: BLE001  # a rule may be anybody's; it must harm no other
        what = f"{type(error).__name__} at step {step.step}: {error}{_line(error, rule)}"
        return _disabled(record, f"the rule failed: {what}")
    if len(encoded) > STATE_BYTES:
        what = f"the rule's state of {len(encoded)} bytes is over its {STATE_BYTES}"
        return _disabled(record, what)
    if kept != state and (what := _not_json(state, "state")):
        return _disabled(record, f"the rule's state is not kept as it is: {what}")
    if not step.tick:
        record = replace(record, last_step=_count(rule.options, step))
    record = _judged(replace(record, state=kept), rule, verdict, step, checkpoint)
    on_verdict(rule.name, step, verdict, record.status)
    return record


def _line(error: BaseException, rule: Watched) -> str:
    """The file and line of a rule that is not Tocsin's own, where it failed."""
    package = type(rule.rule).__module__.rpartition(".")[0]
    own = [
        f" ({Path(frame.f_code.co_filename).name}, line {line})"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if package and frame.f_globals.get("__package__") == package != "tocsin.rules"
    ]
    return own[-1] if own else ""


def _not_json(value: object, where: str) -> str:
    """The first part of a state that JSON changes, and how; "" if that is tuples only."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{where} is {value}, which JSON has not"
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                return f"the key {key!r} of {where} is a {type(key).__name__}, not a str"
            if what := _not_json(inner, f"{where}[{key!r}]"):
                return what
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            if what := _not_json(inner, f"{where}[{number}]"):
                return what
    elif not isinstance(value, str | int | float | bool | None):
        return f"{where} is a {type(value).__name__}"
    return ""


def _with_found(record: RuleRecord, rule: Watched, step: Step) -> RuleRecord:
    """The record with the reads that have found nothing so far, up to this step."""
    if step.tick:
        return record
    before = _roles_read(rule) if record.missing is None else record.missing
    missing = {name: roles for name, roles in before.items() if not step.tensors.get(name)}
    return record if missing == record.missing else replace(record, missing=missing)


def _roles_read(rule: Watched) -> dict[str, tuple[Role, ...]]:
    """The roles that satisfy each read of the rule.

    There are none where a tensor of the role is not enough: where the rule asks for a name, a kind
    or a second worker, too.
    """
    narrowed = rule.options.include or rule.options.exclude or rule.reads.peers
    return {
        name: () if narrowed or read.kinds else read.roles
        for name, read in rule.reads.tensors.items()
    }


def _disabled(record: RuleRecord, reason: str) -> RuleRecord:
    fired = record.status is RuleStatus.ISSUES_FOUND
    status = RuleStatus.ISSUES_FOUND if fired else RuleStatus.ERROR
    details = f"{record.details}; {reason}" if fired else reason
    return replace(record, disabled=True, status=status, details=details[:1024])


def _is_seen(options: Options, record: RuleRecord, step: Step) -> bool:
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
    if record.status is RuleStatus.ERROR:  # by a step that was given up
        record = replace(record, status=RuleStatus.IN_PROGRESS, details=checkpoint.note)
    if not verdict.violation:
        return _resolved(replace(record, streak=0, candidate=None), rule.options)
    if _in_grace(rule.options, step, checkpoint):
        return record
    seen = Violation(
        step.step,
        step.mode,
        step.mode_step,
        verdict.worker,
        None if verdict.tensor is None else cut(verdict.tensor, _MOST_NAME),
        verdict.reason.value,
        verdict.detail[:1024],
        _kept(verdict.evidence),
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
        severity=rule.severity_of(verdict.severity),
        details=verdict.detail[:1024],
        first_violation=record.first_violation or record.candidate,
        fired_at=record.fired_at or seen,
    )


def _kept(evidence: Evidence) -> Evidence:
    """The evidence in a size that every event has room for: a custom rule may say anything."""
    kept = islice(evidence.items(), _MOST_EVIDENCE)
    values = ((cut(str(key), _MOST_TEXT), json_number(value)) for key, value in kept)
    return {key: cut(v, _MOST_TEXT) if isinstance(v, str) else v for key, v in values}


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
