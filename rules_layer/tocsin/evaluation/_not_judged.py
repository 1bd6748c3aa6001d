"""Which rules have judged nothing of a run so far, and why."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from tocsin.evaluation._checkpoint import RuleRecord
from tocsin.model import Role, RuleStatus
from tocsin.watch import Watched


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


def not_judged(rules: Mapping[str, RuleRecord]) -> dict[str, list[str]]:
    """The names of the rules that have judged nothing, by the reason. Each is there once."""
    names: dict[str, list[str]] = {reason.value: [] for reason in NotJudged}
    for name, record in rules.items():
        if (reason := why_not_judged(record)) is not None:
            names[reason.value].append(name)
    return names


def roles_read(rule: Watched) -> dict[str, tuple[Role, ...]]:
    """The roles that satisfy each read of the rule. None, if a tensor of the role is not enough:
    the rule asks for a name, a kind or a second worker, too.
    """
    narrowed = rule.options.include or rule.options.exclude or rule.reads.peers
    return {
        name: () if narrowed or read.kinds else read.roles
        for name, read in rule.reads.tensors.items()
    }
