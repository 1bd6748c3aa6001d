"""A run's status, in the shape that ``tocsin check --json`` promises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from tocsin.causes import Finding, Lead, causes_first
from tocsin.evaluation.checkpoint import Checkpoint
from tocsin.evaluation.last_good import last_good, not_run
from tocsin.evaluation.not_judged import NotJudged, missing_reads, why_not_judged
from tocsin.evaluation.records import RuleRecord, Violation
from tocsin.model import RuleStatus, Severity
from tocsin.tensors import job_name


def document(checkpoint: Checkpoint) -> dict[str, Any]:
    found = {
        "run": checkpoint.run,
        "job": job_name(checkpoint.run),
        "finished": checkpoint.ended is not None,
        "TrainingJobStatus": checkpoint.job_status,
        "steps": {
            "evaluated": checkpoint.steps,
            "first": checkpoint.first_step,
            "last": checkpoint.last_step,
        },
        "workers": list(checkpoint.workers),
        "not_judged": _not_judged(checkpoint.rules),
        "rules": [_rule(name, record) for name, record in checkpoint.rules.items()],
        "last_good": msgspec.to_builtins(last_good(checkpoint)),
        "not_run": msgspec.to_builtins(not_run(checkpoint)),
    }
    return with_cause(found)


def state_of(found: Mapping[str, Any]) -> Literal["running", "finished", "failed"]:
    """Return the state of a run, by its document."""
    if not found["finished"]:
        return "running"
    return "failed" if found.get("TrainingJobStatus") == "Failed" else "finished"


def with_cause(found: dict[str, Any]) -> dict[str, Any]:
    """Return the document with its ``cause``, and in each rule the finding that explains it."""
    leads = leads_of(found)
    by = {each.name: lead.finding.name for lead in leads for each in lead.explains}
    rules = [
        {**rule, "ExplainedBy": by.get(rule["RuleConfigurationName"])} for rule in found["rules"]
    ]
    return {**found, "cause": _cause(leads), "rules": rules}


def leads_of(found: Mapping[str, Any]) -> tuple[Lead, ...]:
    """Return the findings of a run that lead, in order, each with what it explains."""
    status = RuleStatus.ISSUES_FOUND.value
    fired = (rule for rule in found["rules"] if rule["RuleEvaluationStatus"] == status)
    return causes_first(map(_finding, fired))


def _finding(rule: Mapping[str, Any]) -> Finding:
    first, severity = rule["FirstViolation"] or {}, rule["Severity"] or Severity.WARNING
    name, kind = rule["RuleConfigurationName"], rule["Rule"]
    return Finding(name, kind, Severity(severity), first.get("step"), first.get("tensor"))


def _cause(leads: tuple[Lead, ...]) -> dict[str, Any] | None:
    """The finding that leads, if there is an alarm."""
    if not leads or not leads[0].alarms:
        return None
    return {"RuleConfigurationName": leads[0].finding.name, "likely": leads[0].likely}


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
