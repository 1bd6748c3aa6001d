"""One rule judges one step: the rule's record after it. Pure."""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tocsin.evaluation.checkpoint import Checkpoint
from tocsin.evaluation.records import RuleRecord, Violation
from tocsin.events import MOST_SEVERE_FIRST
from tocsin.model import Evidence, Outcome, Reason, Role, RuleStatus, Verdict, json_number
from tocsin.rules import Step, not_applicable
from tocsin.watch import Options, Watched
from tocsin.words import cut

STATE_BYTES = 256 << 10  # of one rule, encoded; past it the rule is in Error and the others go on
_MEASURED_EVERY = 16  # data points: the state of Tocsin's own rules grows slowly
MOST_FIRINGS = 10  # of a rule in a start of the job
_FLAPS = f"the rule has fired {MOST_FIRINGS} times, and does not resolve again"
_MOST_DETAIL = 1024  # characters
_MOST_NAME = 1024  # characters of a tensor's name in a finding
_MOST_EVIDENCE = 50  # numbers
_MOST_TEXT = 200  # characters of a name or a text of the evidence

_NOTHING = not_applicable(Reason.NO_TENSOR, "no tensor that it reads was captured")


def judged(checkpoint: Checkpoint, rule: Watched, step: Step) -> tuple[RuleRecord, Verdict | None]:
    """Return the rule's record after this step, and its verdict; None if the rule did not give
    one."""
    record = checkpoint.rules[rule.name]
    if record.missing != {}:
        record = _with_found(record, rule, step)
    if not will_judge(rule, record, step):
        return record, None
    if is_idle(record, rule, step):
        return record, _NOTHING
    try:
        state, verdict = rule.rule.evaluate(record.state, step)
        is_measured = rule.is_custom or (
            state is not record.state and record.data_points % _MEASURED_EVERY == 0
        )
        encoded = msgspec.json.encode(state) if is_measured else b""
        # Tocsin's own rules keep JSON, and share what they compute of the same losses.
        kept = msgspec.json.decode(encoded) if rule.is_custom else state
    except (Exception, SystemExit) as error:  # noqa: BLE001  # a rule may be anybody's
        what = f"{type(error).__name__} at step {step.step}: {error}{_line(error, rule)}"
        return disabled(record, f"the rule failed: {what}"), None
    if len(encoded) > STATE_BYTES:
        what = f"the rule's state of {len(encoded)} bytes is over its {STATE_BYTES}"
        return disabled(record, what), None
    if kept is not state and kept != state and (what := _not_json(state, kept, "state")):
        return disabled(record, f"the rule's state is not kept as it is: {what}"), None
    last = record.last_step if step.tick else _count(rule.options, step)
    if last != record.last_step or kept != record.state:
        record = replace(record, last_step=last, state=kept)
    return _with_verdict(record, rule, verdict, step, checkpoint), verdict


def will_judge(rule: Watched, record: RuleRecord, step: Step) -> bool:
    """Return whether the rule is evaluated at this step: its options may leave it out."""
    options = rule.options
    if record.disabled or step.tick:
        return not record.disabled
    if options.mode is not None and step.mode is not options.mode:
        return False
    now = _count(options, step)
    if now < options.start_step or (options.end_step is not None and now >= options.end_step):
        return False
    return record.last_step is None or now - record.last_step >= options.every


def is_idle(record: RuleRecord, rule: Watched, step: Step) -> bool:
    """Return whether the rule has found nothing that it needs up to this step, and remembers
    nothing.

    Its record and its verdict are then what they were: long runs lack what many rules read.
    """
    missing = record.missing
    if not missing or record.applicable or record.state or record.last_step is None or step.tick:
        return False
    if any(map(step.tensors.get, missing)) or rule.reads.trial or rule.is_custom:
        return False
    return len(missing) == len(rule.reads.tensors) or any(
        map(missing.__contains__, rule.reads.needs)
    )


def _line(error: BaseException, rule: Watched) -> str:
    """The file and line of a rule that is not Tocsin's own, where it failed."""
    package = type(rule.rule).__module__.rpartition(".")[0]
    own = [
        f" ({Path(frame.f_code.co_filename).name}, line {line})"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if package and frame.f_globals.get("__package__") == package and rule.is_custom
    ]
    return own[-1] if own else ""


def _not_json(value: Any, kept: Any, where: str) -> str:
    """Return what JSON changes first in a state, which it makes ``kept``; "" for tuples only."""
    if value == kept:
        return ""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{where} is {value}, which JSON cannot hold"
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                return f"the key {key!r} of {where} is a {type(key).__name__}, not a str"
            if what := _not_json(inner, kept[key], f"{where}[{key!r}]"):
                return what
    elif isinstance(value, list | tuple):
        for number, (inner, then) in enumerate(zip(value, kept, strict=True)):
            if what := _not_json(inner, then, f"{where}[{number}]"):
                return what
    elif not isinstance(value, str | int | float | bool | None):
        return f"{where} is a {type(value).__name__}"
    return ""


def _with_found(record: RuleRecord, rule: Watched, step: Step) -> RuleRecord:
    """The record with the reads that have found nothing so far, up to this step."""
    before = record.missing
    if step.tick or (before is not None and not any(map(step.tensors.get, before))):
        return record
    before = _roles_read(rule) if before is None else before
    missing = {name: roles for name, roles in before.items() if not step.tensors.get(name)}
    return replace(record, missing=missing)


