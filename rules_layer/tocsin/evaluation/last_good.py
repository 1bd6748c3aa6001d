"""The state of a training before the first sign of a fault, and what a stop has saved. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from tocsin.evaluation.checkpoint import Checkpoint
from tocsin.evaluation.planning import ReadyStep
from tocsin.evaluation.records import RuleRecord
from tocsin.events import LastGood, NotRun
from tocsin.model import RuleStatus, Severity
from tocsin.tensors import is_machine_run

_MOST_SAVED = 50  # checkpoints remembered


def with_saved(checkpoint: Checkpoint, ready: ReadyStep) -> Checkpoint:
    """Return the checkpoint of the evaluation with the training's checkpoints that a step names.

    A training that went back has no later ones. Of many, the newest are kept, and the last one
    before the first sign of a fault.
    """
    metas = [found.file.meta for found in ready.files if found.file.meta is not None]
    planned = max((meta.planned_steps or 0 for meta in metas), default=0) or checkpoint.planned
    named = [meta.checkpoint for meta in metas if meta.checkpoint is not None]
    saved = list(checkpoint.saved)
    if named and (new := max(named, key=lambda each: each.step)) not in saved:
        saved = [*(each for each in saved if each.step < new.step), new]
    if len(saved) > _MOST_SAVED:
        good = last_good(checkpoint)
        first = saved[0].step == (good.checkpoint_step if good else None)
        del saved[1 if first else 0]
    if tuple(saved) == checkpoint.saved and planned == checkpoint.planned:
        return checkpoint
    return replace(checkpoint, saved=tuple(saved), planned=planned)


def last_good(checkpoint: Checkpoint) -> LastGood | None:
    """Return the state before the first violation of all rules that fire as an alarm.

    None without such a rule, and for a machine run: no model goes back to one of its minutes.
    """
    if is_machine_run(checkpoint.run):
        return None
    fired = [record for record in checkpoint.rules.values() if _alarms(record)]
    first = min(fired, key=_first_sign, default=None)
    if first is None:
        return None
    sign = _first_sign(first)
    before = [each for each in checkpoint.saved if each.step < sign]
    newest = before[-1] if before else None
    return LastGood(
        sign,
        first.healthy_at,
        newest.path if newest else None,
        newest.step if newest else None,
    )


def not_run(checkpoint: Checkpoint) -> NotRun | None:
    """Return the steps that an ended run with an alarm has not run; None if it ran them all, or
    they are not known.
    """
    if checkpoint.ended is None or not any(map(_alarms, checkpoint.rules.values())):
        return None
    return left(checkpoint)


def left(checkpoint: Checkpoint) -> NotRun | None:
    """Return the planned steps after the last one; None without any, or if they are not known."""
    last, planned = checkpoint.last_step, checkpoint.planned
    if last is None or planned is None or last + 1 >= planned:
        return None
    steps, first, time = planned - last - 1, checkpoint.first_step, checkpoint.first_time
    if first is None or time is None or last <= first or checkpoint.last_time <= time:
        return NotRun(steps)
    hours = steps * (checkpoint.last_time - time) / (last - first) / 3600
    price = checkpoint.price
    return NotRun(steps, round(hours, 3), None if price is None else round(hours * price, 2))


def _alarms(record: RuleRecord) -> bool:
    fired = record.status is RuleStatus.ISSUES_FOUND and record.first_violation is not None
    return fired and record.severity is not Severity.INFO


def _first_sign(record: RuleRecord) -> int:
    return record.first_violation.step if record.first_violation else 0
