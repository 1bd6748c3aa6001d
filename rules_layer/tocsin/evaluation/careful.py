"""Fold: Tocsin's own rules first, then each custom rule, which may never return.

Where an invocation died before, it is noted which custom rule is at work. If this one dies as well,
the next one switches off that rule and no other.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from tocsin.evaluation.checkpoint import Checkpoint
from tocsin.evaluation.folding import OnVerdict, advance, fold
from tocsin.evaluation.judging import disabled, will_judge
from tocsin.evaluation.loading import LoadedStep
from tocsin.evaluation.outbox import last_step
from tocsin.evaluation.planning import ReadyStep
from tocsin.evaluation.records import PartlyJudged
from tocsin.evaluation.status_changes import with_record
from tocsin.evaluation.trace import Point, point_of, scalars_of
from tocsin.evaluation.unit_of_work import UnitOfWork
from tocsin.model import RuleStatus, Verdict
from tocsin.rules import Step
from tocsin.watch import Watched


def _no_note(rule: str) -> None:
    """Record nothing: outside Lambda nobody takes over from a process that hangs."""


@dataclass(frozen=True)
class Care:
    """The way in which custom rules are run.

    is_needed: an invocation died at this run, or failed.
    suspect: the rule that was at work then, "" if none was.
    note: records which rule is at work, "" for none, where the next invocation finds it.
    until: with care no custom rule begins after that, so each has some seconds.
    """

    is_needed: bool = False
    suspect: str = ""
    note: Callable[[str], None] = _no_note
    until: float = math.inf


def switch_off(checkpoint: Checkpoint, watched: Iterable[Watched], suspect: str) -> Checkpoint:
    """Return the checkpoint without the rule that was at work when an invocation died."""
    for rule in watched:
        record = checkpoint.rules[rule.name]
        if rule.name == suspect and not record.disabled:
            partly = checkpoint.partly
            when = "as time passed" if partly is None else f"at step {partly.step}"
            reason = f"switched off: {when} it hung or ended the process"
            return with_record(checkpoint, rule, disabled(record, reason), last_step(checkpoint))
    return checkpoint


def judge_step(
    work: UnitOfWork,
    ready: ReadyStep,
    loaded: LoadedStep,
    watched: Sequence[Watched],
    care: Care,
    check_reads: Callable[[], None],
    on_verdict: OnVerdict,
) -> bool:
    """Count the step as evaluated when each rule has judged it, Tocsin's own first.

    ``check_reads`` raises if a service failed while a rule read the run by itself.
    False if time was up between two custom rules; then what was judged is committed.
    """
    left = work.checkpoint.not_judged(watched, ready.step)
    own, custom = _divided(left)
    done = [rule.name for rule in watched if rule not in custom]
    points: list[Point] = []

    def traced(rule: str, step: Step, verdict: Verdict, status: RuleStatus) -> None:
        if (point := point_of(rule, step, verdict, status)) is not None:
            points.append(point)
        on_verdict(rule, step, verdict, status)

    judged = traced if work.is_traced else on_verdict
    after = fold(advance(work.checkpoint, ready), own, loaded.steps, judged)
    if custom and (care.is_needed or after.outbox):  # an alert does not wait for custom rules
        _commit_part(work, after, points, PartlyJudged(ready.step, tuple(done)))
        after = advance(work.checkpoint, ready)
        points.clear()
    for rule in custom:
        if care.is_needed:
            if work.ports.now() >= care.until:
                break
            if will_judge(rule, after.rules[rule.name], loaded.steps[rule.name]):
                care.note(rule.name)
        after = fold(after, [rule], loaded.steps, judged)
        done.append(rule.name)
    if custom and care.is_needed:
        care.note("")
    check_reads()
    if len(done) < len(watched):
        _commit_part(work, after, points, PartlyJudged(ready.step, tuple(done)))
        return False
    before = work.checkpoint
    work.replace(
        replace(
            after,
            references=loaded.references,
            unreadable=before.unreadable + len(loaded.unreadable),
        )
    )
    if work.is_traced:
        work.trace((*points, *scalars_of(ready.without_tensors, loaded.tensors)))
    return True


def judge_tick(work: UnitOfWork, watched: Iterable[Watched], now: float, care: Care) -> None:
    """The rules that read the time judge it, each time once.

    It is always noted which custom rule is at work: the next look may bring no tick.
    """
    checkpoint = work.checkpoint
    timed = [rule for rule in watched if rule.reads.ticks]
    if not timed or now <= checkpoint.last_tick:
        return
    last, waiting_since = last_step(checkpoint), checkpoint.seen_at
    tick = dataclasses.replace(last, time=now, tick=True, waiting_since=waiting_since)
    steps = {rule.name: tick for rule in timed}
    own, custom = _divided(timed)
    work.replace(fold(replace(checkpoint, last_tick=now), own, steps))
    if custom and (care.is_needed or work.checkpoint.outbox):
        work.commit()
    for rule in custom:
        if will_judge(rule, work.checkpoint.rules[rule.name], tick):
            care.note(rule.name)
        work.replace(fold(work.checkpoint, [rule], steps))
    if custom:
        care.note("")


def _divided(rules: Iterable[Watched]) -> tuple[list[Watched], list[Watched]]:
    """Tocsin's own rules, and the others."""
    rules = tuple(rules)
    return [r for r in rules if not r.is_custom], [r for r in rules if r.is_custom]


def _commit_part(
    work: UnitOfWork, after: Checkpoint, points: Sequence[Point], partly: PartlyJudged
) -> None:
    """Commit what some rules have found at a step and who wrote it, and nothing else of it."""
    before = work.checkpoint
    work.replace(
        replace(
            before,
            run_ids=after.run_ids,
            began=after.began,
            restarts=after.restarts,
            superseded=after.superseded,
            rules=after.rules,
            ended=after.ended,
            outbox=after.outbox,
            sequence=after.sequence,
            partly=partly,
        )
    )
    work.trace(points)
    work.commit()
