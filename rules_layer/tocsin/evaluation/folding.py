"""Fold: (checkpoint, step) → checkpoint', with the status changes in its outbox. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from tocsin.evaluation.checkpoint import Checkpoint
from tocsin.evaluation.judging import is_idle, judged
from tocsin.evaluation.last_good import with_saved
from tocsin.evaluation.planning import ReadyStep
from tocsin.evaluation.records import RuleRecord
from tocsin.evaluation.status_changes import is_news, reopen, superseding, with_record
from tocsin.model import RuleStatus, Verdict
from tocsin.rules import Step
from tocsin.tensors import parse_index_key
from tocsin.watch import Watched

_MOST_RESTARTS = 20  # remembered
_MOST_INCOMPLETE = 100
_MOST_WORKERS = 10_000

T = TypeVar("T")

OnVerdict = Callable[[str, Step, Verdict, RuleStatus], None]
"""Gets the name of a rule in the configuration, the step, the verdict and the status after it."""


def ignore(rule: str, step: Step, verdict: Verdict, status: RuleStatus) -> None:
    """Take a verdict, and do nothing with it."""


def advance(checkpoint: Checkpoint, ready: ReadyStep) -> Checkpoint:
    """Return the checkpoint with its frontier at a step and the step counted; rules come after
    that."""
    refused = {
        key: why for key, why in checkpoint.refused.items() if not _is_at_or_before(key, ready.step)
    }
    partly = checkpoint.partly
    after = replace(
        checkpoint,
        frontier=ready.step,
        partly=partly if partly is not None and partly.step > ready.step else None,
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
    after = with_saved(_with_workers(_with_starts(after, ready), ready), ready)
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
    run_ids = _newest({**present, **starts})
    metas = [f.file.meta for f in ready.files if f.file.meta is not None]
    began = {meta.run_id: meta.started for meta in metas if meta.started is not None}
    current = {*run_ids.values()}
    return replace(
        checkpoint,
        run_ids=run_ids,
        began={
            start: at for start, at in {**checkpoint.began, **began}.items() if start in current
        },
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
    """Return the checkpoint after each rule has judged a step, or a tick.

    ``steps`` has the step as each rule sees it, by the rule's name in the configuration. Rules
    without one are not evaluated. ``on_verdict`` gets each verdict.
    """
    records: dict[str, RuleRecord] = {}  # whose status is as it was: they go in at once
    for rule in watched:
        if (step := steps.get(rule.name)) is not None:
            if on_verdict is ignore and is_idle(checkpoint.rules[rule.name], rule, step):
                continue
            after, verdict = judged(checkpoint, rule, step)
            if verdict is not None:
                on_verdict(rule.name, step, verdict, after.status)
            if not is_news(after, checkpoint.rules[rule.name]):
                records[rule.name] = after
            else:
                checkpoint = with_record(checkpoint, rule, after, step)
    return replace(checkpoint, rules={**checkpoint.rules, **records}) if records else checkpoint


def skip(checkpoint: Checkpoint, watched: Iterable[Watched], step: Step, reason: str) -> Checkpoint:
    """Return the checkpoint after a step that cannot be evaluated: rules without a finding are in
    Error."""
    for rule in watched:
        record = checkpoint.rules[rule.name]
        if record.status is RuleStatus.IN_PROGRESS:
            after = replace(record, status=RuleStatus.ERROR, details=reason)
            checkpoint = with_record(checkpoint, rule, after, step)
    return checkpoint
