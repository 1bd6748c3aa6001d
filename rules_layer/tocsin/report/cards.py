"""A rule as the page shows it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tocsin.evaluation import Lane, Trace
from tocsin.model import RuleStatus
from tocsin.report.lanes import series_of, spans_of, violations_of
from tocsin.report.parts import RuleCard
from tocsin.report.verdict import Document, fired
from tocsin.rules import advice_for, find_rule, summary


def cards_of(document: Document, trace: Trace, marks: list[int]) -> list[RuleCard]:
    """Return all rules: those that fired, the cause first, others by name, not applicable ones
    last."""
    names = [rule["RuleConfigurationName"] for rule in fired(document)]
    cause = document["cause"] or {}
    likely = cause["RuleConfigurationName"] if cause.get("likely") else None
    last = document["steps"]["last"]

    def order(rule: Document) -> tuple[int, bool, str]:
        name, status = rule["RuleConfigurationName"], rule["RuleEvaluationStatus"]
        at = names.index(name) if name in names else len(names)
        return at, status == RuleStatus.NOT_APPLICABLE, name

    return [
        _card(rule, trace.lanes.get(rule["RuleConfigurationName"]), last, marks, likely)
        for rule in sorted(document["rules"], key=order)
    ]


def _card(
    rule: Document,
    lane: Lane | None,
    last: int | None,
    marks: list[int],
    likely: str | None,
) -> RuleCard:
    known = find_rule(rule["Rule"])
    shows = rule["RuleEvaluationStatus"] == RuleStatus.ISSUES_FOUND
    return RuleCard(
        name=rule["RuleConfigurationName"],
        rule=rule["Rule"],
        status=rule["RuleEvaluationStatus"],
        details=rule["StatusDetails"],
        severity=rule["Severity"],
        first_violation=_violation(rule["FirstViolation"]),
        fired_at=_violation(rule["FiredAt"]),
        violations=rule["Violations"],
        data_points=rule["DataPoints"],
        parameters={key: _jsonable(value) for key, value in rule["Parameters"].items()},
        summary=summary(known) if known else "",
        causes=known.causes if known else "",
        advice=advice_for(known, (rule["FirstViolation"] or {}).get("tensor")),
        explained_by=rule["ExplainedBy"],
        likely=rule["RuleConfigurationName"] == likely,
        spans=spans_of(lane, last),
        at=violations_of(lane),
        series=series_of(lane, marks, _label(rule)) if shows else None,
    )


def _label(rule: Document) -> str:
    """Return the first number of the evidence: the measure of the rule."""
    name = next(iter((rule["FiredAt"] or {}).get("evidence", ())), "")
    return CAPTIONS.get(name, name)


CAPTIONS = {"nan": "NaN elements", "abs_mean": "mean |value|"}
"""Names of numbers where a chart has more room."""


def _violation(violation: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if violation is None else {k: _jsonable(v) for k, v in violation.items()}


def _jsonable(value: Any) -> Any:
    """A value as JSON can carry it: no NaN, four digits."""
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else str(value)
    return value
