"""What is known of a run, in the shape that ``tocsin check --json`` promises."""

from __future__ import annotations

from typing import Any

from tocsin.evaluation._checkpoint import Checkpoint, RuleRecord
from tocsin.evaluation._news import Violation
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
        "rules": [_rule(name, record) for name, record in checkpoint.rules.items()],
    }


def _rule(name: str, record: RuleRecord) -> dict[str, Any]:
    first = record.first_violation
    return {
        "RuleConfigurationName": name,
        "Rule": record.rule,
        "RuleEvaluationStatus": record.status.value,
        "StatusDetails": record.details,
        "FirstViolation": _violation(first) if first else None,
        "Violations": record.violations,
        "DataPoints": record.data_points,
        "Parameters": dict(record.parameters),
    }


def _violation(violation: Violation) -> dict[str, Any]:
    return {
        "step": violation.step,
        "mode": violation.mode.name,
        "mode_step": violation.mode_step,
        "worker": violation.worker,
        "tensor": violation.tensor,
        "reason": violation.reason,
        "evidence": dict(violation.evidence),
    }
