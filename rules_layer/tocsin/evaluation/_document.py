"""What is known of a run, in the shape that ``tocsin check --json`` promises."""

from __future__ import annotations

from typing import Any

from tocsin.evaluation._checkpoint import Checkpoint, RuleRecord, Violation
from tocsin.evaluation._not_judged import not_judged
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
        "not_judged": not_judged(checkpoint.rules),
        "rules": [_rule(name, record) for name, record in checkpoint.rules.items()],
    }


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
    }


def _severity(record: RuleRecord) -> Severity | None:
    """As configured; of a rule that cannot be used, as its alert has it. Older versions did not
    remember it.
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