def _roles_read(rule: Watched) -> dict[str, tuple[Role, ...]]:
    """The roles that satisfy each read of the rule.

    There are none where a tensor of the role is not enough: where the rule asks for a name, a kind
    or a second worker, too. Summaries of intervals are never all that a rule lacks.
    """
    narrowed = rule.options.include or rule.options.exclude or rule.reads.peers
    return {
        name: () if narrowed or (read.kinds and Role.INTERVAL not in read.roles) else read.roles
        for name, read in rule.reads.tensors.items()
    }


def disabled(record: RuleRecord, reason: str) -> RuleRecord:
    """Return the record of a rule that is not evaluated any more, and why."""
    fired = record.status is RuleStatus.ISSUES_FOUND
    status = RuleStatus.ISSUES_FOUND if fired else RuleStatus.ERROR
    details = f"{record.details}; {reason}" if fired else reason
    return replace(record, disabled=True, status=status, details=details[:_MOST_DETAIL])


def _count(options: Options, step: Step) -> int:
    return step.step if options.mode is None else step.mode_step


def _with_verdict(
    record: RuleRecord, rule: Watched, verdict: Verdict, step: Step, checkpoint: Checkpoint
) -> RuleRecord:
    """The record with the verdict counted, and the status that follows from it."""
    if verdict.outcome is Outcome.NOT_APPLICABLE:
        there = (not step.tensors or any(step.tensors.values())) and not record.applicable
        details = verdict.detail[:_MOST_DETAIL]
        return replace(record, details=details) if there and details != record.details else record
    if not record.applicable:
        record = replace(record, applicable=True, details=checkpoint.note)
    if verdict.outcome is Outcome.UNDECIDED:
        return record
    points = record.data_points + 1
    if verdict.violation:
        record = replace(record, data_points=points)
    else:
        healthy_at = step.step if record.first_violation is None else record.healthy_at
        record = replace(
            record, data_points=points, streak=0, candidate=None, healthy_at=healthy_at
        )
    if record.status is RuleStatus.ERROR:  # by a step that was given up
        record = replace(record, status=RuleStatus.IN_PROGRESS, details=checkpoint.note)
    if not verdict.violation:
        if verdict.detail and record.fired_at is None:  # why what looks like a finding is none
            record = replace(record, details=verdict.detail[:_MOST_DETAIL])
        return _resolved(record, rule.options)
    if _in_grace(rule.options, step, checkpoint):
        return record
    seen = Violation(
        step.step,
        step.mode,
        step.mode_step,
        verdict.worker,
        None if verdict.tensor is None else cut(verdict.tensor, _MOST_NAME),
        verdict.reason.value,
        verdict.detail[:_MOST_DETAIL],
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
    details, severity = verdict.detail[:_MOST_DETAIL], rule.severity_of(verdict.severity)
    if record.status is RuleStatus.ISSUES_FOUND:
        rank = MOST_SEVERE_FIRST.index
        if record.severity is None or rank(severity) >= rank(record.severity):
            return record
        return replace(
            record, severity=severity, details=details, first_violation=seen, fired_at=seen
        )
    if record.streak < rule.options.for_steps:
        return record
    if record.firings + 1 == MOST_FIRINGS and rule.options.resolve is not None:
        details = f"{cut(details, _MOST_DETAIL - len(_FLAPS) - 2)}; {_FLAPS}"
    return replace(
        record,
        status=RuleStatus.ISSUES_FOUND,
        severity=severity,
        details=details,
        firings=record.firings + 1,
        first_violation=record.first_violation or record.candidate,
        fired_at=record.fired_at or seen,
    )


def _kept(evidence: Evidence) -> Evidence:
    """The evidence in a size that every event has room for: a custom rule may say anything."""
    kept = islice(evidence.items(), _MOST_EVIDENCE)
    values = ((cut(str(key), _MOST_TEXT), json_number(value)) for key, value in kept)
    return {key: cut(v, _MOST_TEXT) if isinstance(v, str) else v for key, v in values}


def _resolved(record: RuleRecord, options: Options) -> RuleRecord:
    """After ``resolve`` healthy evaluations in a row a fired rule is armed again, unless it flaps:
    each change costs events, messages and a page.
    """
    if record.status is not RuleStatus.ISSUES_FOUND:
        return record
    record = replace(record, healthy=record.healthy + 1)
    flaps = record.firings >= MOST_FIRINGS
    if options.resolve is None or record.healthy < options.resolve or flaps:
        return record
    details = f"resolved after {record.healthy} healthy evaluations; was: {record.details}"
    return replace(record, status=RuleStatus.IN_PROGRESS, details=details[:_MOST_DETAIL], healthy=0)


def _in_grace(options: Options, step: Step, checkpoint: Checkpoint) -> bool:
    if checkpoint.first_step is None or checkpoint.first_time is None:
        return False
    # The files of a run that was copied have times in any order.
    spent = max(0.0, step.time - checkpoint.first_time)
    return step.step - checkpoint.first_step < options.grace_steps or spent < options.grace_seconds
