"""A run's status, in the shape that ``tocsin check --json`` promises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin.evaluation.checkpoint import Checkpoint, RuleRecord, Violation
from tocsin.evaluation.not_judged import NotJudged, missing_reads, why_not_judged
from tocsin.model import Severity
from tocsin.tensors import job_name


def document(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "run": checkpoint.run,
        "job": job_name(checkpoint.run),
        "finished": checkpoint.ended is not None,
        "steps": {
            "evaluated": checkpoint.steps,
            "first": checkpoint.first_step,
            "last": checkpoint.last_step,
        },
        "workers": list(checkpoint.workers),
        "not_judged": _not_judged(checkpoint.rules),
        "rules": [_rule(name, record) for name, record in checkpoint.rules.items()],
    }


def _not_judged(rules: Mapping[str, RuleRecord]) -> dict[str, list[str]]:
    """The names of the rules that have judged nothing, by the reason. Each is there once."""
    names: dict[str, list[str]] = {reason.value: [] for reason in NotJudged}
    for name, record in rules.items():
        if (reason := why_not_judged(record)) is not None:
            names[reason.value].append(name)
    return names


def _rule(name: str, record: RuleRecord) -> dict[str, Any]:
    return {
        "RuleConfigurationName": name,
        "Rule": record.rule,
        "RuleEvaluationStatus": record.status.value,
        "StatusDetails": record.details,
        "Severity": _severity(record),
        "FirstViolation": _violation(record.first_violation),
        "FiredAt": _violation(record.fired_at),
        "Violations": record.violations,
        "DataPoints": record.data_points,
        "Parameters": dict(record.parameters),
        "Missing": missing_reads(record),
    }


def _severity(record: RuleRecord) -> Severity | None:
    """As configured, else as the rule's last event has it.

    A rule that cannot be used has none configured, and older versions did not remember it.
    """
    if record.severity is None and record.last_change is not None:
        return record.last_change.severity
    return record.severity


def _violation(violation: Violation | None) -> dict[str, Any] | None:
    if violation is None:
        return None
    return {
        "step": violation.step,
        "mode": violation.mode.name,
        "mode_step": violation.mode_step,
        "worker": violation.worker,
        "tensor": violation.tensor,
        "reason": violation.reason,
        "evidence": dict(violation.evidence),
    }
