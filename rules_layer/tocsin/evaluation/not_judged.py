"""The reasons why a rule has judged nothing."""

from __future__ import annotations

from enum import StrEnum

from tocsin.evaluation.records import RuleRecord
from tocsin.model import Role, RuleStatus

_BESIDE = {Role.OBJECTIVE, Role.SKILL, Role.LEARNING_RATE, Role.INTERVAL}  # read where known


class NotJudged(StrEnum):
    """The reasons why a rule has judged nothing.

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
    if record.status is RuleStatus.ERROR:
        return None
    if record.data_points:  # a finding that waits for a second look is none yet, and not healthy
        waits = record.fired_at is None and record.streak == record.data_points
        return NotJudged.TOO_FEW_STEPS if waits else None
    missing = [roles for roles in (record.missing or {}).values() if not _BESIDE & {*roles}]
    if record.applicable or (record.last_step is None and not missing):
        return NotJudged.TOO_FEW_STEPS
    if missing and all(Role.LOSS in roles for roles in missing):
        return NotJudged.NO_LOSS
    return NotJudged.NOT_CAPTURED


def missing_reads(record: RuleRecord) -> list[str]:
    """Return the reads of a rule that found nothing, which is why it judged nothing; else empty."""
    if why_not_judged(record) is not NotJudged.NOT_CAPTURED:
        return []
    missing = record.missing or {}
    return [name for name, roles in missing.items() if not _BESIDE & {*roles}] or [*missing]
